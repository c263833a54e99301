# SPDX-License-Identifier: Apache-2.0
"""Tables and bars of the page: SRAM by part, three sources of each figure, work by function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trainlet.report.data import Instructions, ReportData
from trainlet.report.figures import coordinate, grouped, percent, short_bytes

_BAR_WIDTH = 1160
_FUNCTIONS_AT_MOST = 14
# More than that, and the whole would be a hairline beside the device's memory.
_SHOW_FREE_UP_TO = 40


@dataclass(frozen=True)
class Part:
    """One stretch of the SRAM bar; ``share`` is of the device's RAM."""

    slug: str
    name: str
    bytes: int
    share: str
    x: str
    width: str
    label: str
    middle: str


@dataclass(frozen=True)
class SramBar:
    """The parts in address-free order; ``limit_x`` marks the device's RAM."""

    parts: tuple[Part, ...]
    limit_x: str
    description: str


@dataclass(frozen=True)
class Agreement:
    """A figure by three sources; text, a dash where a source does not know it."""

    name: str
    plan: str
    linker: str
    emulator: str
    is_sum: bool = False


@dataclass(frozen=True)
class FunctionShare:
    """Instructions of one C function."""

    name: str
    count: str
    share: str
    width: str


def sram_bar(data: ReportData) -> SramBar:
    """SRAM by part against the RAM of the device."""
    analysis, ram, total = data.analysis, data.device.ram_bytes, data.sram_bytes
    sizes = [
        ("arena", "arena: activations, gradients, scratch", analysis.arena_bytes),
        ("weights", "int8 weights that learn", analysis.weight_bytes),
        ("biases", "int32 biases that learn", analysis.bias_bytes),
        ("head", "float32 head that learns", analysis.head_bytes),
        ("state", "state: rates, seed, loss", analysis.state_bytes),
        ("stack", "stack, set aside", analysis.stack_bytes),
        ("bench", "test bench, as linked", max(total - analysis.sram_bytes, 0)),
    ]
    used = sum(size for _, _, size in sizes)
    if used < ram <= used * _SHOW_FREE_UP_TO:
        sizes.append(("free", "free", ram - used))
    whole = sum(size for _, _, size in sizes)
    parts, start = [], 0
    for slug, name, size in sizes:
        if size:
            x, width = _BAR_WIDTH * start / whole, _BAR_WIDTH * size / whole
            text = f"{slug} {short_bytes(size)}"
            label = text if len(text) * 7 + 8 <= width else ""
            middle = coordinate(x + width / 2)
            parts.append(
                Part(slug, name, size, percent(size / ram), *_pair(x, width), label, middle)
            )
            start += size
    verdict = "fits" if used <= ram else "does not fit"
    return SramBar(
        tuple(parts),
        coordinate(min(_BAR_WIDTH * ram / whole, _BAR_WIDTH)),
        f"{used:,} of the {ram:,} bytes of RAM of {data.device.name}: {verdict}.",
    )


def agreement(data: ReportData) -> tuple[Agreement, ...]:
    """The plan's, the linker's and the emulator's figures side by side."""
    plan, stack = data.analysis, data.stack_high_water
    linked: Mapping[str, int | None] = {} if data.linked is None else data.linked
    static = _sum(linked.get("data"), linked.get("bss"))
    seen = static if stack is not None else None
    rows = (
        ("arena, what learns, state", plan.sram_bytes - plan.stack_bytes, static, seen),
        ("stack", plan.stack_bytes, linked.get("stack"), stack),
        ("SRAM", plan.sram_bytes, linked.get("sram_bytes"), _sum(seen, stack)),
        ("constants in flash", plan.constant_bytes, linked.get("rodata"), None),
        ("code in flash", None, linked.get("text"), None),
        ("flash", None, linked.get("flash_bytes"), None),
    )
    return tuple(
        Agreement(name, grouped(a), grouped(b), grouped(c), is_sum=name in ("SRAM", "flash"))
        for name, a, b, c in rows
    )


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


def function_shares(instructions: Instructions | None) -> tuple[FunctionShare, ...]:
    """The functions that take most of a step; the rest as one row."""
    if instructions is None or not instructions.by_function:
        return ()
    ordered = sorted(instructions.by_function.items(), key=lambda item: (-item[1], item[0]))
    rows, rest = ordered[:_FUNCTIONS_AT_MOST], ordered[_FUNCTIONS_AT_MOST:]
    if rest:
        rows.append((f"{len(rest)} others", sum(count for _, count in rest)))
    total, most = max(sum(n for _, n in rows), 1), max(max(n for _, n in rows), 1)
    return tuple(
        FunctionShare(name, grouped(n), percent(n / total), coordinate(100 * n / most))
        for name, n in rows
    )


def _pair(x: float, width: float) -> tuple[str, str]:
    return coordinate(x), coordinate(width)
