# SPDX-License-Identifier: Apache-2.0
"""Find the unaligned accesses that a real core traps and the emulator lets pass."""

from __future__ import annotations

import ctypes
from pathlib import Path

from unicorn import Uc
from unicorn.arm_const import UC_ARM_REG_PC
from unicorn.unicorn_const import UC_HOOK_MEM_READ, UC_HOOK_MEM_WRITE

from trainlet.run.cortexm.native import READ_REGISTER, STOP, attach, code_of
from trainlet.run.firmware import Firmware


class _Watch(ctypes.Structure):
    """`struct watch` of check_alignment.c."""

    _fields_ = (
        ("origin", ctypes.c_uint64),
        ("halfwords", ctypes.c_uint64),
        ("code", ctypes.c_void_p),
        ("read_register", ctypes.c_void_p),
        ("stop", ctypes.c_void_p),
        ("pc", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
        ("program_counter", ctypes.c_int32),
        ("bytes", ctypes.c_int32),
        ("any", ctypes.c_int32),
    )


class AlignmentWatch:
    """Stops the emulation at the first access that the real core would trap.

    ARMv6-M traps every unaligned access, ARMv7-M those of LDM, LDRD, VLDR and their like.
    """

    def __init__(self, firmware: Firmware, emulator: Uc, cache: Path | None = None) -> None:
        """Attach to the emulator; it must not outlive this object."""
        self._code = code_of(firmware)
        self._watch = _Watch(
            origin=firmware.memory.flash_origin,
            halfwords=self._code.size,
            code=self._code.ctypes.data,
            read_register=READ_REGISTER,
            stop=STOP,
            program_counter=UC_ARM_REG_PC,
            any=firmware.core == "cortex-m0plus",
        )
        kinds = UC_HOOK_MEM_READ | UC_HOOK_MEM_WRITE
        attach(emulator, kinds, "check_alignment", self._watch, cache)

    def start(self) -> None:
        """Forget what an earlier run did."""
        self._watch.pc = 0

    @property
    def found(self) -> tuple[int, int, int] | None:
        """(program counter, address, bytes) of the first bad access since `start`, or None."""
        if self._watch.pc == 0:
            return None
        return int(self._watch.pc), int(self._watch.address), int(self._watch.bytes)
