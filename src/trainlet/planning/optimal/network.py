# SPDX-License-Identifier: Apache-2.0
"""A problem with numbers for names, and the price of every instruction under one objective."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from trainlet.planning.problem import Problem

Objective = Literal["energy", "time", "peak"]


@dataclass(frozen=True)
class Network:
    """What the optimiser reads of a problem; operators and values are numbered as listed there.

    Attributes:
        reads: value numbers that each operator reads, each once.
        makes: value numbers that each operator makes.
        sizes: bytes that each value takes up.
        working: bytes alive while an operator runs: inputs, outputs, scratch.
        room: bytes of the budget that are not fixed; None is no limit.
        run_cost, out_cost, in_cost: the objective's price of running, paging out and paging in.
        run_seconds, out_seconds, in_seconds: the same in seconds.
    """

    problem: Problem
    objective: Objective
    reads: tuple[tuple[int, ...], ...]
    makes: tuple[tuple[int, ...], ...]
    maker: tuple[int, ...]  # -1: an input of the problem
    outputs: tuple[int, ...]
    sizes: tuple[int, ...]
    lengths: tuple[int, ...]  # bytes that paging moves: sizes before alignment
    working: tuple[int, ...]
    room: int | None
    run_cost: tuple[float, ...]
    out_cost: tuple[float, ...]
    in_cost: tuple[float, ...]
    run_seconds: tuple[float, ...]
    out_seconds: tuple[float, ...]
    in_seconds: tuple[float, ...]

    @property
    def op_count(self) -> int:
        """Number of operators."""
        return len(self.reads)

    @property
    def value_count(self) -> int:
        """Number of values."""
        return len(self.sizes)

    @cached_property
    def inputs(self) -> tuple[int, ...]:
        """Values that exist before the first operator."""
        return tuple(value for value, maker in enumerate(self.maker) if maker < 0)

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """Operators that read each value, in order."""
        found: list[list[int]] = [[] for _ in self.sizes]
        for op, values in enumerate(self.reads):
            for value in values:
                found[value].append(op)
        return tuple(map(tuple, found))

    @cached_property
    def spare_seconds(self) -> float:
        """Seconds that the deadline leaves beyond one pass; infinite without a deadline."""
        deadline = self.problem.deadline_seconds
        return math.inf if deadline is None else deadline - math.fsum(self.run_seconds)

    @cached_property
    def overwrites(self) -> tuple[tuple[tuple[int, int, int], ...], ...]:
        """(output, input, bytes saved) that each operator permits, where any are saved."""
        number = {value.name: index for index, value in enumerate(self.problem.values)}
        found = []
        for op in self.problem.ops:
            pairs = []
            for over in op.overwrites:
                target, source = number[over.output], number[over.input]
                saved = min(self.sizes[target] - over.lag, self.sizes[source])
                if saved > 0:
                    pairs.append((target, source, saved))
            found.append(tuple(pairs))
        return tuple(found)

    @cached_property
    def last_stages(self) -> tuple[int, ...]:
        """The last stage in which an operator may run again: the state it reads is still the same.

        Stage t ends with the first run of operator t; a run again in stage t precedes it.
        """
        return tuple(self._last_stage(index) for index in range(self.op_count))

    def _last_stage(self, index: int) -> int:
        op = self.problem.ops[index]
        if op.writes:
            return index
        for later in range(index + 1, self.op_count):
            if set(self.problem.ops[later].writes) & set(op.reads):
                return later
        return self.op_count

    @cached_property
    def floor(self) -> int:
        """Bytes that any instruction list needs: the largest working set at its best."""
        best = [
            working - sum(saved for *_, saved in pairs)
            for working, pairs in zip(self.working, self.overwrites, strict=True)
        ]
        at_start = sum(self.sizes[value] for value in self.inputs)
        at_end = sum(self.sizes[value] for value in self.outputs)
        return max([at_start, at_end, *best])


def network_of(problem: Problem, objective: Objective) -> Network:
    """Number a problem's operators and values."""
    number = {value.name: index for index, value in enumerate(problem.values)}
    reads = tuple(tuple(number[v] for v in dict.fromkeys(op.inputs)) for op in problem.ops)
    makes = tuple(tuple(number[v] for v in op.outputs) for op in problem.ops)
    sizes = tuple(problem.align(value.bytes) for value in problem.values)
    maker = [-1] * len(sizes)
    for op, values in enumerate(makes):
        for value in values:
            maker[value] = op
    seconds = tuple(op.seconds for op in problem.ops)
    outs = tuple(problem.page_out.seconds(value.bytes) for value in problem.values)
    ins = tuple(problem.page_in.seconds(value.bytes) for value in problem.values)
    names = [value.name for value in problem.values]
    zeros = (tuple(0.0 for _ in seconds), tuple(0.0 for _ in names), tuple(0.0 for _ in names))
    prices = {
        "energy": (
            tuple(op.joules for op in problem.ops),
            tuple(problem.page_out_joules(name) for name in names),
            tuple(problem.page_in_joules(name) for name in names),
        ),
        "time": (seconds, outs, ins),
        "peak": zeros,
    }[objective]
    budget = problem.budget_bytes
    return Network(
        problem=problem,
        objective=objective,
        reads=reads,
        makes=makes,
        maker=tuple(maker),
        outputs=tuple(number[name] for name in problem.outputs),
        sizes=sizes,
        lengths=tuple(value.bytes for value in problem.values),
        working=tuple(
            sum(sizes[value] for value in {*reads[index], *makes[index]})
            + problem.align(op.scratch_bytes)
            for index, op in enumerate(problem.ops)
        ),
        room=None if budget is None else budget - problem.fixed_bytes,
        run_cost=prices[0],
        out_cost=prices[1],
        in_cost=prices[2],
        run_seconds=seconds,
        out_seconds=outs,
        in_seconds=ins,
    )
