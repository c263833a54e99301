# SPDX-License-Identifier: Apache-2.0
"""Plain data for the report: who lies where from when to when, and what makes the peak."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from trainlet.planning.instructions import Compute, describe
from trainlet.planning.lifetimes import Residency, lifetimes_of
from trainlet.planning.plan import Plan
from trainlet.planning.problem import Problem


@dataclass(frozen=True)
class Bar:
    """One copy of a value, or one scratch, in the arena.

    ``start`` is the instruction that makes it (-1: there before the first), ``end`` the one that
    frees it, exclusive; ``address`` and ``bytes`` are in the arena, rounded to the alignment.
    """

    key: str
    name: str
    start: int
    end: int
    address: int
    bytes: int
    is_scratch: bool


@dataclass(frozen=True)
class Timeline:
    """Everything a picture of the arena needs.

    ``live_bytes`` and ``labels`` have an entry for each instruction. ``peak_op`` is the operator
    that runs at the peak, or None where the peak is no run of an operator; ``at_peak`` are the
    bars alive there, biggest first.
    """

    labels: tuple[str, ...]
    bars: tuple[Bar, ...]
    live_bytes: tuple[int, ...]
    arena_bytes: int
    lower_bound_bytes: int
    peak_instruction: int
    peak_op: str | None
    at_peak: tuple[Bar, ...]

    def to_data(self) -> dict[str, Any]:
        """The same as dictionaries, lists, strings and numbers."""
        return asdict(self)


def timeline_of(problem: Problem, plan: Plan) -> Timeline:
    """Lay out a plan that the checker accepted."""
    lifetimes = lifetimes_of(problem, plan.instructions)
    bars = tuple(_bar(residency, plan) for residency in lifetimes.residencies)
    peak = lifetimes.peak
    running = plan.instructions[peak] if peak >= 0 else None
    alive = [bar for bar in bars if bar.start <= peak < bar.end]
    return Timeline(
        labels=tuple(map(describe, plan.instructions)),
        bars=bars,
        live_bytes=lifetimes.live_bytes,
        arena_bytes=plan.arena_bytes,
        lower_bound_bytes=lifetimes.lower_bound_bytes,
        peak_instruction=peak,
        peak_op=running.op if isinstance(running, Compute) else None,
        at_peak=tuple(sorted(alive, key=lambda bar: (-bar.bytes, bar.start, bar.key))),
    )


def _bar(residency: Residency, plan: Plan) -> Bar:
    return Bar(
        residency.key,
        residency.name,
        residency.start,
        residency.end,
        plan.addresses[residency.key],
        residency.extent,
        residency.is_scratch,
    )
