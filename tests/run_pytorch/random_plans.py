# SPDX-License-Identifier: Apache-2.0
"""Valid instruction lists at random: values dropped, computed again, paged out and in."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import pairwise

from trainlet.planning import Compute, Free, Instruction, PageIn, PageOut, Problem
from trainlet.run.pytorch.program import UPDATE


@dataclass
class _Writer:
    problem: Problem
    chance: random.Random
    drop: float
    page: float
    resident: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)
    written: list[Instruction] = field(default_factory=list)

    def write(self) -> tuple[Instruction, ...]:
        last = {name: i for i, op in enumerate(self.problem.ops) for name in op.inputs}
        kept = set(self.problem.outputs)
        for index, op in enumerate(self.problem.ops):
            if op.name == UPDATE:
                self._need((*self.problem.outputs, *op.inputs))
            self._need(op.inputs)
            self._compute(op.name)
            for name in sorted(self.resident):
                if last.get(name, -1) <= index and name not in kept:
                    self._free(name)
                elif op.name != UPDATE:
                    self._maybe_leave(name)
        return tuple(self.written)

    def _maybe_leave(self, name: str) -> None:
        if self.chance.random() < self.page and name not in self.stored:
            self.written.append(PageOut(name))
            self.stored.add(name)
            if self.chance.random() < 0.8:
                self._free(name)
        elif self.chance.random() < self.drop:
            self._free(name)

    def _need(self, names: tuple[str, ...]) -> None:
        # Getting one value may take up and make anew another one; none is lost.
        for name in names:
            if name in self.resident:
                continue
            if name in self.stored and self.chance.random() < 0.7:
                self.written.append(PageIn(name))
                self.resident.add(name)
            else:
                self._make(name)

    def _make(self, name: str) -> None:
        op = self.problem.op_by_name[self.problem.producer[name]]
        self._need(op.inputs)
        for output in op.outputs:
            if output in self.resident:
                self._free(output)
        self._compute(op.name)

    def _compute(self, name: str) -> None:
        self.written.append(Compute(name))
        self.resident.update(self.problem.op_by_name[name].outputs)

    def _free(self, name: str) -> None:
        self.written.append(Free(name))
        self.resident.remove(name)


def random_plan(
    problem: Problem, seed: int, *, drop: float = 0.03, page: float = 0.03
) -> tuple[Instruction, ...]:
    """A list in the problem's order; after each operator each value leaves by these chances."""
    return _Writer(problem, random.Random(seed), drop, page).write()


def paging_plan(problem: Problem, gap: int) -> tuple[Instruction, ...]:
    """Keep-all, but what nobody reads for ``gap`` operators or more waits on disk."""
    uses: dict[str, list[int]] = {}
    for index, op in enumerate(problem.ops):
        for name in (*op.outputs, *dict.fromkeys(op.inputs)):
            uses.setdefault(name, []).append(index)
    leaves: dict[int, list[str]] = {}
    returns: dict[int, list[str]] = {}
    for name, places in uses.items():
        for here, there in pairwise(places):
            if there - here >= gap:
                leaves.setdefault(here, []).append(name)
                returns.setdefault(there, []).append(name)
    written: list[Instruction] = []
    stored: set[str] = set()
    kept = set(problem.outputs)
    for index, op in enumerate(problem.ops):
        written += [PageIn(name) for name in returns.get(index, ())]
        written.append(Compute(op.name))
        for name in leaves.get(index, ()):
            written += [Free(name)] if name in stored else [PageOut(name), Free(name)]
            stored.add(name)
        read = dict.fromkeys((*op.inputs, *op.outputs))
        written += [Free(name) for name in read if uses[name][-1] == index and name not in kept]
    return tuple(written)
