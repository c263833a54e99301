# SPDX-License-Identifier: Apache-2.0
"""What the checker accepts runs: mutated plans against a simulation that moves tagged bytes.

The simulation knows nothing of intervals or permits. Each operator writes its outputs byte by
byte in ascending order and, as its declared lag allows, still reads every input byte at a
position above k - lag when it writes byte k.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from planning_problems import problems

from trainlet.planning import Compute, Free, OpSpec, PageIn, PageOut, Plan, Problem, make_plan
from trainlet.planning.checker import violations_of
from trainlet.planning.plan import copy_key, scratch_key

# Claims are about numbers, not about whether the step runs.
_BOOKKEEPING = ("claim-", "overlap-unused", "leak")


class Simulation:
    """An arena whose bytes carry (value, position); ``fails`` says whether a read went wrong."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.problem, self.plan = problem, plan
        self.memory: dict[int, tuple[str, int]] = {}
        self.at: dict[str, int] = {}
        self.copies: Counter[str] = Counter()
        self.runs: Counter[str] = Counter()
        self.stored: set[str] = set()

    def fails(self) -> bool:
        for name in self.problem.inputs:
            self.place(name)
            self.fill(name)
        for step in self.plan.instructions:
            match step:
                case Compute(name):
                    if not self.run(self.problem.op_by_name[name]):
                        return True
                case Free(value):
                    if self.at.pop(value, None) is None:
                        return True
                case PageOut(value):
                    if not self.whole(value):
                        return True
                    self.stored.add(value)
                case PageIn(value):
                    if value not in self.stored:
                        return True
                    self.place(value)
                    self.fill(value)
        return not all(self.whole(name) for name in self.problem.outputs)

    def place(self, value: str) -> None:
        self.at[value] = self.plan.addresses[copy_key(value, self.copies[value])]
        self.copies[value] += 1

    def fill(self, value: str) -> None:
        for k in range(self.problem.value_by_name[value].bytes):
            self.memory[self.at[value] + k] = (value, k)

    def whole(self, value: str) -> bool:
        return value in self.at and self.holds(value, 0)

    def holds(self, value: str, first: int) -> bool:
        """Whether the bytes from a position on are still those of the value."""
        size, at = self.problem.value_by_name[value].bytes, self.at[value]
        return all(self.memory.get(at + k) == (value, k) for k in range(max(first, 0), size))

    def run(self, op: OpSpec) -> bool:
        if not all(self.whole(name) for name in op.inputs):
            return False
        before = dict(self.at)
        start = self.plan.addresses.get(scratch_key(op.name, self.runs[op.name]), 0)
        if op.scratch_bytes:
            self.memory |= {start + k: ("scratch", k) for k in range(op.scratch_bytes)}
        self.runs[op.name] += 1
        lag = {(o.output, o.input): o.lag for o in op.overwrites}
        for output in op.outputs:
            self.place(output)
            for k in range(self.problem.value_by_name[output].bytes):
                self.memory[self.at[output] + k] = (output, k)
                for source in op.inputs:
                    written = self.memory_hit(before[source], source, self.at[output] + k)
                    if written is not None and not written <= k - lag.get((output, source), k + 1):
                        return False
        if any(self.memory[start + k] != ("scratch", k) for k in range(op.scratch_bytes)):
            return False
        return all(self.holds(output, 0) for output in op.outputs)

    def memory_hit(self, start: int, source: str, address: int) -> int | None:
        """Position in the input that an address falls on."""
        position = address - start
        return position if 0 <= position < self.problem.value_by_name[source].bytes else None


def accepts(problem: Problem, plan: Plan) -> bool:
    found = violations_of(problem, plan)
    return not [v for v in found if not v.kind.startswith(_BOOKKEEPING)]


@settings(max_examples=150, deadline=None)
@given(problems(most_ops=6), st.data())
def test_what_the_checker_accepts_runs(problem: Problem, data: st.DataObject) -> None:
    plan = make_plan(problem)
    assert not Simulation(problem, plan).fails()
    change = data.draw(st.sampled_from(["address", "order", "overlaps"]))
    if change == "address":
        key = data.draw(st.sampled_from(sorted(plan.addresses)))
        to = problem.alignment * data.draw(st.integers(0, plan.arena_bytes // problem.alignment))
        plan = replace(plan, addresses={**plan.addresses, key: to})
    elif change == "order":
        steps = list(plan.instructions)
        moving = steps.pop(data.draw(st.integers(0, len(steps) - 1)))
        steps.insert(data.draw(st.integers(0, len(steps))), moving)
        plan = replace(plan, instructions=tuple(steps))
    else:
        smaller = tuple(
            replace(op, overwrites=tuple(replace(o, lag=o.lag + 8) for o in op.overwrites))
            for op in problem.ops
        )
        problem = replace(problem, ops=smaller)
        recorded = tuple(replace(o, lag=o.lag + 8) for o in plan.overlaps)
        plan = replace(plan, overlaps=recorded)
    if accepts(problem, plan):
        assert not Simulation(problem, plan).fails()
