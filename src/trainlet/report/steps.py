# SPDX-License-Identifier: Apache-2.0
"""A timeline by operator instead of by instruction: what a person follows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass

from trainlet.planning import Timeline
from trainlet.planning.timeline import Bar
from trainlet.report.roles import ValueRole, role_of_bar

_COMPUTE = "compute "


@dataclass(frozen=True)
class Span:
    """A bar that occupies the runs of operators ``first`` to ``last``, both included."""

    bar: Bar
    role: ValueRole
    first: int
    last: int

    @property
    def when(self) -> str:
        """The steps in words."""
        if self.first == self.last:
            return f"step {self.first}"
        return f"steps {self.first} to {self.last}"

    @property
    def where(self) -> str:
        """The byte range in words, last byte included."""
        return f"{self.bar.address:,} to {self.bar.address + self.bar.bytes - 1:,}"


@dataclass(frozen=True)
class Steps:
    """``runs`` are the plan's names of the operators as they run; ``live`` the bytes at each."""

    runs: tuple[str, ...]
    live: tuple[int, ...]
    spans: tuple[Span, ...]
    peak: int

    @property
    def count(self) -> int:
        """Columns of a picture: one a run, one where nothing runs."""
        return max(len(self.runs), 1)


def steps_of(timeline: Timeline, roles: Mapping[str, ValueRole]) -> Steps:
    """Fold the frees and pagings into the run that they follow."""
    computes = [i for i, label in enumerate(timeline.labels) if label.startswith(_COMPUTE)]
    columns = max(len(computes), 1)
    live = [0] * columns
    for index, count in enumerate(timeline.live_bytes):
        step = _column(computes, index)
        live[step] = max(live[step], count)
    spans = []
    for bar in timeline.bars:
        first = min(bisect_left(computes, max(bar.start, 0)), columns - 1)
        last = max(bisect_left(computes, bar.end) - 1, first)
        spans.append(Span(bar, role_of_bar(bar, roles), first, last))
    return Steps(
        runs=tuple(timeline.labels[i].removeprefix(_COMPUTE) for i in computes),
        live=tuple(live),
        spans=tuple(spans),
        peak=_column(computes, timeline.peak_instruction),
    )


def _column(computes: list[int], instruction: int) -> int:
    """The run that an instruction is or follows; the first for what comes before it."""
    return max(bisect_left(computes, instruction + 1) - 1, 0)
