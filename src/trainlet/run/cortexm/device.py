# SPDX-License-Identifier: Apache-2.0
"""One microcontroller with a firmware image in its flash, run by unicorn."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from unicorn import Uc, UcError
from unicorn import unicorn_const as uc
from unicorn.arm_const import (
    UC_ARM_REG_LR,
    UC_ARM_REG_PC,
    UC_ARM_REG_SP,
    UC_CPU_ARM_CORTEX_M0,
    UC_CPU_ARM_CORTEX_M4,
    UC_CPU_ARM_CORTEX_M7,
)

from trainlet.errors import TrainletError
from trainlet.run.cortexm.alignment import AlignmentWatch
from trainlet.run.cortexm.counting import InstructionCounter
from trainlet.run.cortexm.faults import FaultWatch
from trainlet.run.firmware import Firmware
from trainlet.run.library import EmittedLibrary, checked_label, image_bytes, trainable_block

# unicorn has no Cortex-M0+; it differs from the M0 in timing and optional parts alone.
_MODELS = {
    "cortex-m7": UC_CPU_ARM_CORTEX_M7,
    "cortex-m4": UC_CPU_ARM_CORTEX_M4,
    "cortex-m0plus": UC_CPU_ARM_CORTEX_M0,
}
_PAGE = 4096
_SYSTEM_CONTROL_SPACE = 0xE000E000
_PAINT = 0xA5
# Parts of the image that belong to the test bench and not to the library.
_BENCH = ("main", "trainlet_wait")

# `struct trainlet_mailbox` of firmware/main.c: offsets of its members.
_COMMAND, _LABEL, _SEED, _RATES, _STATUS, _LOSS, _INPUT, _LOGITS, _TRAINABLES = (
    0, 4, 8, 12, 20, 24, 28, 32, 36,
)  # fmt: skip
_INIT, _PREDICT, _TRAIN_STEP, _SET_LEARNING_RATE = 1, 2, 3, 4


class EmulatedDevice:
    """A booted device whose program waits for commands. See `Machine`.

    RAM is mapped to its exact size and flash is read-only, so an access outside them faults.
    A fault raises TrainletError that names the function, the offset and the address; the device
    cannot run on from there. Peripherals other than the system control space do not exist.
    """

    def __init__(
        self,
        firmware: Firmware,
        *,
        instruction_limit: int = 20_000_000_000,
        check_alignment: bool = False,
        cache: Path | None = None,
    ) -> None:
        """Flash, paint the stack and run from reset until the program waits.

        `instruction_limit` holds for each command; more raises TrainletError. The emulator lets
        unaligned accesses pass that a real core traps; `check_alignment` finds them and is fifty
        times slower.
        """
        self._firmware = firmware
        self._limit = instruction_limit
        self._emulator = emulator = Uc(uc.UC_ARCH_ARM, uc.UC_MODE_THUMB | uc.UC_MODE_MCLASS)
        emulator.ctl_set_cpu_model(_MODELS[firmware.core])
        self._map_memory()
        self._faults = FaultWatch(firmware, emulator)
        self._counter = InstructionCounter(firmware, emulator, cache)
        self._alignment = AlignmentWatch(firmware, emulator, cache) if check_alignment else None
        address = firmware.symbols.address
        self._wait = address("trainlet_wait")
        self._mailbox = address("trainlet_mailbox")
        stack, reset = struct.unpack("<II", emulator.mem_read(firmware.memory.flash_origin, 8))
        emulator.reg_write(UC_ARM_REG_SP, stack)
        self._run(reset)

    @property
    def library(self) -> EmittedLibrary:
        """The library that runs."""
        return self._firmware.library

    @property
    def firmware(self) -> Firmware:
        """The image in flash."""
        return self._firmware

    def init(self, seed: int = 0) -> None:
        """Put the weights back to those the library was built with; `seed` starts the generator."""
        self._write(self._mailbox + _SEED, struct.pack("<I", seed))
        self._command(_INIT)

    def set_learning_rate(self, backbone: float, head: float) -> None:
        """Set the rates of the int8 layers and of the float32 head."""
        self._write(self._mailbox + _RATES, struct.pack("<ff", backbone, head))
        self._command(_SET_LEARNING_RATE)

    def predict(self, image: ArrayLike) -> int:
        """Run forward on one image; return the status."""
        self._write_image(image)
        self._command(_PREDICT)
        return self._status()

    def train_step(self, image: ArrayLike, label: int) -> int:
        """Learn from one image; return the status."""
        self._write_image(image)
        self._write(self._mailbox + _LABEL, struct.pack("<I", checked_label(label)))
        self._command(_TRAIN_STEP)
        return self._status()

    def logits(self) -> NDArray[np.float32]:
        """Return a copy of the logits of the last call, [classes]."""
        raw = self._read(self._pointer(_LOGITS), 4 * self.library.classes)
        return np.frombuffer(raw, np.dtype("<f4")).astype(np.float32)

    def loss(self) -> float:
        """Return the loss of the last training step."""
        (value,) = struct.unpack("<f", self._read(self._mailbox + _LOSS, 4))
        return float(value)

    def trainables(self) -> NDArray[np.uint8]:
        """Return a copy of everything that learns, [trainable_bytes]."""
        raw = self._read(self._pointer(_TRAINABLES), self.library.trainable_bytes)
        return np.frombuffer(raw, np.uint8).copy()

    def set_trainables(self, block: ArrayLike) -> None:
        """Overwrite everything that learns with a block that `trainables` returned."""
        self._write(self._pointer(_TRAINABLES), trainable_block(block, self.library).tobytes())

    def instructions(self) -> int:
        """Return the instructions the library's last call retired, the test bench left out."""
        counts = self._counter.by_function()
        return self._counter.total - sum(counts.get(name, 0) for name in _BENCH)

    def instructions_by_function(self) -> dict[str, int]:
        """Return `instructions` by function, the most expensive first."""
        counts = self._counter.by_function()
        return {name: count for name, count in counts.items() if name not in _BENCH}

    def stack_high_water(self) -> int:
        """Return the most bytes of stack used since reset, the bench's own frames included."""
        size = self._firmware.sizes.stack
        stack = np.frombuffer(self._read(self._firmware.memory.ram_origin, size), np.uint8)
        used = np.flatnonzero(stack != _PAINT)
        return size - int(used[0]) if used.size else 0

    def _map_memory(self) -> None:
        memory, emulator = self._firmware.memory, self._emulator
        for name, origin, size in (
            ("flash", memory.flash_origin, memory.flash_bytes),
            ("RAM", memory.ram_origin, memory.ram_bytes),
        ):
            if origin % _PAGE or size % _PAGE:
                raise TrainletError(
                    f"{name} of {size} bytes at {origin:#010x} cannot be emulated: both must be"
                    f" multiples of {_PAGE}"
                )
        emulator.mem_map(memory.flash_origin, memory.flash_bytes, uc.UC_PROT_READ | uc.UC_PROT_EXEC)
        emulator.mem_map(memory.ram_origin, memory.ram_bytes, uc.UC_PROT_READ | uc.UC_PROT_WRITE)
        # Where the program turns its floating-point unit on.
        emulator.mem_map(_SYSTEM_CONTROL_SPACE, _PAGE, uc.UC_PROT_READ | uc.UC_PROT_WRITE)
        emulator.mem_write(memory.flash_origin, b"\xff" * memory.flash_bytes)
        for start, content in self._firmware.segments:
            emulator.mem_write(start, content)
        emulator.mem_write(memory.ram_origin, bytes([_PAINT]) * self._firmware.sizes.stack)

    def _command(self, command: int) -> None:
        """Hand over a command and run until the program waits again."""
        self._write(self._mailbox + _COMMAND, struct.pack("<I", command))
        # The program stands at the first instruction of trainlet_wait: return for it.
        self._run(int(self._emulator.reg_read(UC_ARM_REG_LR)))

    def _run(self, start: int) -> None:
        self._faults.start()
        self._counter.start(self._limit)
        if self._alignment is not None:
            self._alignment.start()
        reason: UcError | None = None
        try:
            self._emulator.emu_start(start | 1, self._wait)
        except UcError as error:
            reason = error
        pc = int(self._emulator.reg_read(UC_ARM_REG_PC))
        if reason is not None or self._faults.happened:
            raise self._faults.error(reason)
        if self._alignment is not None and self._alignment.found is not None:
            raise self._faults.unaligned(*self._alignment.found)
        if pc != self._wait:
            place = self._firmware.symbols.describe(pc)
            why = (
                f"more than {self._limit} instructions ran"
                if self._counter.passed_limit
                else "the emulator stopped"
            )
            raise TrainletError(f"the firmware did not finish a command: {why}, last in {place}")

    def _status(self) -> int:
        (value,) = struct.unpack("<i", self._read(self._mailbox + _STATUS, 4))
        return int(value)

    def _write_image(self, image: ArrayLike) -> None:
        self._write(self._pointer(_INPUT), image_bytes(image, self.library).tobytes())

    def _pointer(self, member: int) -> int:
        (value,) = struct.unpack("<I", self._read(self._mailbox + member, 4))
        return int(value)

    def _read(self, address: int, size: int) -> bytes:
        return bytes(self._emulator.mem_read(address, size))

    def _write(self, address: int, data: bytes) -> None:
        self._emulator.mem_write(address, data)
