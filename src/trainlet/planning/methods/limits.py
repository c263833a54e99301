# SPDX-License-Identifier: Apache-2.0
"""The problem's limits as the methods see them, and one line for each that is not met."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from trainlet.errors import TrainletError
from trainlet.planning.instructions import Compute, Instruction, PageIn, PageOut
from trainlet.planning.lifetimes import lifetimes_of
from trainlet.planning.problem import Problem

_CLOSE_ENOUGH = 1000  # a smallest peak is sought to a thousandth


class OverBudgetError(Exception):
    """A method finds no list within the bytes it was given."""


def arena_limit(problem: Problem) -> int | None:
    """Bytes that the budget leaves for values and scratch; None is no limit."""
    budget = problem.budget_bytes
    return None if budget is None else budget - problem.fixed_bytes


def peak_of(problem: Problem, instructions: tuple[Instruction, ...]) -> int:
    """Most live bytes at any time, without the fixed ones."""
    return lifetimes_of(problem, instructions).lower_bound_bytes


def fits(problem: Problem, instructions: tuple[Instruction, ...]) -> bool:
    """Whether the live bytes of a list stay within the budget."""
    limit = arena_limit(problem)
    return limit is None or peak_of(problem, instructions) <= limit


def seconds_of(problem: Problem, instructions: Sequence[Instruction]) -> float:
    """Seconds of computing and paging, one after the other."""
    sizes, ops = problem.value_by_name, problem.op_by_name
    seconds = []
    for instruction in instructions:
        match instruction:
            case Compute(name):
                seconds.append(ops[name].seconds)
            case PageOut(value):
                seconds.append(problem.page_out.seconds(sizes[value].bytes))
            case PageIn(value):
                seconds.append(problem.page_in.seconds(sizes[value].bytes))
            case _:
                pass
    return math.fsum(seconds)


def in_time(problem: Problem, instructions: Sequence[Instruction]) -> bool:
    """Whether a list keeps the deadline."""
    deadline = problem.deadline_seconds
    return deadline is None or seconds_of(problem, instructions) <= deadline


def writable_bytes(problem: Problem) -> int:
    """Bytes that may be paged out: what storage holds and what wear allows."""
    limit = problem.write_limit_bytes
    return problem.storage_bytes if limit is None else min(problem.storage_bytes, limit)


def accept(
    problem: Problem, method: str, instructions: tuple[Instruction, ...]
) -> tuple[Instruction, ...]:
    """The list, if it keeps the budget and the deadline.

    Raises:
        TrainletError: it does not; the line says what the method reaches.
    """
    limit = arena_limit(problem)
    if limit is not None:
        peak = peak_of(problem, instructions)
        if peak > limit:
            raise budget_error(problem, method, peak)
    if not in_time(problem, instructions):
        raise TrainletError(
            f"{method} takes {seconds_of(problem, instructions):.6g} s for {problem.name!r}, more "
            f"than the deadline of {problem.deadline_seconds:.6g} s; allow more time or bytes, or "
            "choose another method"
        )
    return instructions


def budget_error(problem: Problem, method: str, smallest: int) -> TrainletError:
    """The line for a budget out of reach; ``smallest`` is without the fixed bytes."""
    reached = smallest + problem.fixed_bytes
    return TrainletError(
        f"{method} cannot plan {problem.name!r} within {problem.budget_bytes} bytes; the smallest "
        f"peak it reaches is {reached} bytes"
    )


def smallest_plan(
    problem: Problem,
    attempt: Callable[[int], tuple[Instruction, ...]],
    low: int,
    high: int,
) -> tuple[tuple[Instruction, ...], int]:
    """The list of the smallest peak found by halving, and that peak.

    ``attempt`` fails at ``low`` and works at ``high``.

    Raises:
        OverBudgetError: it fails at ``high`` too.
    """
    best = attempt(high)
    peak = peak_of(problem, best)
    while high - low > max(high // _CLOSE_ENOUGH, problem.alignment):
        middle = (low + high) // 2
        try:
            found = attempt(middle)
        except OverBudgetError:
            low = middle
            continue
        reached = peak_of(problem, found)
        high = min(middle, reached)
        if reached < peak:
            best, peak = found, reached
    return best, peak
