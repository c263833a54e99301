# SPDX-License-Identifier: Apache-2.0
"""The least overhead of any instruction list, by Dijkstra's search over all states.

It shares nothing with the optimiser but the class of lists: first runs in the problem's order;
between two of these, runs again in the same order, each once at most, and not the operator that
has just run; frees, page-outs and page-ins anywhere.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from trainlet.planning import OpSpec, Problem


class State(NamedTuple):
    stage: int  # operators that have run for the first time
    cursor: int  # the last operator that ran again in this stage
    resident: frozenset[str]
    stored: frozenset[str]
    seconds: float  # 0 where there is no deadline


def least_overhead(
    problem: Problem, budget: int, *, page: bool = True, rematerialize: bool = True
) -> float | None:
    """Joules beyond one run of every operator; None where no list keeps the limits."""
    room = budget - problem.fixed_bytes
    start = State(0, -1, frozenset(problem.inputs), frozenset(), 0.0)
    if _size(problem, start.resident) > room:
        return None
    best: dict[State, float] = {start: 0.0}
    heap = [(0.0, 0, start)]
    count = 1
    while heap:
        cost, _, state = heapq.heappop(heap)
        if cost > best[state]:
            continue
        if state.stage == len(problem.ops) and set(problem.outputs) <= state.resident:
            return cost
        for price, following in _moves(problem, room, state, page, rematerialize):
            deadline = problem.deadline_seconds
            if deadline is not None and following.seconds > deadline:
                continue
            if cost + price < best.get(following, float("inf")):
                best[following] = cost + price
                heapq.heappush(heap, (cost + price, count, following))
                count += 1
    return None


def _size(problem: Problem, values: frozenset[str]) -> int:
    return sum(problem.extent(value) for value in values)


def _moves(
    problem: Problem, room: int, state: State, page: bool, rematerialize: bool
) -> Iterator[tuple[float, State]]:
    timed = problem.deadline_seconds is not None
    for value in state.resident:
        yield 0.0, state._replace(resident=state.resident - {value})
    if page:
        yield from _paging(problem, room, state, timed)
    for index, op in enumerate(problem.ops[: state.stage + 1]):
        first = index == state.stage
        if not first and (not rematerialize or not state.cursor < index < state.stage - 1):
            continue
        if not first and not _may_run_again(problem, index, state.stage):
            continue
        if not set(op.inputs) <= state.resident or set(op.outputs) & state.resident:
            continue
        for dying, saved in _savings(problem, op):
            made = state.resident | set(op.outputs)
            if _size(problem, made) + problem.align(op.scratch_bytes) - saved <= room:
                yield (
                    0.0 if first else op.joules,
                    State(
                        state.stage + first,
                        -1 if first else index,
                        made - dying,
                        state.stored,
                        state.seconds + op.seconds if timed else 0.0,
                    ),
                )


def _paging(
    problem: Problem, room: int, state: State, timed: bool
) -> Iterator[tuple[float, State]]:
    limit = problem.storage_bytes
    if problem.write_limit_bytes is not None:
        limit = min(limit, problem.write_limit_bytes)
    for value in state.resident - state.stored:
        stored = state.stored | {value}
        if sum(problem.value_by_name[name].bytes for name in stored) <= limit:
            spent = problem.page_out.seconds(problem.value_by_name[value].bytes) if timed else 0.0
            following = state._replace(stored=stored, seconds=state.seconds + spent)
            yield problem.page_out_joules(value), following
    for value in state.stored - state.resident:
        resident = state.resident | {value}
        if _size(problem, resident) <= room:
            spent = problem.page_in.seconds(problem.value_by_name[value].bytes) if timed else 0.0
            following = state._replace(resident=resident, seconds=state.seconds + spent)
            yield problem.page_in_joules(value), following


def _may_run_again(problem: Problem, index: int, stage: int) -> bool:
    op = problem.ops[index]
    written = {name for other in problem.ops[index + 1 : stage] for name in other.writes}
    return not op.writes and not written & set(op.reads)


def _savings(problem: Problem, op: OpSpec) -> Iterator[tuple[frozenset[str], int]]:
    """Inputs freed right after, and the most bytes that overwriting them saves."""
    yield frozenset(), 0
    for size in range(1, len(op.overwrites) + 1):
        for chosen in combinations(op.overwrites, size):
            sources = {over.input for over in chosen}
            if len(sources) == size == len({over.output for over in chosen}):
                yield (
                    frozenset(sources),
                    sum(
                        max(
                            0,
                            min(problem.extent(over.output) - over.lag, problem.extent(over.input)),
                        )
                        for over in chosen
                    ),
                )
