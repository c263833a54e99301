# SPDX-License-Identifier: Apache-2.0
"""Builds the kernels and calls them, on this machine or on an emulated Cortex-M.

`Host` and `Device` have one method in common, ``call(name, *arguments)``.  An argument is an
int, a float, None (a null pointer), a numpy array (the kernel may write into it) or one of the
structures below.  Two arrays that are views of one array overlap in the kernel's memory as they
do here, so that a test of placement in place is a test with two views.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shlex
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import trainlet.emit

SOURCES = Path(trainlet.emit.__file__).parent / "kernels"
COMMON = ["-std=c11", "-O3", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-ffp-contract=off"]
COMMON += ["-fno-builtin", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables"]
ZIG = [sys.executable, "-m", "ziglang", "cc"]
HARD = "thumb-freestanding-eabihf"
CORES = {
    "m7": ["-target", HARD, "-mcpu=cortex_m7+fp_armv8d16sp"],
    "m7-intrinsics": ["-target", HARD, "-mcpu=cortex_m7+fp_armv8d16sp", "-DTL_USE_ASM=0"],
    "m4": ["-target", HARD, "-mcpu=cortex_m4+vfp4d16sp"],
    "m0plus": ["-target", "thumb-freestanding-eabi", "-mcpu=cortex_m0plus"],
}
RAM, RAM_SIZE, STACK_SIZE = 0x20000000, 0x01000000, 0x10000


# ---- structures ---------------------------------------------------------------------------

Place = Callable[["np.ndarray[Any, Any] | None"], int]


@dataclass
class Conv:
    """`tl_conv`; the arrays are numpy arrays or None."""

    in_h: int
    in_w: int
    in_c: int
    out_h: int
    out_w: int
    out_c: int
    kernel_h: int = 1
    kernel_w: int = 1
    stride_h: int = 1
    stride_w: int = 1
    pad_top: int = 0
    pad_left: int = 0
    groups: int = 1
    kept: int = 0
    in_zero: int = 0
    out_zero: int = 0
    clamp_min: int = -128
    clamp_max: int = 127
    order: np.ndarray[Any, Any] | None = None
    multiplier: np.ndarray[Any, Any] | None = None
    shift: np.ndarray[Any, Any] | None = None

    def pack(self, wide: bool, place: Place) -> bytes:
        fixed = struct.pack(
            "<14H4h",
            *(self.in_h, self.in_w, self.in_c, self.out_h, self.out_w, self.out_c),
            *(self.kernel_h, self.kernel_w, self.stride_h, self.stride_w),
            *(self.pad_top, self.pad_left, self.groups, self.kept),
            *(self.in_zero, self.out_zero, self.clamp_min, self.clamp_max),
        )
        pointers = [place(array) for array in (self.order, self.multiplier, self.shift)]
        return fixed + struct.pack("<4x3Q" if wide else "<3I", *pointers)


@dataclass
class Sgd:
    """`tl_sgd`."""

    scale: np.ndarray[Any, Any]
    learning_rate: float
    key: int

    def pack(self, wide: bool, place: Place) -> bytes:
        return struct.pack(
            "<QfI" if wide else "<IfI", place(self.scale), self.learning_rate, self.key
        )


@dataclass
class Add:
    """`tl_add`."""

    multiplier_a: int
    multiplier_b: int
    offset: int
    clamp_min: int
    clamp_max: int
    shift: int

    def pack(self, wide: bool, place: Place) -> bytes:
        values = (self.multiplier_a, self.multiplier_b, self.offset)
        return struct.pack("<3i2hB3x", *values, self.clamp_min, self.clamp_max, self.shift)


@dataclass
class AddExact:
    """`tl_add_exact`."""

    multipliers: tuple[int, int, int]
    shifts: tuple[int, int, int]
    zeros: tuple[int, int, int]
    clamp_min: int
    clamp_max: int

    def pack(self, wide: bool, place: Place) -> bytes:
        clamp = (self.clamp_min, self.clamp_max)
        return struct.pack("<3i3bx3h2h2x", *self.multipliers, *self.shifts, *self.zeros, *clamp)


@dataclass
class Pool:
    """`tl_pool`."""

    in_h: int
    in_w: int
    channels: int
    out_h: int
    out_w: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    pad_top: int
    pad_left: int

    def pack(self, wide: bool, place: Place) -> bytes:
        values = (self.in_h, self.in_w, self.channels, self.out_h, self.out_w, self.kernel_h)
        more = (self.kernel_w, self.stride_h, self.stride_w, self.pad_top, self.pad_left)
        return struct.pack("<11H", *values, *more)


# ---- building -----------------------------------------------------------------------------


def _scratch_directory() -> Path:
    directory = Path(tempfile.gettempdir()) / f"trainlet-test-kernels-{os.getuid()}"
    directory.mkdir(exist_ok=True)
    return directory


def _run(command: Sequence[str | Path]) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"{shlex.join(map(str, command))}\n{done.stderr}")


def _cached(name: str, command: Sequence[str], inputs: Sequence[Path], tail: Sequence[str]) -> Path:
    """The file that `command` -o makes of `inputs`, made once for each content of the inputs."""
    digest = hashlib.sha256(repr((command, tail)).encode())
    for path in [*inputs, *sorted(SOURCES.glob("*.h"))]:
        digest.update(path.name.encode() + path.read_bytes())
    made = _scratch_directory() / f"{digest.hexdigest()[:24]}-{name}"
    if not made.exists():
        half = made.with_name(f"{os.getpid()}-{made.name}")
        _run([*command, *map(str, inputs), "-o", str(half), *tail])
        half.rename(made)
    return made


def sources(names: Sequence[str] = ()) -> list[Path]:
    """The C files of the kernels called `names`; all kernels where there are none."""
    return [SOURCES / f"{name}.c" for name in names] if names else sorted(SOURCES.glob("*.c"))


def compile_object(source: Path, core: str) -> Path:
    """`source` as an object file for `core` (m7, m4, m0plus)."""
    flags = [*CORES[core], *COMMON, "-fomit-frame-pointer", "-c"]
    return _cached(f"{source.stem}-{core}.o", [*ZIG, *flags], [source], [])


def host_library(names: Sequence[str] = (), flags: Sequence[str] = ()) -> Path:
    """A shared library of the kernels for this machine, compiled with `flags` besides ours.

    TRAINLET_TEST_CC replaces the compiler, for instance by ``gcc -fsanitize=address,undefined``.
    """
    compiler = shlex.split(os.environ.get("TRAINLET_TEST_CC", "")) or ZIG
    command = [*compiler, *COMMON, *flags]
    objects = [
        _cached(f"{path.stem}.o", [*command, "-fPIC", "-c"], [path], []) for path in sources(names)
    ]
    return _cached("libtrainlet.so", [*compiler, "-shared"], objects, [])


def device_image(core: str, names: Sequence[str] = ()) -> Path:
    """An ELF image for `core` that holds the kernels and the compiler's helpers."""
    objects = [compile_object(path, core) for path in sources(names)]
    entry = objects[0].stem.removesuffix(f"-{core}").split("-")[1]
    link = [*ZIG, *CORES[core], "-nostdlib", f"-Wl,-e,{entry}", "-Wl,--no-gc-sections"]
    return _cached(f"kernels-{core}.elf", link, objects, ["-lcompiler_rt"])


