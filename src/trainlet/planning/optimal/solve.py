# SPDX-License-Identifier: Apache-2.0
"""The search: quick lists, then the best with near runs again, then the bound over all lists.

The program with near slots gives lists; the program with ghosts gives the bound. Where its best
solution has ghosts, their operators get all their early slots instead and the program is solved
anew, until bound and list meet or time is over.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence

from trainlet.errors import TrainletError
from trainlet.planning.instructions import Instruction
from trainlet.planning.optimal.candidates import worth_again
from trainlet.planning.optimal.columns import decode, ghosts_of, hint_of
from trainlet.planning.optimal.engine import Outcome, Search, run_engine
from trainlet.planning.optimal.model import Model, build_model
from trainlet.planning.optimal.network import Network, Objective, network_of
from trainlet.planning.optimal.schedule import Schedule, schedule_of
from trainlet.planning.optimal.simple import keep_all, page_all, page_least
from trainlet.planning.optimal.slots import Slot, bounding_slots, near_slots
from trainlet.planning.optimal.solution import GAP, Progress, Solution, Status, gap_of
from trainlet.planning.problem import Problem

_MOST_SLOTS = 6000  # beyond, chains of runs again are cut
_DEPTHS = (16, 8, 5, 3, 2, 1)


def solve(
    problem: Problem,
    *,
    rematerialize: bool = True,
    page: bool = True,
    objective: Objective = "energy",
    time_limit: float = 60.0,
    seed: int = 0,
    progress: Callable[[Progress], None] | None = None,
    hint: Iterable[Instruction] | None = None,
    workers: int = 2,
) -> Solution:
    """The instruction list of least overhead in the problem's order of operators.

    Every list is considered in which the first runs of the operators follow that order and, between
    two of these, runs again do so too, each operator once at most; with frees, page-outs and
    page-ins anywhere. Bytes are counted as ``Plan.lower_bound_bytes`` counts them. An interrupt
    (Ctrl-C) ends the search with the best list so far.

    Args:
        problem: what to plan; its budget, deadline and storage limits hold.
        rematerialize: whether operators may run again.
        page: whether values may be paged.
        objective: ``energy`` and ``time`` count what comes on top of one run of every operator,
            ``peak`` the bytes on top of the largest working set.
        time_limit: seconds, about.
        seed: for the engine.
        progress: called whenever list or bound get better, from another thread.
        hint: a list to start from; ignored where it breaks a limit.
        workers: threads of the engine.
    """
    if not time_limit > 0:
        raise TrainletError(f"the time limit is {time_limit!r} s; give a number above 0")
    network = network_of(problem, objective)
    search = _Solve(network, rematerialize, page, time_limit, seed, progress, workers)
    search.begin(hint)
    search.run()
    return search.solution()


class _Solve:
    """One search and its books."""

    def __init__(
        self,
        network: Network,
        rematerialize: bool,
        page: bool,
        time_limit: float,
        seed: int,
        progress: Callable[[Progress], None] | None,
        workers: int,
    ) -> None:
        self.network, self.rematerialize = network, rematerialize
        self.page = page and network.problem.storage_bytes > 0
        self.start, self.time_limit = time.monotonic(), time_limit
        self.seed, self.progress, self.workers = seed, progress, workers
        self.best: Schedule | None = None
        self.most = math.inf  # price of the best
        self.bound = 0.0
        self.is_infeasible = self.is_stopped = False

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.monotonic() - self.start

    @property
    def left(self) -> float:
        """Time left."""
        return self.time_limit - self.seconds

    @property
    def is_done(self) -> bool:
        """Whether there is nothing left to prove, or no time."""
        if self.is_infeasible or self.is_stopped or self.left <= 0:
            return True
        return self.best is not None and gap_of(self.most, self.bound) <= GAP

    def price(self, schedule: Schedule) -> float:
        """What the objective minimises."""
        if self.network.objective == "peak":
            return float(schedule.peak - self.network.floor)
        return schedule.overhead

    def consider(self, schedule: Schedule) -> None:
        """Take a schedule if it keeps all limits and is better than the best."""
        price = self.price(schedule)
        if price >= self.most or not schedule.is_within_limits:
            return
        room = self.network.room
        if room is not None and schedule.peak > room:
            return
        self.best, self.most = schedule, price
        self.tell()

    def raise_bound(self, bound: float) -> None:
        """Take a better bound."""
        if bound > self.bound:
            self.bound = min(bound, self.most)
            self.tell()

    def tell(self) -> None:
        """Report how things stand."""
        if self.progress is not None:
            overhead = None if self.best is None else self.most
            self.progress(Progress(self.seconds, overhead, self.bound))

    def begin(self, hint: Iterable[Instruction] | None) -> None:
        """Quick schedules, and the limits that nothing can keep."""
        network = self.network
        room = network.room
        if (room is not None and room < network.floor) or network.spare_seconds < 0:
            self.is_infeasible = True
            return
        if hint is not None:
            self.consider(schedule_of(network, hint))
        self.consider(keep_all(network))
        if self.page:
            self.consider(page_all(network))
            if room is not None and self.most > 0:
                self.consider(page_least(network, room))

    def run(self) -> None:
        """Lists with near runs, then bounds, while there is time."""
        if self.is_done:
            return
        near = self.near(0.5)
        early: set[int] = set()  # operators with early slots
        while not self.is_done:
            ghosts = self.bounded(early)
            if not ghosts or ghosts <= early:
                break
            early |= ghosts
        if not self.is_done and not near.is_finished:
            self.near(1.0)

    def bounded(self, early: set[int]) -> set[int]:
        """Raise the bound; the ghosts that another bound should do without, if any."""
        again = self.again()
        slots, is_cut = _not_too_many(
            lambda depth: bounding_slots(self.network, again, early, depth)
        )
        model, outcome = self.engine(slots, self.left, bounding=True)
        self.raise_bound(outcome.bound)
        if outcome.values is None:
            self.is_infeasible = outcome.is_finished and self.best is None
            return set()
        return set() if is_cut or not outcome.is_finished else ghosts_of(model, outcome.values)

    def near(self, share: float) -> Outcome:
        """The best schedule with near runs again."""
        again = self.again()
        slots, _ = _not_too_many(lambda depth: near_slots(self.network, again, depth))
        return self.engine(slots, self.left * share, bounding=False)[1]

    def again(self) -> set[int]:
        """Operators that may run again."""
        if not self.rematerialize:
            return set()
        return worth_again(self.network, page=self.page, most=self.most)

    def engine(
        self, slots: Sequence[Slot], seconds: float, *, bounding: bool
    ) -> tuple[Model, Outcome]:
        """Solve the program of some slots."""
        is_peak = self.network.objective == "peak"
        room = self.network.floor if is_peak else self.room()
        most = max(0, self.room() - self.network.floor) if is_peak else None
        model = build_model(self.network, list(slots), page=self.page, room=room, most=most)
        known = self.most < math.inf
        search = Search(
            seconds=seconds,
            gap=GAP / 4,
            reference=1e9 if is_peak else self.reference(),
            cutoff=(self.most * (1 - GAP / 2) if bounding else self.most) if known else None,
            hint=None if self.best is None else hint_of(model, self.best),
            seed=self.seed,
            workers=self.workers,
        )

        def report(values: list[int] | None, bound: float) -> None:
            if values is not None:
                schedule, is_real = decode(model, values)
                if is_real:
                    self.consider(schedule)
            if bounding:
                self.raise_bound(bound)

        outcome = run_engine(model.program, search, report)
        self.is_stopped |= outcome.was_interrupted
        if bounding and outcome.is_finished and outcome.values is None and search.cutoff:
            outcome = Outcome(None, search.cutoff, True, outcome.was_interrupted)
        return model, outcome

    def room(self) -> int:
        """Bytes for values; without a budget, what any list at hand takes."""
        if self.network.room is not None:
            return self.network.room
        return self.best.peak if self.best is not None else keep_all(self.network).peak

    def reference(self) -> float:
        """A price near the optimum's, for scaling."""
        if 0 < self.most < math.inf:
            return self.most
        return math.fsum(self.network.run_cost) or math.fsum(self.network.in_cost) or 1.0

    def solution(self) -> Solution:
        """The outcome."""
        if self.best is None:
            status: Status = "infeasible" if self.is_infeasible else "unknown"
            return Solution(None, None, self.bound, None, status, self.seconds)
        gap = gap_of(self.most, self.bound)
        status = "optimal" if gap <= GAP else "feasible"
        instructions = self.best.instructions
        return Solution(instructions, self.most, self.bound, gap, status, self.seconds)


def _not_too_many(slots_of: Callable[[int | None], list[Slot]]) -> tuple[list[Slot], bool]:
    """The slots with the longest chains that keep the program small, and whether some are cut."""
    slots = slots_of(None)
    if len(slots) <= _MOST_SLOTS:
        return slots, False
    for depth in _DEPTHS:
        slots = slots_of(depth)
        if len(slots) <= _MOST_SLOTS:
            break
    return slots, True
