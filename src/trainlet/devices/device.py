# SPDX-License-Identifier: Apache-2.0
"""The record of one device: sizes in bytes, rates per second, times in s, energy in J."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

CORES = ("cortex-m0plus", "cortex-m4", "cortex-m7", "aarch64", "host")


@dataclass(frozen=True)
class MemoryMap:
    """Where a microcontroller's flash and RAM lie; both are contiguous."""

    flash_origin: int
    flash_bytes: int
    ram_origin: int
    ram_bytes: int


@dataclass(frozen=True)
class Compute:
    """How fast the core computes and what that takes; None where no source states it."""

    flops_per_second: float
    joules_per_flop: float | None
    watts: float | None

    def seconds(self, flops: float) -> float:
        """Return the time that `flops` floating-point operations take."""
        return flops / self.flops_per_second

    def joules(self, flops: float) -> float | None:
        """Return the energy of `flops` operations: POET's FLOP / (FLOP per joule)."""
        return None if self.joules_per_flop is None else flops * self.joules_per_flop


@dataclass(frozen=True)
class Paging:
    """Secondary storage that values can be paged to.

    A transfer takes latency + bytes / rate seconds and that time times `watts` joules (POET's
    model). `capacity_bytes` is None where the medium is not part of the device.
    """

    read_bytes_per_second: float
    read_latency_seconds: float
    write_bytes_per_second: float
    write_latency_seconds: float
    watts: float
    capacity_bytes: int | None

    def read_seconds(self, size: int) -> float:
        """Return the time to page `size` bytes in."""
        return self.read_latency_seconds + size / self.read_bytes_per_second

    def write_seconds(self, size: int) -> float:
        """Return the time to page `size` bytes out."""
        return self.write_latency_seconds + size / self.write_bytes_per_second

    def read_joules(self, size: int) -> float:
        """Return the energy to page `size` bytes in."""
        return self.read_seconds(size) * self.watts

    def write_joules(self, size: int) -> float:
        """Return the energy to page `size` bytes out."""
        return self.write_seconds(size) * self.watts


@dataclass(frozen=True)
class Device:
    """One device, as its TOML file states it.

    `flash_bytes` is where code and frozen weights lie (a disk on Linux devices, which have no
    `memory_map`). `sources` maps a figure's dotted name ("memory.ram_bytes") to its source.
    """

    name: str
    description: str
    core: str
    clock_hz: int
    ram_bytes: int
    flash_bytes: int
    memory_map: MemoryMap | None
    has_fpu: bool
    has_dsp: bool
    compute: Compute | None
    paging: Paging | None
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def is_microcontroller(self) -> bool:
        """Whether the device runs firmware of ours and no operating system."""
        return self.memory_map is not None