# ---- memory ---------------------------------------------------------------------------------


def _root(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def aligned(count: int, kind: Any, fill: int | None = None) -> np.ndarray[Any, Any]:
    """A new array whose data are aligned to 16 bytes; filled with noise, or with `fill`."""
    size = count * np.dtype(kind).itemsize
    raw = np.random.default_rng(7).integers(0, 256, size + 16, dtype=np.uint8)
    if fill is not None:
        raw[:] = fill
    start = -raw.ctypes.data % 16
    return raw[start : start + size].view(kind)


# ---- calling ----------------------------------------------------------------------------------


@dataclass
class Host:
    """The kernels on this machine."""

    names: Sequence[str] = ()
    flags: Sequence[str] = ()
    library: ctypes.CDLL = field(init=False)

    def __post_init__(self) -> None:
        self.library = ctypes.CDLL(str(host_library(self.names, self.flags)))

    def call(self, name: str, *arguments: Any, returns: type | None = None) -> Any:
        """Calls the kernel; `returns` is float for a kernel that returns one."""
        held: list[Any] = []

        def place(array: np.ndarray[Any, Any] | None) -> int:
            return 0 if array is None else array.ctypes.data

        def convert(argument: Any) -> Any:
            if argument is None or isinstance(argument, np.ndarray):
                return ctypes.c_void_p(place(argument))
            if hasattr(argument, "pack"):
                held.append(ctypes.create_string_buffer(argument.pack(True, place)))
                return ctypes.c_void_p(ctypes.addressof(held[-1]))
            if isinstance(argument, float):
                return ctypes.c_float(argument)
            return ctypes.c_size_t(argument & (2**64 - 1))

        function = getattr(self.library, name)
        function.restype = ctypes.c_float if returns is float else None
        return function(*[convert(argument) for argument in arguments])


class Device:
    """The kernels on an emulated Cortex-M; `instructions` counts those of the last call."""

    def __init__(self, core: str = "m7", names: Sequence[str] = ()) -> None:
        from unicorn import UC_ARCH_ARM, UC_HOOK_BLOCK, UC_MODE_MCLASS, UC_MODE_THUMB, Uc
        from unicorn import arm_const as arm

        self.arm, self.core = arm, core
        self.instructions = 0
        self._lengths: dict[tuple[int, int], int] = {}
        self.machine = Uc(UC_ARCH_ARM, UC_MODE_THUMB | UC_MODE_MCLASS)
        models = {"m7": "M7", "m7-intrinsics": "M7", "m4": "M4", "m0plus": "M0"}
        self.machine.ctl_set_cpu_model(getattr(arm, f"UC_CPU_ARM_CORTEX_{models[core]}"))
        self.symbols = self._load(device_image(core, names))
        self.machine.mem_map(RAM, RAM_SIZE)
        self.machine.hook_add(UC_HOOK_BLOCK, self._count)

    def _load(self, path: Path) -> dict[str, int]:
        from elftools.elf.elffile import ELFFile

        with path.open("rb") as file:
            elf = ELFFile(file)
            loads = [part for part in elf.iter_segments() if part["p_type"] == "PT_LOAD"]
            end = max(part["p_vaddr"] + part["p_memsz"] for part in loads)
            self._stop = (end + 0xFFF) & ~0xFFF
            self.machine.mem_map(0, self._stop + 0x1000)
            for part in loads:
                self.machine.mem_write(part["p_vaddr"], part.data())
            table = elf.get_section_by_name(".symtab")
            return {symbol.name: symbol["st_value"] for symbol in table.iter_symbols()}

    def _count(self, machine: Any, address: int, size: int, _: object) -> None:
        if address >= self._stop:
            return
        count = self._lengths.get((address, size))
        if count is None:
            code = bytes(machine.mem_read(address, size))
            at = count = 0
            while at < size:
                at += 4 if code[at + 1] >> 3 in (0b11101, 0b11110, 0b11111) else 2
                count += 1
            self._lengths[address, size] = count
        self.instructions += count

    def call(self, name: str, *arguments: Any, returns: type | None = None) -> Any:
        """Copies the arrays over, calls the kernel, and copies the arrays back."""
        roots: dict[int, tuple[np.ndarray[Any, Any], int]] = {}
        free = RAM

        def reserve(size: int) -> int:
            nonlocal free
            at = free
            free = (free + size + 64 + 15) & ~15
            assert free < RAM + RAM_SIZE - STACK_SIZE
            return at

        def place(array: np.ndarray[Any, Any] | None) -> int:
            if array is None:
                return 0
            root = _root(array)
            if id(root) not in roots:
                at = reserve(root.nbytes + 16) + root.ctypes.data % 16
                self.machine.mem_write(at, root.tobytes())
                roots[id(root)] = (root, at)
            return roots[id(root)][1] + array.ctypes.data - root.ctypes.data

        words: list[int] = []
        floats: list[int] = []
        for argument in arguments:
            if argument is None or isinstance(argument, np.ndarray):
                words.append(place(argument))
            elif hasattr(argument, "pack"):
                packed = argument.pack(False, place)
                words.append(reserve(len(packed)))
                self.machine.mem_write(words[-1], packed)
            elif isinstance(argument, float):
                bits = struct.unpack("<I", struct.pack("<f", argument))[0]
                (words if self.core == "m0plus" else floats).append(bits)
            else:
                words.append(argument & 0xFFFFFFFF)
        self._enter(self.symbols[name], words, floats)
        for root, at in roots.values():
            raw = np.frombuffer(bytes(self.machine.mem_read(at, root.nbytes)), np.uint8)
            root.reshape(-1).view(np.uint8)[:] = raw
        if returns is float:
            register = self.arm.UC_ARM_REG_R0 if self.core == "m0plus" else self.arm.UC_ARM_REG_S0
            bits = self.machine.reg_read(register) & 0xFFFFFFFF
            return struct.unpack("<f", struct.pack("<I", bits))[0]
        return None

    def _enter(self, address: int, words: list[int], floats: list[int]) -> None:
        arm, machine = self.arm, self.machine
        stack = RAM + RAM_SIZE - STACK_SIZE // 2
        for index, word in enumerate(words[4:]):
            machine.mem_write(stack + 4 * index, struct.pack("<I", word))
        for index, word in enumerate(words[:4]):
            machine.reg_write(arm.UC_ARM_REG_R0 + index, word)
        for index, word in enumerate(floats):
            machine.reg_write(arm.UC_ARM_REG_S0 + index, word)
        machine.reg_write(arm.UC_ARM_REG_SP, stack)
        machine.reg_write(arm.UC_ARM_REG_LR, self._stop | 1)
        self.instructions = 0
        machine.emu_start(address | 1, self._stop)


@cache
def host(names: tuple[str, ...] = (), flags: tuple[str, ...] = ()) -> Host:
    """One `Host` a session."""
    return Host(names, flags)


@cache
def device(core: str, names: tuple[str, ...] = ()) -> Device:
    """One `Device` a core and a session."""
    return Device(core, names)
