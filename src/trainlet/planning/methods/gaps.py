# SPDX-License-Identifier: Apache-2.0
"""A plan as decisions over gaps: over each stretch between two uses a value stays, or is swapped
out, or is dropped and made again before the second use.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from trainlet.planning.instructions import Compute, Free, Instruction, PageIn, PageOut
from trainlet.planning.methods.schedule import Event, redo_limits, uses_of, with_frees
from trainlet.planning.problem import Problem


@dataclass(frozen=True)
class Gap:
    """A value between the operator that makes or reads it and the next that reads it.

    ``end`` is the number of operators for what must be there after the step.
    """

    value: str
    start: int
    end: int


class GapPlan:
    """Decisions, and the instruction list that they come to.

    Attributes:
        gaps: all gaps in which a value lies idle while some operator runs.
        again: gaps at whose end the value is made again.
        stored: value -> the position after which it is paged out.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._uses = uses_of(problem)
        self._limits = redo_limits(problem)
        self.gaps = [
            Gap(value, start, end)
            for value, made in self._uses.made.items()
            for start, end in pairwise((made, *self._uses.read[value]))
            if end - start > 1
        ]
        self.again: set[Gap] = set()
        self.stored: dict[str, int] = {}
        self._swapped: set[Gap] = set()

    def swap(self, gap: Gap) -> None:
        """Page the value in at the end of the gap, and out at its start or before."""
        self._swapped.add(gap)
        before = self.stored.get(gap.value, gap.start)
        self.stored[gap.value] = min(before, gap.start)

    def ops_again(self, gap: Gap) -> list[int] | None:
        """What must run to make the value again at the end of the gap; None where none may."""
        made = self._uses.made[gap.value]
        if made < 0 or self._limits[made] < gap.end:
            return None
        arrivals = {other.value for other in self._swapped if other.end == gap.end}
        return self._closure([gap.value], gap.end, arrivals)[0]

    def realize(self) -> tuple[tuple[Instruction, ...], list[int]]:
        """The instruction list, and for each instruction the position that it belongs to."""
        arriving: dict[int, list[Gap]] = {}
        for gap in self.gaps:
            if gap in self._swapped or gap in self.again:
                arriving.setdefault(gap.end, []).append(gap)
        leaving: dict[int, list[str]] = {}
        for value, position in self.stored.items():
            leaving.setdefault(position, []).append(value)
        events: list[Event] = [PageOut(value) for value in leaving.get(-1, [])]
        positions = [0] * len(events)
        for index in range(len(self._problem.ops) + 1):
            new = self._arrivals(index, arriving.get(index, []))
            if index < len(self._problem.ops):
                new.append(Compute(self._problem.ops[index].name))
                new += [PageOut(value) for value in leaving.get(index, [])]
            events += new
            positions += [index] * len(new)
        instructions = with_frees(self._problem, events)
        return instructions, _spread(instructions, positions)

    def _arrivals(self, index: int, gaps: list[Gap]) -> list[Event]:
        """What brings back the values whose gaps end here: reads first, then operators."""
        swapped = [gap.value for gap in gaps if gap in self._swapped]
        wanted = [gap.value for gap in gaps if gap in self.again]
        ops, fetched = self._closure(wanted, index, set(swapped))
        reads = [PageIn(value) for value in (*swapped, *fetched)]
        return [*reads, *(Compute(self._problem.ops[op].name) for op in ops)]

    def _closure(
        self, values: list[str], position: int, there: set[str]
    ) -> tuple[list[int], list[str]]:
        """Operators, ascending, and extra reads that make the values before a position.

        A source that is away is read from storage if it lies there, else made again if that may
        be, else it stays until now.
        """
        found: set[int] = set()
        fetched: dict[str, None] = {}
        left = [self._uses.made[value] for value in values]
        while left:
            index = left.pop()
            if index in found:
                continue
            found.add(index)
            for source in self._problem.ops[index].inputs:
                made = self._uses.made[source]
                if source in there or source in fetched or self._is_there(source, position):
                    continue
                if self.stored.get(source, position) < position:
                    fetched[source] = None
                elif made >= 0 and self._limits[made] >= position:
                    left.append(made)
        made_anew = {value for index in found for value in self._problem.ops[index].outputs}
        return sorted(found), [value for value in fetched if value not in made_anew]

    def _is_there(self, value: str, position: int) -> bool:
        """Whether the value stays over this position, or up to it as one that it reads."""
        last = self._uses.made[value]
        for reader in self._uses.read[value]:
            if last < position <= reader:
                gap = Gap(value, last, reader)
                return gap not in self.again and gap not in self._swapped
            last = reader
        return False


def _spread(instructions: tuple[Instruction, ...], positions: list[int]) -> list[int]:
    """Positions of the events, each free taking that of the event before it."""
    spread: list[int] = []
    events = iter(positions)
    current = 0
    for instruction in instructions:
        if not isinstance(instruction, Free):
            current = next(events)
        spread.append(current)
    return spread
