# SPDX-License-Identifier: Apache-2.0
"""What the methods share: events without frees, where frees then belong, and what may run again.

A method writes *events*: operators run, values paged out and in, in order. ``with_frees`` adds the
frees: every copy of a value goes right after its last use before it is made again. To drop a value
between two uses is therefore to make it again before the second one, and any events whose
operators find their inputs made before them are a valid list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trainlet.planning.instructions import Compute, Free, Instruction, PageIn, PageOut
from trainlet.planning.problem import Problem

Event = Compute | PageOut | PageIn


def with_frees(problem: Problem, events: Sequence[Event]) -> tuple[Instruction, ...]:
    """The instruction list of these events: each copy is freed at its last use.

    The events of ``keep-all``, every operator once, become the list of ``keep-all``.
    """
    needed = set(problem.outputs)
    backwards: list[Instruction] = []
    for event in reversed(events):
        made, used = _made_and_used(problem, event)
        dying = [value for value in (*used, *made) if value not in needed]
        backwards += [Free(value) for value in reversed(dying)]
        backwards.append(event)
        needed.difference_update(made)
        needed.update(used)
    unused = [value for value in problem.inputs if value not in needed]
    return (*(Free(value) for value in unused), *reversed(backwards))


def _made_and_used(problem: Problem, event: Event) -> tuple[Sequence[str], Sequence[str]]:
    match event:
        case Compute(name):
            op = problem.op_by_name[name]
            return op.outputs, tuple(dict.fromkeys(op.inputs))
        case PageOut(value):
            return (), (value,)
        case PageIn(value):
            return (value,), ()


@dataclass(frozen=True)
class Uses:
    """Where values are made and read in the problem's order; positions are places in ``ops``.

    Attributes:
        made: the operator that makes a value; -1 for the problem's inputs.
        read: the operators that read it, ascending; an output of the problem is read at the end.
    """

    made: dict[str, int]
    read: dict[str, tuple[int, ...]]

    def last(self, value: str) -> int:
        """The last read, or where the value is made if nobody reads it."""
        return self.read[value][-1] if self.read[value] else self.made[value]


def uses_of(problem: Problem) -> Uses:
    """Positions of every value's maker and readers."""
    made = dict.fromkeys(problem.inputs, -1)
    read: dict[str, list[int]] = {value.name: [] for value in problem.values}
    for index, op in enumerate(problem.ops):
        made.update(dict.fromkeys(op.outputs, index))
        for value in dict.fromkeys(op.inputs):
            read[value].append(index)
    for value in problem.outputs:
        read[value].append(len(problem.ops))
    return Uses(made, {value: tuple(places) for value, places in read.items()})


def redo_limits(problem: Problem) -> list[int]:
    """For each operator the last position before which it may run again; -1: it never may.

    Whoever writes state runs once; whoever reads state must run again before it changes.
    """
    end = len(problem.ops)
    limits = [end] * end
    next_write: dict[str, int] = {}
    for index in reversed(range(len(problem.ops))):
        op = problem.ops[index]
        limits[index] = min((next_write[s] for s in op.reads if s in next_write), default=end)
        if op.writes:
            limits[index] = -1
        next_write.update(dict.fromkeys(op.writes, index))
    return limits


@dataclass(frozen=True)
class Price:
    """What a method counts as cost: joules or seconds."""

    problem: Problem
    in_joules: bool

    def compute(self, index: int) -> float:
        """Cost of running the operator at this position."""
        op = self.problem.ops[index]
        return op.joules if self.in_joules else op.seconds

    def page_out(self, value: str) -> float:
        """Cost of writing a value to storage."""
        if self.in_joules:
            return self.problem.page_out_joules(value)
        return self.problem.page_out.seconds(self.problem.value_by_name[value].bytes)

    def page_in(self, value: str) -> float:
        """Cost of reading a value from storage."""
        if self.in_joules:
            return self.problem.page_in_joules(value)
        return self.problem.page_in.seconds(self.problem.value_by_name[value].bytes)


def price_of(problem: Problem) -> Price:
    """Joules where the operators have any, else seconds."""
    return Price(problem, any(op.joules for op in problem.ops))


def extent_of(problem: Problem, values: Iterable[str]) -> int:
    """Bytes that these values take up together."""
    return sum(problem.extent(value) for value in values)
