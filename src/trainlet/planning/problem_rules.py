# SPDX-License-Identifier: Apache-2.0
"""The rules a problem must keep; all that are broken are reported together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from trainlet.errors import TrainletError

if TYPE_CHECKING:
    from trainlet.planning.problem import OpSpec, Problem

_SHOWN = 50


def problems_of(problem: Problem) -> TrainletError | None:
    """One error that lists every broken rule, or None."""
    found = list(_faults(problem))
    if not found:
        return None
    more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    return TrainletError.of_all(
        f"the problem {problem.name!r} cannot be planned:", found[:_SHOWN] + more
    )


def _faults(problem: Problem) -> Iterator[str]:
    yield from _limit_faults(problem)
    yield from _name_faults(problem)
    known = {value.name for value in problem.values}
    for value in problem.values:
        if not _is_count(value.bytes):
            yield f"value {value.name!r} has {value.bytes!r} bytes; give a whole number >= 0"
        for what in ("page_out_joules", "page_in_joules"):
            number = getattr(value, what)
            if number is not None and not _is_cost(number):
                yield f"value {value.name!r} has {what} {number!r}; give a finite number >= 0"
    for op in problem.ops:
        yield from _op_faults(problem, op, known)
    for role, names in (("input", problem.inputs), ("output", problem.outputs)):
        for name in names:
            if name not in known:
                yield f"{role} {name!r} of the problem is not among its values"
    yield from _production_faults(problem, known)
    yield from _order_faults(problem)


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


def _is_cost(number: object) -> bool:
    if isinstance(number, bool) or not isinstance(number, int | float):
        return False
    return math.isfinite(number) and number >= 0


def _limit_faults(problem: Problem) -> Iterator[str]:
    for what in ("fixed_bytes", "storage_bytes", "budget_bytes", "write_limit_bytes"):
        number = getattr(problem, what)
        may_lack = what in ("budget_bytes", "write_limit_bytes")
        if not _is_count(number) and not (number is None and may_lack):
            yield f"{what} is {number!r}; give a whole number of bytes >= 0"
    if not _is_count(problem.alignment) or problem.alignment < 1:
        yield f"alignment is {problem.alignment!r}; give a whole number of bytes >= 1"
    if problem.deadline_seconds is not None and not _is_cost(problem.deadline_seconds):
        yield f"deadline_seconds is {problem.deadline_seconds!r}; give a finite number >= 0"
    for way in ("page_out", "page_in"):
        cost = getattr(problem, way)
        for what, number in vars(cost).items():
            if not _is_cost(number):
                yield f"{way}.{what} is {number!r}; give a finite number >= 0"


def _name_faults(problem: Problem) -> Iterator[str]:
    values = [value.name for value in problem.values]
    ops = [op.name for op in problem.ops]
    for kind, names in (("value", values), ("operator", ops)):
        for name, count in Counter(names).items():
            if not name or "#" in name or any(char.isspace() for char in name):
                yield f"{kind} name {name!r} is empty or holds a blank or '#'"
            if count > 1:
                yield f"{kind} {name!r} is listed {count} times"
    for role, listed in (("input", problem.inputs), ("output", problem.outputs)):
        yield from (
            f"{role} {name!r} of the problem is listed {count} times"
            for name, count in Counter(listed).items()
            if count > 1
        )


def _op_faults(problem: Problem, op: OpSpec, known: set[str]) -> Iterator[str]:
    where = f"operator {op.name!r}"
    for name in dict.fromkeys((*op.inputs, *op.outputs)):
        if name not in known:
            yield f"{where} names the value {name!r}, which does not exist"
    if not _is_count(op.scratch_bytes):
        yield f"{where} has {op.scratch_bytes!r} bytes of scratch; give a whole number >= 0"
    for what in ("seconds", "joules"):
        if not _is_cost(getattr(op, what)):
            yield f"{where} has {what} {getattr(op, what)!r}; give a finite number >= 0"
    pairs = Counter((overwrite.output, overwrite.input) for overwrite in op.overwrites)
    for (output, source), count in pairs.items():
        pair = f"{where} lets {output!r} overwrite {source!r}"
        if count > 1:
            yield f"{pair} {count} times"
        if output not in op.outputs:
            yield f"{pair}, but {output!r} is no output of it"
        if source not in op.inputs:
            yield f"{pair}, but {source!r} is no input of it"
    step = problem.alignment if _is_count(problem.alignment) and problem.alignment else 1
    for overwrite in op.overwrites:
        if not _is_count(overwrite.lag) or overwrite.lag % step:
            yield (
                f"{where} lets {overwrite.output!r} overwrite {overwrite.input!r} with lag "
                f"{overwrite.lag!r}; give a multiple of the alignment, {problem.alignment}"
            )


def _production_faults(problem: Problem, known: set[str]) -> Iterator[str]:
    makers: dict[str, list[str]] = {}
    for name in problem.inputs:
        makers.setdefault(name, []).append("the problem's inputs")
    for op in problem.ops:
        for output in op.outputs:
            makers.setdefault(output, []).append(f"operator {op.name!r}")
    for name, sources in makers.items():
        if len(sources) > 1:
            yield f"value {name!r} is produced {len(sources)} times: by {' and by '.join(sources)}"
    for value in problem.values:
        if value.name not in makers:
            yield f"value {value.name!r} is produced by no operator and is no input"


def _order_faults(problem: Problem) -> Iterator[str]:
    position: dict[str, int] = {}
    for index, op in enumerate(problem.ops):
        for output in op.outputs:
            position.setdefault(output, index)
    available = set(problem.inputs)
    looping = _ops_in_cycles(problem, position)
    if looping:
        yield f"operators depend on one another in a cycle: {_shorten(looping)}"
    for index, op in enumerate(problem.ops):
        for name in dict.fromkeys(op.inputs):
            late = name not in available and position.get(name, -1) >= index
            if late and op.name not in looping:
                maker = problem.ops[position[name]].name
                yield f"operator {op.name!r} uses {name!r} before operator {maker!r} produces it"
        available.update(op.outputs)


def _ops_in_cycles(problem: Problem, position: dict[str, int]) -> list[str]:
    """Names of the operators on a dependency cycle or between two, in listed order."""
    before = [
        {position[name] for name in op.inputs if name in position and name not in problem.inputs}
        for op in problem.ops
    ]
    after: list[set[int]] = [set() for _ in problem.ops]
    for index, sources in enumerate(before):
        for source in sources:
            after[source].add(index)
    # What has no predecessor left, or no successor left, is on no cycle: strip both ways.
    left = _strip(_strip(set(range(len(problem.ops))), before, after), after, before)
    return [problem.ops[index].name for index in sorted(left)]


def _strip(nodes: set[int], before: list[set[int]], after: list[set[int]]) -> set[int]:
    left = set(nodes)
    degree = {node: len(before[node] & left) for node in left}
    ready = [node for node in left if degree[node] == 0]
    while ready:
        node = ready.pop()
        left.discard(node)
        for successor in after[node] & left:
            degree[successor] -= 1
            if degree[successor] == 0:
                ready.append(successor)
    return left


def _shorten(names: Iterable[str], limit: int = 8) -> str:
    listed = [repr(name) for name in names]
    rest = f" and {len(listed) - limit} more" if len(listed) > limit else ""
    return ", ".join(listed[:limit]) + rest
