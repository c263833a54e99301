# SPDX-License-Identifier: Apache-2.0
"""The events of the cheapest way through a chain, read from POFO's table."""

from __future__ import annotations

from dataclasses import dataclass, field

from trainlet.planning.instructions import Compute, PageIn, PageOut
from trainlet.planning.methods.chain import Block
from trainlet.planning.methods.chain_table import ChainTable
from trainlet.planning.methods.schedule import Event
from trainlet.planning.problem import Problem


@dataclass
class Listed:
    """Events in order, and the values that they page out."""

    listed: list[Event] = field(default_factory=list)
    paged_out: set[str] = field(default_factory=set)


class ChainEvents:
    """Walks the table; a stretch of blocks calls for the stretches it is made of."""

    def __init__(self, problem: Problem, blocks: list[Block], table: ChainTable) -> None:
        self._problem, self._blocks, self._table = problem, blocks, table
        self._found = Listed()
        self._ran: set[int] = set()

    def events(self) -> Listed:
        """The whole step.

        Raises:
            OverBudgetError: the table holds no plan within its bytes.
        """
        self._walk(0, len(self._blocks) - 1, False, self._table.slots)
        return self._found

    def _walk(self, first: int, last: int, stays: bool, slots: int) -> None:
        option, rest = self._table.best(first, last, stays, slots)
        reruns = self._table.reruns[first]
        if option is None:
            self._forward(first, reruns.inner if stays else reruns.save)
            self._compute(self._blocks[first].backward)
            return
        self._forward(first, reruns.run if option.again else reruns.save)
        link = self._blocks[first - 1].link if option.page_link else None
        away = [*self._blocks[first].inner] if option.page_inner else []
        away += [link] if link is not None else []
        self._page_out(away)
        for index in range(first + 1, option.split):
            self._forward(index, self._table.reruns[index].run)
        self._walk(option.split, last, stays, rest)
        self._found.listed += [PageIn(value) for value in away]
        if option.again:
            left = option.split - 1
            self._walk(first, left, self._table.link_stays(first, left, slots), slots)
        else:
            self._compute(self._blocks[first].backward)

    def _forward(self, index: int, again: list[int]) -> None:
        """Run a block forward: all of it at first, what is needed after that."""
        if index in self._ran:
            self._compute(again)
        else:
            self._ran.add(index)
            self._compute(self._blocks[index].forward)

    def _compute(self, places: range | list[int]) -> None:
        self._found.listed += [Compute(self._problem.ops[place].name) for place in places]

    def _page_out(self, values: list[str]) -> None:
        new = [value for value in values if value not in self._found.paged_out]
        self._found.listed += [PageOut(value) for value in new]
        self._found.paged_out.update(new)
