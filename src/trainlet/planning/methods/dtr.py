# SPDX-License-Identifier: Apache-2.0
"""Evict greedily when bytes run out, compute again on demand: DTR, replayed before the step.

M. Kirisame, S. Lyubomirsky, A. Haan, J. Brennan, M. He, J. Roesch, T. Chen, Z. Tatlock, "Dynamic
Tensor Rematerialization", ICLR 2021.

The operators run in the problem's order. Where the next one does not fit into the budget, the
resident value with the least

    h = (its cost + the cost of its evicted neighbourhood) / (bytes x staleness)

goes, until it does; staleness is the cost of all that ran since the value was last used. The
evicted neighbourhood is what would have to run with it, kept in the paper's approximate form
(h_DTR^eq): evicted values that touch share a class in a union-find, and one that comes back takes
its own cost out of the class. An evicted value that is read is made again from its inputs, theirs
being made again first where need be. The program's frees are followed: a value goes at its last
use, and comes back only to make another.

DTR never evicts what it cannot make again (the paper's constants): the problem's inputs, what an
operator that writes state has made, and what would have to be made after its state has changed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from trainlet.planning.instructions import Compute, Instruction
from trainlet.planning.lifetimes import best_overlaps
from trainlet.planning.methods.evicted_classes import EvictedClasses
from trainlet.planning.methods.keep_all import keep_all
from trainlet.planning.methods.limits import (
    OverBudgetError,
    accept,
    arena_limit,
    budget_error,
    fits,
    peak_of,
    smallest_plan,
)
from trainlet.planning.methods.redo import Redo, redo_of
from trainlet.planning.methods.schedule import (
    Price,
    Uses,
    extent_of,
    price_of,
    uses_of,
    with_frees,
)
from trainlet.planning.problem import OpSpec, Problem

_MOST_RUNS = 30  # for each operator of the problem: beyond, DTR thrashes


def dtr(problem: Problem) -> tuple[Instruction, ...]:
    """DTR's plan within the budget; without one, or where everything fits, that of keep-all.

    Raises:
        TrainletError: DTR needs more bytes, or more time than the deadline.
    """
    everything = keep_all(problem)
    limit = arena_limit(problem)
    if limit is None or fits(problem, everything):
        return accept(problem, "dtr", everything)

    def attempt(bytes_: int) -> tuple[Instruction, ...]:
        return _Replay(problem, bytes_).instructions()

    try:
        return accept(problem, "dtr", attempt(limit))
    except OverBudgetError:
        pass
    high = peak_of(problem, everything)
    try:
        plan, smallest = smallest_plan(problem, attempt, limit, high)
    except OverBudgetError:  # the constants alone take more than keep-all, which lets them go
        raise budget_error(problem, "dtr", high) from None
    if smallest <= limit:  # a greedy choice may do better with more bytes, and need fewer
        return accept(problem, "dtr", plan)
    raise budget_error(problem, "dtr", smallest)


@dataclass
class _Frame:
    """An operator that waits for its inputs; those that are there are locked."""

    index: int
    locked: list[str] = field(default_factory=list)


class _Replay:
    """DTR's books: what is resident, when it was last used, what it would cost to bring back."""

    def __init__(self, problem: Problem, limit: int) -> None:
        self._problem, self._limit = problem, limit
        self._uses: Uses = uses_of(problem)
        self._redo: Redo = redo_of(problem, self._uses)
        self._price: Price = price_of(problem)
        self._classes = EvictedClasses(problem)
        self._resident = dict.fromkeys(problem.inputs)  # keys in order of arrival
        self._live = extent_of(problem, problem.inputs)
        self._locks: Counter[str] = Counter()
        self._used_at: dict[str, float] = dict.fromkeys(problem.inputs, 0.0)
        self._clock = 0.0
        self._events: list[Compute] = []
        self._ends: dict[int, list[str]] = {}
        for value in self._uses.made:
            self._ends.setdefault(self._redo.held(value), []).append(value)

    def instructions(self) -> tuple[Instruction, ...]:
        """The whole step.

        Raises:
            OverBudgetError: something does not fit although everything that may go has gone.
        """
        self._drop_ended(-1)
        for index in range(len(self._problem.ops)):
            self._make(index, index)
            self._drop_ended(index)
        end = len(self._problem.ops)
        for value in self._problem.outputs:
            if value not in self._resident:
                self._make(self._uses.made[value], end)
            self._lock(value)
        return with_frees(self._problem, self._events)

    def _drop_ended(self, index: int) -> None:
        for value in self._ends.get(index, []):
            if value in self._resident:
                self._evict(value)

    def _make(self, index: int, position: int) -> None:
        """Run an operator at a position of the step, whatever it needs before it."""
        stack = [_Frame(index)]
        while stack:
            frame = stack[-1]
            op = self._problem.ops[frame.index]
            missing = self._lock_inputs(frame, op)
            if missing is not None:
                stack.append(_Frame(self._uses.made[missing]))
                continue
            self._run(frame.index, position if len(stack) == 1 else -1)
            for value in frame.locked:
                self._locks[value] -= 1
            stack.pop()

    def _lock_inputs(self, frame: _Frame, op: OpSpec) -> str | None:
        """Lock the inputs that are there; the first that is not."""
        for value in dict.fromkeys(op.inputs):
            if value not in frame.locked and value in self._resident:
                self._lock(value)
                frame.locked.append(value)
        return next((value for value in op.inputs if value not in self._resident), None)

    def _lock(self, value: str) -> None:
        self._locks[value] += 1

    def _run(self, index: int, position: int) -> None:
        op = self._problem.ops[index]
        if len(self._events) >= _MOST_RUNS * len(self._problem.ops):
            raise OverBudgetError
        for value in op.outputs:
            if value in self._resident:  # made anew with the others
                self._remove(value)
        dying = set(self._ends.get(position, ())) if index == position else set()
        saved = sum(entry[3] for entry in best_overlaps(self._problem, op, dying))
        made = extent_of(self._problem, op.outputs)
        self._make_room(made + self._problem.align(op.scratch_bytes) - saved)
        self._events.append(Compute(op.name))
        self._live += made
        self._clock += self._price.compute(index)
        for value in op.outputs:
            self._resident[value] = None
            self._classes.bring_back(value)
        self._used_at.update(dict.fromkeys((*op.inputs, *op.outputs), self._clock))

    def _make_room(self, bytes_: int) -> None:
        while self._live + bytes_ > self._limit:
            victims = [value for value in self._resident if self._may_go(value)]
            if not victims:
                raise OverBudgetError
            self._evict(min(victims, key=self._score))

    def _may_go(self, value: str) -> bool:
        return (
            not self._locks[value]
            and self._redo.can_return(value)
            and self._problem.extent(value) > 0
        )

    def _score(self, value: str) -> float:
        weight = self._problem.extent(value) * (self._clock - self._used_at[value])
        cost = self._classes.cost_to_return(value)
        if weight <= 0:
            return float("inf") if cost else 0.0
        return cost / weight

    def _evict(self, value: str) -> None:
        self._remove(value)
        self._classes.evict(value)

    def _remove(self, value: str) -> None:
        del self._resident[value]
        self._live -= self._problem.extent(value)
