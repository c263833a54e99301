# SPDX-License-Identifier: Apache-2.0
"""The smallest budget and the smallest deadline that some list keeps."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from trainlet.planning.optimal.network import network_of
from trainlet.planning.optimal.solve import solve
from trainlet.planning.problem import Problem


@dataclass(frozen=True)
class Smallest:
    """The smallest limit found, and whether none smaller can be kept."""

    limit: float
    is_proven: bool


def smallest_budget(
    problem: Problem,
    *,
    rematerialize: bool = True,
    page: bool = True,
    time_limit: float = 60.0,
    workers: int = 2,
) -> Smallest | None:
    """Bytes of the smallest budget, fixed bytes included, with the problem's other limits kept.

    None where the other limits cannot be kept with any budget, or nothing was found in time.
    """
    free = replace(problem, budget_bytes=None)
    solution = solve(
        free,
        rematerialize=rematerialize,
        page=page,
        objective="peak",
        time_limit=time_limit,
        workers=workers,
    )
    if solution.overhead is None:
        return None
    floor = network_of(free, "peak").floor
    limit = problem.fixed_bytes + floor + round(solution.overhead)
    return Smallest(limit, solution.status == "optimal")


def smallest_deadline(
    problem: Problem,
    *,
    rematerialize: bool = True,
    page: bool = True,
    time_limit: float = 60.0,
    workers: int = 2,
) -> Smallest | None:
    """Seconds of the smallest deadline, with the problem's other limits kept.

    None where the other limits cannot be kept with any deadline, or nothing was found in time.
    """
    solution = solve(
        replace(problem, deadline_seconds=None),
        rematerialize=rematerialize,
        page=page,
        objective="time",
        time_limit=time_limit,
        workers=workers,
    )
    if solution.overhead is None:
        return None
    seconds = math.fsum(op.seconds for op in problem.ops) + solution.overhead
    return Smallest(seconds, solution.status == "optimal")
