# SPDX-License-Identifier: Apache-2.0
"""Which C compiler, and with which flags for which core."""

from __future__ import annotations

import functools
import importlib.util
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from trainlet.errors import TrainletError

HOST = "host"

COMMON_FLAGS = (
    "-std=c11",
    "-O3",
    # zig keeps the frame pointer by default, which costs a register of fourteen on a Cortex-M.
    "-fomit-frame-pointer",
    # Every product and every sum rounds once, so that all machines get the same bits.
    "-ffp-contract=off",
    "-fno-builtin",
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Werror",
    "-ffunction-sections",
    "-fdata-sections",
)
FREESTANDING_FLAGS = (
    "-ffreestanding",
    "-fno-unwind-tables",
    "-fno-asynchronous-unwind-tables",
)

_ZIG_TARGETS = {
    "cortex-m7": ("thumb-freestanding-eabihf", "cortex_m7+fp_armv8d16sp"),
    "cortex-m4": ("thumb-freestanding-eabihf", "cortex_m4+vfp4d16sp"),
    "cortex-m0plus": ("thumb-freestanding-eabi", "cortex_m0plus"),
}
_GCC_TARGETS = {
    "cortex-m7": ("-mcpu=cortex-m7", "-mthumb", "-mfpu=fpv5-sp-d16", "-mfloat-abi=hard"),
    "cortex-m4": ("-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"),
    "cortex-m0plus": ("-mcpu=cortex-m0plus", "-mthumb", "-mfloat-abi=soft"),
}
FIRMWARE_CORES = tuple(_ZIG_TARGETS)


@dataclass(frozen=True)
class Toolchain:
    """A compiler command, the flags that choose its target, and a text that names its version."""

    core: str
    command: tuple[str, ...]
    target_flags: tuple[str, ...]
    identity: str
    is_zig: bool

    @property
    def compile_flags(self) -> tuple[str, ...]:
        """Flags for one object of the emitted library."""
        own = ("-fPIC",) if self.core == HOST else FREESTANDING_FLAGS
        return (*self.target_flags, *COMMON_FLAGS, *own)


def find_toolchain(core: str, cc: str | None = None) -> Toolchain:
    """Return the compiler for `core`: `cc` where given, else the zig that pip installed.

    `cc` is a compiler's name or path, or a cross prefix that ends in "-" (arm-none-eabi-).
    Raises TrainletError for an unknown core or a compiler that cannot be found.
    """
    if core != HOST and core not in FIRMWARE_CORES:
        known = ", ".join((HOST, *FIRMWARE_CORES))
        raise TrainletError(f"no firmware can be built for core {core!r}; known: {known}")
    if cc is None:
        command, identity = _zig()
        return Toolchain(core, command, _zig_target(core), identity, is_zig=True)
    name = cc + "gcc" if cc.endswith("-") else cc
    path = shutil.which(name)
    if path is None:
        raise TrainletError(f"compiler {name!r} was not found; install it or leave --cc out")
    flags = () if core == HOST else _GCC_TARGETS[core]
    return Toolchain(core, (path,), flags, _version(path), is_zig=False)


def _zig_target(core: str) -> tuple[str, ...]:
    if core != HOST:
        target, cpu = _ZIG_TARGETS[core]
        return ("-target", target, f"-mcpu={cpu}")
    if sys.platform != "linux":
        return ()
    # Named rather than native: zig then brings its own headers and needs no system package.
    machine = {"arm64": "aarch64", "amd64": "x86_64"}.get(
        platform.machine().lower(), platform.machine().lower()
    )
    if machine == "x86_64" and _has_avx2():
        return ("-target", "x86_64-linux-gnu", "-mcpu=x86_64_v3")
    return ("-target", f"{machine}-linux-gnu") if machine in ("x86_64", "aarch64") else ()


@functools.cache
def _has_avx2() -> bool:
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    except OSError:
        return False
    return {"avx2", "fma", "bmi2", "movbe", "f16c", "abm"} <= set(flags)


@functools.cache
def _zig() -> tuple[tuple[str, ...], str]:
    """Return the command `zig cc` and its version."""
    spec = importlib.util.find_spec("ziglang")
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    for place in places:
        binary = Path(place) / ("zig.exe" if sys.platform == "win32" else "zig")
        if binary.exists():
            return (str(binary), "cc"), "zig " + _first_line([str(binary), "version"])
    raise TrainletError("no C compiler: `pip install ziglang`, or name one with --cc")


@functools.cache
def _version(path: str) -> str:
    return f"{path} {_first_line([path, '--version'])}"


def _first_line(command: list[str]) -> str:
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise TrainletError(f"compiler {command[0]} does not run: {error}") from error
    return (result.stdout.splitlines() or [""])[0]
