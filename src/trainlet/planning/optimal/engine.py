# SPDX-License-Identifier: Apache-2.0
"""Solves an integer program with OR-Tools CP-SAT.

Prices become whole numbers by rounding down, so that the bound is one of the prices themselves.
Bytes stay whole numbers, divided by what they have in common. HiGHS was measured on the same
programs: alike on small ones, slower to find plans and bounds on large ones.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ortools.sat.python import cp_model

from trainlet.planning.optimal.program import Program

_UNITS = 1e9  # whole numbers that the reference price is worth
_FINE = 10**12  # whole numbers that a row of fractions is scaled to


@dataclass(frozen=True)
class Search:
    """How to search: limits, and what is known already.

    Attributes:
        seconds: time limit.
        gap: relative gap at which to stop.
        reference: a price that is about the optimum's.
        cutoff: only solutions with at most this price count; None is no limit.
        hint: column -> value of a good solution.
        seed: for the engine.
        workers: threads.
    """

    seconds: float
    gap: float
    reference: float
    cutoff: float | None = None
    hint: Mapping[int, int] | None = None
    seed: int = 0
    workers: int = 2


@dataclass(frozen=True)
class Outcome:
    """What was found: values of all columns or None, a lower bound, whether it is finished.

    ``bound`` is infinite where no solution exists within the cutoff.
    """

    values: list[int] | None
    bound: float
    is_finished: bool
    was_interrupted: bool = False


Report = Callable[[list[int] | None, float], None]


def run_engine(program: Program, search: Search, report: Report | None = None) -> Outcome:
    """Minimise; ``report`` gets each better solution (or None) and the bound at that time."""
    scale = _UNITS / search.reference
    model = cp_model.CpModel()
    columns = [
        model.new_bool_var("") if high == 1 else model.new_int_var(0, high, "")
        for high in program.high
    ]
    _add_rows(model, program, columns)
    prices = [math.floor(cost * scale) for cost in program.cost]
    if search.cutoff is not None:
        limit = math.floor(search.cutoff * scale)
        for column, price in zip(columns, prices, strict=True):
            if price > limit:
                model.add(column == 0)
        model.add(cp_model.LinearExpr.weighted_sum(columns, prices) <= limit)
    model.minimize(cp_model.LinearExpr.weighted_sum(columns, prices))
    for index, value in (search.hint or {}).items():
        model.add_hint(columns[index], value)
    watcher = _Watcher(columns, scale, report)
    solver = _solver(search)
    if report is not None:
        solver.best_bound_callback = watcher.on_bound
    status, was_interrupted = _solve(solver, model, watcher)
    if status == cp_model.INFEASIBLE:
        return Outcome(None, math.inf, True)
    bound = max(0.0, solver.best_objective_bound / scale)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Outcome(None, bound, False, was_interrupted)
    values = [solver.value(column) for column in columns]
    return Outcome(values, bound, status == cp_model.OPTIMAL, was_interrupted)


def _solver(search: Search) -> cp_model.CpSolver:
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.max_time_in_seconds = max(0.01, search.seconds)
    parameters.relative_gap_limit = search.gap
    parameters.random_seed = search.seed
    parameters.num_workers = search.workers
    # The relaxation with all cuts finds nearly everything here; pure clause learning finds little.
    parameters.linearization_level = 2
    if search.workers == 2:
        parameters.subsolvers.extend(["max_lp", "reduced_costs"])
    return solver


def _add_rows(model: cp_model.CpModel, program: Program, columns: list[cp_model.IntVar]) -> None:
    for row, (low, high) in enumerate(zip(program.row_low, program.row_high, strict=True)):
        span = slice(program.starts[row], program.starts[row + 1])
        chosen = [columns[column] for column in program.columns[span]]
        factors = program.coefficients[span]
        if _is_clause(factors, low, high):
            model.add_bool_or(
                [c if f > 0 else c.negated() for c, f in zip(chosen, factors, strict=True)]
            )
            continue
        if any(factor != int(factor) for factor in factors):
            factors = [math.floor(factor * _FINE) for factor in factors]
            low, high = low * _FINE, high * _FINE
        whole = [int(factor) for factor in factors]
        common = math.gcd(*whole) or 1
        total = cp_model.LinearExpr.weighted_sum(chosen, [factor // common for factor in whole])
        if high != math.inf:
            model.add(total <= math.floor(high / common))
        if low != -math.inf:
            model.add(total >= math.ceil(low / common))


def _is_clause(factors: list[float], low: float, high: float) -> bool:
    """Whether a row says that one of its literals holds."""
    signs = set(factors) <= {1.0, -1.0}
    return signs and high == math.inf and low == 1 - sum(factor < 0 for factor in factors)


class _Watcher(cp_model.CpSolverSolutionCallback):
    """Passes on solutions and bounds."""

    def __init__(self, columns: list[cp_model.IntVar], scale: float, report: Report | None) -> None:
        super().__init__()
        self._columns, self._scale, self._report = columns, scale, report
        self._lock = threading.Lock()

    def on_solution_callback(self) -> None:
        """Called by the engine at each better solution."""
        if self._report is not None:
            values = [self.value(column) for column in self._columns]
            with self._lock:
                self._report(values, max(0.0, self.best_objective_bound / self._scale))

    def on_bound(self, bound: float) -> None:
        """Called by the engine at each better bound."""
        if self._report is not None:
            with self._lock:
                self._report(None, max(0.0, bound / self._scale))


def _solve(
    solver: cp_model.CpSolver, model: cp_model.CpModel, watcher: _Watcher
) -> tuple[cp_model.CpSolverStatus, bool]:
    """Solve in a thread, so that an interrupt stops the search and keeps what it has found."""
    found: list[cp_model.CpSolverStatus] = []
    thread = threading.Thread(target=lambda: found.append(solver.solve(model, watcher)))
    thread.start()
    was_interrupted = False
    while thread.is_alive():
        try:
            thread.join(0.2)
        except KeyboardInterrupt:
            was_interrupted = True
            solver.stop_search()
    return found[0], was_interrupted
