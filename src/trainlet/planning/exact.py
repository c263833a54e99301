# SPDX-License-Identifier: Apache-2.0
"""The exact finisher: addresses as rectangles in time and space, solved with OR-Tools CP-SAT.

One worker, a fixed seed and limits in the solver's deterministic time, so that the same problem
gets the same addresses on every machine. No single formulation is fast on all problems, so a few
take turns.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trainlet.planning.lifetimes import Lifetimes
from trainlet.planning.packing import Geometry

LARGEST = 600  # residencies; beyond that the solver rarely ends in time


@dataclass(frozen=True)
class _Way:
    """One formulation: ask for the bound or for the least, from the known placement or afresh.

    ``effort`` is in the solver's deterministic seconds, one of which is about 20 on a clock.
    """

    effort: float
    asks_bound: bool
    hinted: bool
    rectangles: bool  # or one choice for each pair that collides


_WAYS = (
    _Way(0.01, asks_bound=True, hinted=True, rectangles=True),
    _Way(0.06, asks_bound=False, hinted=True, rectangles=False),
    _Way(0.05, asks_bound=True, hinted=False, rectangles=True),
    _Way(0.12, asks_bound=False, hinted=True, rectangles=False),
)


def solve(lifetimes: Lifetimes, geometry: Geometry, addresses: Sequence[int]) -> list[int]:
    """Addresses of the lowest arena found, at most as high as the one given."""
    best = list(addresses)
    for way in _WAYS:
        found, is_lowest = _Model(lifetimes, geometry, best, way).solve()
        if found is not None and geometry.height(found) < geometry.height(best):
            best = found
        if is_lowest or geometry.height(best) == lifetimes.lower_bound_bytes:
            break
    return best


class _Model:
    """A CP-SAT model of a placement; bytes are counted in their greatest common divisor."""

    def __init__(
        self, lifetimes: Lifetimes, geometry: Geometry, addresses: Sequence[int], way: _Way
    ) -> None:
        from ortools.sat.python import cp_model  # takes a while to load, and is seldom needed

        self._cp = cp_model
        self._lifetimes, self._geometry, self._way = lifetimes, geometry, way
        bound = lifetimes.lower_bound_bytes
        lags = [permit.lag for permit in lifetimes.permits]
        self._unit = math.gcd(*geometry.extents, *lags, bound) or 1
        self._size = [extent // self._unit for extent in geometry.extents]
        self._top = (bound if way.asks_bound else geometry.height(addresses)) // self._unit
        self._model: Any = cp_model.CpModel()
        self._at = [self._model.new_int_var(0, self._top - size, "") for size in self._size]
        if way.rectangles:
            self._keep_rectangles_apart()
        else:
            self._keep_pairs_apart()
        if not way.asks_bound:
            arena = self._model.new_int_var(bound // self._unit, self._top, "")
            for place, size in zip(self._at, self._size, strict=True):
                self._model.add(place + size <= arena)
            self._model.minimize(arena)
        if way.hinted:
            for place, size, start in zip(self._at, self._size, addresses, strict=True):
                self._model.add_hint(place, min(start // self._unit, self._top - size))

    def solve(self) -> tuple[list[int] | None, bool]:
        """Addresses, if any were found in time; whether the search proved that none is lower."""
        solver = self._cp.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 1
        solver.parameters.linearization_level = 0
        solver.parameters.max_deterministic_time = self._way.effort
        status = solver.solve(self._model)
        if status not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
            return None, False
        found = [solver.value(place) * self._unit for place in self._at]
        return found, status == self._cp.OPTIMAL and not self._way.asks_bound

    def _keep_rectangles_apart(self) -> None:
        """No two rectangles overlap; what a permit allows is said pair by pair.

        An input that may be overwritten ends, as a rectangle, before that instruction. What starts
        at that instruction is kept off it one by one; nothing starts between it and the free.
        """
        model, spans = self._model, self._lifetimes.residencies
        starting: defaultdict[int, list[int]] = defaultdict(list)
        for index, residency in enumerate(spans):
            starting[residency.start].append(index)
        cut = {permit.input: permit.instruction for permit in self._lifetimes.permits}
        columns, rows = [], []
        for index, residency in enumerate(spans):
            if self._size[index]:
                length = cut.get(index, residency.end) - residency.start
                columns.append(model.new_fixed_size_interval_var(residency.start, length, ""))
                row = model.new_fixed_size_interval_var(self._at[index], self._size[index], "")
                rows.append(row)
        model.add_no_overlap_2d(columns, rows)
        for permit in self._lifetimes.permits:
            for index in starting[permit.instruction]:
                lag = permit.lag // self._unit if index == permit.output else self._size[index]
                if self._size[index]:
                    self._either(index, lag, permit.input, self._size[permit.input])

    def _keep_pairs_apart(self) -> None:
        for index, around in enumerate(self._geometry.neighbours):
            for other, under, over in around:
                if other < index:
                    self._either(index, under // self._unit, other, over // self._unit)

    def _either(self, first: int, under: int, second: int, over: int) -> None:
        """The first lies ``under`` or more below the second, or ``over`` or more above it."""
        below = self._model.new_bool_var("")
        low, high = self._at[first], self._at[second]
        self._model.add(low + under <= high).only_enforce_if(below)
        self._model.add(high + over <= low).only_enforce_if(~below)
