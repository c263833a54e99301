# SPDX-License-Identifier: Apache-2.0
"""Strict reading of a device's TOML: every problem of the file is reported at once.

A figure is a table with a value and its source, `ram_bytes = {value = 327680, source = "..."}`;
sections and fields are those of `FIELDS`, and any other key is an error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from trainlet.devices.device import CORES, Compute, Device, MemoryMap, Paging
from trainlet.errors import TrainletError


@dataclass(frozen=True)
class _Field:
    """What a figure may be: its type, its smallest value, and whether it must be there."""

    kind: type[int] | type[float] | type[bool]
    least: float = 0.0
    required: bool = True


_COUNT = _Field(int, 1)
_ADDRESS = _Field(int, 0, required=False)
_FLAG = _Field(bool)
_RATE = _Field(float, math.ulp(0.0))
_OPTIONAL_RATE = _Field(float, math.ulp(0.0), required=False)
_LATENCY = _Field(float)

FIELDS: Mapping[str, Mapping[str, _Field]] = {
    "cpu": {"clock_hz": _COUNT, "has_fpu": _FLAG, "has_dsp": _FLAG},
    "memory": {
        "ram_bytes": _COUNT,
        "flash_bytes": _COUNT,
        "ram_origin": _ADDRESS,
        "flash_origin": _ADDRESS,
    },
    "compute": {
        "flops_per_second": _RATE,
        "joules_per_flop": _OPTIONAL_RATE,
        "watts": _OPTIONAL_RATE,
    },
    "paging": {
        "read_bytes_per_second": _RATE,
        "read_latency_seconds": _LATENCY,
        "write_bytes_per_second": _RATE,
        "write_latency_seconds": _LATENCY,
        "watts": _RATE,
        "capacity_bytes": _Field(int, 1, required=False),
    },
}
OPTIONAL_SECTIONS = ("compute", "paging")
_TEXTS = ("name", "description", "core")


class _Reader:
    """Collects figures, their sources and every problem met on the way."""

    def __init__(self, table: Mapping[str, object]) -> None:
        self.table = table
        self.problems: list[str] = []
        self.sources: dict[str, str] = {}
        self.values: dict[str, int | float | bool] = {}

    def text(self, key: str) -> str:
        value = self.table.get(key)
        if isinstance(value, str) and value.strip():
            return value
        self.problems.append(f"{key} is missing" if value is None else f"{key} must be a text")
        return ""

    def section(self, name: str) -> None:
        section = self.table.get(name)
        if section is None:
            if name not in OPTIONAL_SECTIONS:
                self.problems.append(f"section [{name}] is missing")
            return
        if not isinstance(section, Mapping):
            self.problems.append(f"{name} must be a section, [{name}]")
            return
        fields = FIELDS[name]
        self.problems += [
            f"{name}.{key} is not a field; [{name}] has {', '.join(fields)}"
            for key in section
            if key not in fields
        ]
        for key, kind in fields.items():
            if key in section:
                self.figure(f"{name}.{key}", section[key], kind)
            elif kind.required:
                self.problems.append(f"{name}.{key} is missing")

    def figure(self, path: str, entry: object, field: _Field) -> None:
        if not isinstance(entry, Mapping) or not {"value", "source"}.issuperset(entry):
            self.problems.append(f'{path} must be written {{value = ..., source = "..."}}')
            return
        source = entry.get("source")
        if not isinstance(source, str) or not source.strip():
            self.problems.append(f"{path} names no source")
        else:
            self.sources[path] = source
        problem = _value_problem(entry.get("value"), field)
        if problem:
            self.problems.append(f"{path} {problem}")
            return
        self.values[path] = field.kind(entry["value"])


def _value_problem(value: object, field: _Field) -> str:
    if value is None:
        return "has no value"
    if field.kind is bool:
        return "" if isinstance(value, bool) else "must be true or false"
    accepted = (int,) if field.kind is int else (int, float)
    if isinstance(value, bool) or not isinstance(value, accepted):
        return "must be a whole number" if field.kind is int else "must be a number"
    if not math.isfinite(value):
        return "must be finite"
    if value < field.least:
        return (
            f"must be at least {field.least:g}"
            if field.kind is int
            else ("must be above 0" if field.least > 0 else "must not be negative")
        )
    return ""


def read_device(table: Mapping[str, object], where: str) -> Device:
    """Build a device from parsed TOML.

    Args:
        table: the parsed file.
        where: how the file is called in an error.

    Raises:
        TrainletError: lists every missing, unknown and wrong field.
    """
    reader = _Reader(table)
    name, description, core = (reader.text(key) for key in _TEXTS)
    if core and core not in CORES:
        reader.problems.append(f"core {core!r} is not one of {', '.join(CORES)}")
    known = {*_TEXTS, *FIELDS}
    reader.problems += [f"{key} is not a field of a device" for key in table if key not in known]
    for section in FIELDS:
        reader.section(section)
    values = reader.values
    origins = [f"memory.{kind}_origin" in values for kind in ("ram", "flash")]
    if core.startswith("cortex-m") and not all(origins):
        reader.problems.append(f"memory.ram_origin and memory.flash_origin are needed for a {core}")
    elif any(origins) and not all(origins):
        reader.problems.append("memory.ram_origin and memory.flash_origin go together")
    if reader.problems:
        raise TrainletError.of_all(f"device {where} cannot be used:", reader.problems)
    return Device(
        name=name,
        description=description,
        core=core,
        clock_hz=int(values["cpu.clock_hz"]),
        ram_bytes=int(values["memory.ram_bytes"]),
        flash_bytes=int(values["memory.flash_bytes"]),
        memory_map=_memory_map(values) if all(origins) else None,
        has_fpu=bool(values["cpu.has_fpu"]),
        has_dsp=bool(values["cpu.has_dsp"]),
        compute=_compute(values),
        paging=_paging(values),
        sources=reader.sources,
    )


def _memory_map(values: Mapping[str, int | float | bool]) -> MemoryMap:
    return MemoryMap(
        flash_origin=int(values["memory.flash_origin"]),
        flash_bytes=int(values["memory.flash_bytes"]),
        ram_origin=int(values["memory.ram_origin"]),
        ram_bytes=int(values["memory.ram_bytes"]),
    )


def _compute(values: Mapping[str, int | float | bool]) -> Compute | None:
    """Return the compute figures; energy follows from power where only power is stated."""
    if "compute.flops_per_second" not in values:
        return None
    rate = float(values["compute.flops_per_second"])
    joules, watts = values.get("compute.joules_per_flop"), values.get("compute.watts")
    if joules is None and watts is not None:
        joules = watts / rate
    return Compute(
        flops_per_second=rate,
        joules_per_flop=None if joules is None else float(joules),
        watts=None if watts is None else float(watts),
    )


def _paging(values: Mapping[str, int | float | bool]) -> Paging | None:
    if "paging.watts" not in values:
        return None
    capacity = values.get("paging.capacity_bytes")
    return Paging(
        read_bytes_per_second=float(values["paging.read_bytes_per_second"]),
        read_latency_seconds=float(values["paging.read_latency_seconds"]),
        write_bytes_per_second=float(values["paging.write_bytes_per_second"]),
        write_latency_seconds=float(values["paging.write_latency_seconds"]),
        watts=float(values["paging.watts"]),
        capacity_bytes=None if capacity is None else int(capacity),
    )
