# SPDX-License-Identifier: Apache-2.0
"""Checkpoints at the ends of about sqrt(n) segments; each segment runs again in the backward half.

T. Chen, B. Xu, C. Zhang, C. Guestrin, "Training Deep Nets with Sublinear Memory Cost",
arXiv:1604.06174 (2016), section 4.

The n operators of the forward half are cut, in the problem's order, into ceil(sqrt(n)) segments of
equal count. What a later segment of the forward half reads is a checkpoint and stays; everything
else goes at its last use in the forward half. When the backward half first needs a value of a
segment that is gone, what it needs of that segment runs again, once, from the checkpoints. The
last segment stays: its backward half follows at once. On a graph that is no chain several values
may cross the end of a segment; all of them are checkpoints. An operator that may not run again
(see ``schedule``) has its values kept.

The method does not look at the budget: it gives one plan, of one peak.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trainlet.planning.instructions import Compute, Instruction
from trainlet.planning.methods.limits import accept
from trainlet.planning.methods.phases import forward_length
from trainlet.planning.methods.schedule import Event, Uses, redo_limits, uses_of, with_frees
from trainlet.planning.problem import Problem


def chen_sqrt(problem: Problem) -> tuple[Instruction, ...]:
    """The plan of sqrt(n) segments.

    Raises:
        TrainletError: its peak is over the budget, or it takes longer than the deadline.
    """
    uses = uses_of(problem)
    length = forward_length(problem, uses)
    forward = _Forward(problem, uses, length, math.ceil(math.sqrt(length)))
    again: dict[int, list[int]] = {}  # position in the backward half -> what runs before it
    for segment in range(forward.segments - 1):
        position, ops = _rerun(forward, segment)
        again.setdefault(position, []).extend(ops)
    events: list[Event] = []
    for index, op in enumerate(problem.ops):
        events += [Compute(problem.ops[other].name) for other in again.get(index, [])]
        events.append(Compute(op.name))
    return accept(problem, "chen-sqrt", with_frees(problem, events))


@dataclass(frozen=True)
class _Forward:
    problem: Problem
    uses: Uses
    length: int
    segments: int

    def segment(self, index: int) -> int:
        """The segment of an operator of the forward half."""
        return index * self.segments // self.length

    def is_checkpoint(self, value: str) -> bool:
        """Whether a later segment of the forward half reads the value."""
        own = self.segment(self.uses.made[value])
        return any(
            reader < self.length and self.segment(reader) > own for reader in self.uses.read[value]
        )

    def backward_reads(self, value: str) -> list[int]:
        """Where the backward half reads the value."""
        return [reader for reader in self.uses.read[value] if reader >= self.length]


def _rerun(forward: _Forward, segment: int) -> tuple[int, list[int]]:
    """Before which position a segment runs again, and which of its operators, ascending."""
    problem, limits = forward.problem, redo_limits(forward.problem)
    own = [index for index in range(forward.length) if forward.segment(index) == segment]
    values = [value for index in own for value in problem.ops[index].outputs]
    kept = {value for value in values if forward.is_checkpoint(value)}
    while True:
        gone = [v for v in values if v not in kept and forward.backward_reads(v)]
        if not gone:
            return len(problem.ops), []
        position = min(forward.backward_reads(value)[0] for value in gone)
        ops = _closure(forward, segment, gone, kept)
        stuck = [index for index in ops if limits[index] < position]
        if not stuck and position < len(problem.ops):
            return position, ops
        late = [value for value in gone if forward.backward_reads(value)[0] >= len(problem.ops)]
        kept.update(late, *(problem.ops[index].outputs for index in stuck))


def _closure(forward: _Forward, segment: int, gone: list[str], kept: set[str]) -> list[int]:
    """The operators of a segment that make what is gone, from what is kept."""
    made = forward.uses.made
    found: set[int] = set()
    left = [made[value] for value in gone]
    while left:
        index = left.pop()
        if index in found:
            continue
        found.add(index)
        left += [
            made[value]
            for value in forward.problem.ops[index].inputs
            if value not in kept and made[value] >= 0 and forward.segment(made[value]) == segment
        ]
    return sorted(found)
