# SPDX-License-Identifier: Apache-2.0
"""The cards at the top: one figure each, with what it must be seen against."""

from __future__ import annotations

from dataclasses import dataclass

from trainlet.report.data import ReportData
from trainlet.report.figures import coordinate, percent, short_bytes, short_count


@dataclass(frozen=True)
class Card:
    """``share`` in percent fills a meter; None for no meter."""

    name: str
    figure: str
    detail: str
    share: str | None = None
    is_bad: bool = False


def cards_of(data: ReportData) -> tuple[Card, ...]:
    """The cards of a report, in order."""
    device = data.device
    kind = "as linked, stack included" if data.linked is not None else "as planned, stack included"
    flash_kind = "as linked" if data.linked is not None else "constants alone"
    return (
        *(_accuracy(name, *pair) for name, pair in data.before_after.items()),
        _against("SRAM", data.sram_bytes, device.ram_bytes, kind),
        _against("Flash", data.flash_bytes, device.flash_bytes, flash_kind),
        _arena(data),
        Card(
            "Learns",
            short_bytes(data.analysis.trainable_bytes),
            f"{data.analysis.trainable_bytes:,} bytes of weights, biases and head",
        ),
        *_instructions(data),
        Card(
            "Multiply-accumulates",
            short_count(data.analysis.macs_forward + data.analysis.macs_backward),
            f"a step: {short_count(data.analysis.macs_forward)} forward, "
            f"{short_count(data.analysis.macs_backward)} backward",
        ),
    )


def _against(name: str, used: int, there: int, kind: str) -> Card:
    share = used / there
    detail = f"{used:,} of {there:,} bytes, {percent(share)}; {kind}"
    meter = coordinate(min(100 * share, 100))
    return Card(name, short_bytes(used), detail, meter, is_bad=used > there)


def _arena(data: ReportData) -> Card:
    arena, bound = data.timeline.arena_bytes, data.timeline.lower_bound_bytes
    if arena == bound:
        detail = f"{arena:,} bytes, the lower bound: no addresses need less"
    else:
        over = percent(arena / max(bound, 1) - 1)
        detail = f"{arena:,} bytes, {over} over the lower bound of {bound:,}"
    return Card("Arena", short_bytes(arena), detail)


def _instructions(data: ReportData) -> list[Card]:
    counted = data.instructions
    if counted is None:
        return []
    pairs = (("An inference", counted.inference), ("A training step", counted.step))
    return [
        Card(name, short_count(count), f"{count:,} instructions, not cycles")
        for name, count in pairs
        if count is not None
    ]


def _accuracy(name: str, before: float, after: float) -> Card:
    points = 100 * (after - before)
    change = f"{points:+.1f} points".replace("-", "−")
    return Card(
        f"Accuracy: {name}",
        f"{100 * before:.1f} → {100 * after:.1f} %",
        f"before → after learning, {change}",
    )
