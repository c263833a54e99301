# SPDX-License-Identifier: Apache-2.0
"""The exact optimiser with one of its two means switched off, for checkmate and paging-only."""

from __future__ import annotations

from collections.abc import Iterable

from trainlet.errors import TrainletError
from trainlet.planning.instructions import Instruction
from trainlet.planning.methods.limits import accept
from trainlet.planning.optimal import smallest_budget, smallest_deadline, solve
from trainlet.planning.problem import Problem

_SECONDS = 60.0


def least_alone(
    problem: Problem,
    method: str,
    *,
    rematerialize: bool,
    page: bool,
    hint: Iterable[Instruction] | None = None,
    time_limit: float = _SECONDS,
) -> tuple[Instruction, ...]:
    """The list of least energy by computing again alone, or by paging alone.

    Raises:
        TrainletError: no such list keeps the budget and the deadline, or none was found in time.
    """
    solution = solve(
        problem, rematerialize=rematerialize, page=page, time_limit=time_limit, hint=hint
    )
    if solution.instructions is not None:
        return accept(problem, method, solution.instructions)
    raise _error(problem, method, rematerialize, page, time_limit)


def _error(
    problem: Problem, method: str, rematerialize: bool, page: bool, seconds: float
) -> TrainletError:
    """What limits cannot be kept, and what bytes and what time would do."""
    means = {"rematerialize": rematerialize, "page": page}
    limits, hints = [], []
    if problem.deadline_seconds is not None:
        limits.append(f"{problem.deadline_seconds:.6g} s")
        shortest = smallest_deadline(problem, time_limit=seconds, **means)
        if shortest is not None:
            hints.append(f"with these bytes it needs {shortest.limit:.6g} s")
    if problem.budget_bytes is not None:
        limits.append(f"{problem.budget_bytes} bytes")
        least = smallest_budget(problem, time_limit=seconds, **means)
        if least is not None:
            within = "in this time " if problem.deadline_seconds is not None else ""
            hints.append(f"{within}the smallest peak it reaches is {least.limit:.0f} bytes")
    hints = hints or ["allow more of both"]
    return TrainletError(
        f"{method} cannot plan {problem.name!r} within {' and '.join(limits)}; {'; '.join(hints)}"
    )
