# SPDX-License-Identifier: Apache-2.0
"""Swap what is idle longest, then compute again what saves most bytes a second: Capuchin.

X. Peng, X. Shi, H. Dai, H. Jin, W. Ma, Q. Xiong, F. Yang, X. Qian, "Capuchin: Tensor-based GPU
Memory Management for Deep Learning", ASPLOS 2020.

Capuchin measures one step, notes when every tensor is accessed and takes candidates from those
that lie idle at the peak: a value between one access and the next. Here the step is the problem's
order and an access time is the sum of the seconds before it. Until the peak has shed what is over
the budget, the method takes

1. swaps that hide: a candidate's *free time* is its idle time less the seconds to page it out and
   in; those with free time left go, the longest first, of equals the biggest;
2. then, the hybrid policy: the swap with the least seconds that do not hide against the
   computing again with the most *memory saving per second* (MSPS); whichever adds fewer seconds is
   taken. What a value takes to be made again counts what must be made again for it.

A value is paged in, or made again, right before its next access. Both change the other
candidates' prices and the bytes, so everything is measured again until no instruction is over the
budget. Capuchin looks at time alone: where paging takes no seconds, as in POET's instances, it
hides always and its joules are not seen. Nothing is paged beyond what storage and wear allow.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from trainlet.planning.instructions import Instruction
from trainlet.planning.lifetimes import lifetimes_of
from trainlet.planning.methods.gaps import Gap, GapPlan
from trainlet.planning.methods.keep_all import keep_all
from trainlet.planning.methods.limits import (
    accept,
    arena_limit,
    budget_error,
    fits,
    writable_bytes,
)
from trainlet.planning.methods.schedule import Price
from trainlet.planning.problem import Problem


def capuchin(problem: Problem) -> tuple[Instruction, ...]:
    """Capuchin's plan within the budget; without one, or where everything fits, that of keep-all.

    Raises:
        TrainletError: Capuchin needs more bytes, or more time than the deadline.
    """
    everything = keep_all(problem)
    limit = arena_limit(problem)
    if limit is None or fits(problem, everything):
        return accept(problem, "capuchin", everything)
    search = _Search(problem, limit)
    plan, peak = search.run()
    if peak > limit:
        raise budget_error(problem, "capuchin", peak)
    return accept(problem, "capuchin", plan)


@dataclass(frozen=True)
class _Candidate:
    gap: Gap
    idle: float
    bytes: int


class _Search:
    def __init__(self, problem: Problem, limit: int) -> None:
        self._problem, self._limit = problem, limit
        self._time = Price(problem, in_joules=False)
        seconds = [op.seconds for op in problem.ops]
        self._starts = [0.0, *accumulate(seconds)]  # when each operator begins, in one pass
        self._plan = GapPlan(problem)
        self._candidates = {gap: self._measure(gap) for gap in self._plan.gaps}
        self._left_to_write = writable_bytes(problem)

    def run(self) -> tuple[tuple[Instruction, ...], int]:
        """The last list and its peak; over the limit where no candidate was left that helps."""
        best: tuple[tuple[Instruction, ...], int] | None = None
        while True:
            instructions, places = self._plan.realize()
            lifetimes = lifetimes_of(self._problem, instructions)
            peak = lifetimes.lower_bound_bytes
            if best is None or peak < best[1]:
                best = instructions, peak
            if peak <= self._limit or not self._relieve(
                places[max(lifetimes.peak, 0)], peak - self._limit
            ):
                return best

    def _measure(self, gap: Gap) -> _Candidate:
        idle = self._starts[gap.end] - self._starts[gap.start + 1]
        return _Candidate(gap, idle, self._problem.extent(gap.value))

    def _relieve(self, position: int, excess: int) -> bool:
        """Evict over the operator at this position until the excess is shed; whether any went."""
        idle = [
            candidate
            for gap, candidate in self._candidates.items()
            if gap.start < position < gap.end and candidate.bytes > 0
        ]
        any_went = False
        for candidate in sorted(idle, key=self._free_time, reverse=True):
            if excess <= 0:
                return True
            if self._can_swap(candidate) and self._unhidden(candidate) <= 0:
                excess -= self._swap(candidate)
                any_went = True
        if excess > 0 and self._hybrid([c for c in idle if c.gap in self._candidates]):
            any_went = True
        return any_went

    def _hybrid(self, idle: list[_Candidate]) -> bool:
        """One swap or computing again, whichever takes fewer seconds; whether there was one."""
        swaps = [candidate for candidate in idle if self._can_swap(candidate)]
        swap = min(swaps, key=self._unhidden, default=None)
        priced = [(self._seconds_again(candidate), candidate) for candidate in idle]
        again = [(cost, c) for cost, c in priced if cost is not None]
        redo = max(again, key=lambda pair: _saving_rate(pair[1].bytes, pair[0]), default=None)
        if redo is not None and (swap is None or redo[0] < self._unhidden(swap)):
            self._plan.again.add(redo[1].gap)
            del self._candidates[redo[1].gap]
        elif swap is not None:
            self._swap(swap)
        else:
            return False
        return True

    def _free_time(self, candidate: _Candidate) -> tuple[float, int]:
        return candidate.idle - self._paging_seconds(candidate), candidate.bytes

    def _can_swap(self, candidate: _Candidate) -> bool:
        value = candidate.gap.value
        size = self._problem.value_by_name[value].bytes
        if self._problem.storage_bytes == 0:
            return False
        return value in self._plan.stored or size <= self._left_to_write

    def _unhidden(self, candidate: _Candidate) -> float:
        """Seconds of paging beyond the idle time."""
        return max(0.0, self._paging_seconds(candidate) - candidate.idle)

    def _paging_seconds(self, candidate: _Candidate) -> float:
        value = candidate.gap.value
        out = 0.0 if value in self._plan.stored else self._time.page_out(value)
        return out + self._time.page_in(value)

    def _swap(self, candidate: _Candidate) -> int:
        value = candidate.gap.value
        if value not in self._plan.stored:
            self._left_to_write -= self._problem.value_by_name[value].bytes
        self._plan.swap(candidate.gap)
        del self._candidates[candidate.gap]
        return candidate.bytes

    def _seconds_again(self, candidate: _Candidate) -> float | None:
        """Seconds to make the value again at the end of the gap; None where that cannot be."""
        ops = self._plan.ops_again(candidate.gap)
        return None if ops is None else sum(map(self._time.compute, ops))


def _saving_rate(bytes_: int, seconds: float) -> float:
    return bytes_ / seconds if seconds > 0 else float("inf")
