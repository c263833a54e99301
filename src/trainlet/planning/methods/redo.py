# SPDX-License-Identifier: Apache-2.0
"""Which values can be made again whenever they are read, and how long others must wait for them.

A value can *return* if its operator may run again until the value's last read, with inputs that
are there or can return as long. What cannot return is *held*: until its own last read, or, where
operators that may run again read it, until the last position at which they could.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainlet.planning.methods.schedule import Uses, redo_limits
from trainlet.planning.problem import Problem


@dataclass(frozen=True)
class Redo:
    """What may be dropped between its uses, and until where everything stays at most."""

    returning: frozenset[str]
    until: dict[str, int]

    def can_return(self, value: str) -> bool:
        """Whether the value may be dropped at any time."""
        return value in self.returning

    def held(self, value: str) -> int:
        """The position after which the value is dropped for good."""
        return self.until[value]


def redo_of(problem: Problem, uses: Uses) -> Redo:
    """Follow the limits through the graph, forwards for who may return, backwards for the rest."""
    limits = redo_limits(problem)
    roots = {value for value, made in uses.made.items() if made < 0 or limits[made] < 0}
    reach = _reach(problem, uses, limits)
    there = {value: reach[value] for value in problem.inputs}  # available until
    returning = set()
    for index, op in enumerate(problem.ops):
        valid = min((limits[index], *(there[value] for value in op.inputs)))
        for value in op.outputs:
            last = uses.last(value)
            if value in roots:
                there[value] = reach[value]
            else:
                there[value] = max(valid, last)
                if valid >= last:
                    returning.add(value)
    until = {value: reach[value] if value in roots else uses.last(value) for value in uses.made}
    return Redo(frozenset(returning), until)


def _reach(problem: Problem, uses: Uses, limits: list[int]) -> dict[str, int]:
    """The last position at which a value could be read: by its readers, or to run them again."""
    reach = {value: uses.last(value) for value in uses.made}
    for index in reversed(range(len(problem.ops))):
        op = problem.ops[index]
        if limits[index] < 0:
            continue
        again = min(limits[index], max((reach[value] for value in op.outputs), default=-1))
        for value in op.inputs:
            reach[value] = max(reach[value], again)
    return reach
