# SPDX-License-Identifier: Apache-2.0
"""The table of POFO's dynamic program: least cost of every stretch of a chain in so many bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from trainlet.planning.methods.chain import Block
from trainlet.planning.methods.limits import OverBudgetError
from trainlet.planning.methods.schedule import Price, extent_of
from trainlet.planning.problem import Problem

_SLOTS = 4096
_TABLE = 4_000_000  # entries for each kind of cost

Costs = NDArray[np.float64]


@dataclass(frozen=True)
class Option:
    """One way to do blocks s to t: what it needs, what it costs, what is left to do.

    Attributes:
        split: the first block of the rest; s + 1 where block s keeps what it makes.
        again: whether blocks s to split - 1 start again, or block s has kept its values.
        page_link: whether link s-1 lies in storage while the rest is done.
        page_inner: whether the inner values of block s do.
        need: bytes without which it cannot be.
        cost: its own cost, without that of the rest and of starting again.
        taken: bytes that the rest cannot have; negative where the link makes room.
    """

    split: int
    again: bool
    page_link: bool
    page_inner: bool
    need: int
    cost: float
    taken: int


class ChainTable:
    """Least costs, by whether the last link stays, last block, first block, and slots of bytes.

    ``fine`` is added to the cost of offloading, as a multiple of what all computing costs, for
    each share of all the chain's bytes; None forbids offloading.

    Raises:
        OverBudgetError: on ``best``, where nothing fits.
    """

    def __init__(
        self,
        problem: Problem,
        blocks: list[Block],
        limit: int,
        price: Price,
        fine: float | None,
    ) -> None:
        self._problem, self._blocks, self._price, self._fine = problem, blocks, price, fine
        count = len(blocks)
        slots = min(_SLOTS, _TABLE // count**2)
        self._unit = problem.alignment
        while max(limit, 0) // self._unit > slots:
            self._unit *= 2
        self._slots = max(limit, 0) // self._unit
        self._link_bytes = [extent_of(problem, _named(block.link)) for block in blocks]
        self._inner_bytes = [extent_of(problem, block.inner) for block in blocks]
        self.reruns = [Reruns(problem, block, price) for block in blocks]
        self._costs = np.full((2, count, count, self._slots + 1), np.inf)
        self._left = np.full((count, count, self._slots + 1), np.inf)
        for length in range(count):
            for first in range(count - length):
                self._fill(first, first + length)

    @property
    def slots(self) -> int:
        """Slots of the whole budget."""
        return self._slots

    def least_bytes(self) -> int | None:
        """The fewest bytes in which the whole chain can be done; None if it cannot."""
        costs = self._costs[0, -1, 0]
        fitting = np.flatnonzero(np.isfinite(costs))
        return int(fitting[0]) * self._unit if len(fitting) else None

    def best(self, first: int, last: int, stays: bool, slots: int) -> tuple[Option | None, int]:
        """The cheapest option, and the slots of the rest; no option where first is last.

        Raises:
            OverBudgetError: none fits.
        """
        if not np.isfinite(self._costs[int(stays), last, first, slots]):
            raise OverBudgetError
        if first == last:
            return None, slots
        found: list[tuple[float, Option, int]] = []
        for option in self._options(first, last, stays):
            rest = min(slots - self._up(option.taken), self._slots)
            if slots < self._up(option.need) or rest < 0:
                continue
            cost = option.cost + self._costs[int(stays), last, option.split, rest]
            if option.again:
                cost += self._left[first, option.split - 1, slots]
            found.append((float(cost), option, rest))
        _, option, rest = min(found, key=lambda entry: entry[0])
        return option, rest

    def link_stays(self, first: int, last: int, slots: int) -> bool:
        """Whether blocks that start again do better with the last link staying."""
        return bool(self._costs[1, last, first, slots] <= self._costs[0, last, first, slots])

    def _fill(self, first: int, last: int) -> None:
        for stays in (0, 1):
            costs = self._costs[stays, last, first]
            if first == last:
                need, cost = self._alone(first, bool(stays))
                costs[self._up(need) :] = cost
            else:
                every = self._options(first, last, bool(stays))
                options = [o for o in every if self._up(o.need) <= self._slots]
                if options:
                    costs[:] = self._totals(first, last, stays, options).min(axis=0)
        np.min(self._costs[:, last, first], axis=0, out=self._left[first, last])

    def _totals(self, first: int, last: int, stays: int, options: list[Option]) -> Costs:
        """Costs of each option (rows) in so many slots of bytes (columns)."""
        splits = np.array([option.split for option in options])
        again = np.array([option.again for option in options])
        needs = np.array([self._up(option.need) for option in options])
        taken = np.array([self._up(option.taken) for option in options])
        slots = np.arange(self._slots + 1)
        rest = slots - taken[:, None]
        places = np.clip(rest, 0, self._slots) + splits[:, None] * len(slots)
        totals: Costs = self._costs[stays, last].ravel().take(places)
        totals += np.array([option.cost for option in options])[:, None]
        totals[again] += self._left[first][splits[again] - 1]
        totals[(rest < 0) | (slots < needs[:, None])] = np.inf
        return totals

    def _alone(self, index: int, stays: bool) -> tuple[int, float]:
        """Bytes and cost of one block forward and backward."""
        block, reruns = self._blocks[index], self.reruns[index]
        if stays and not block.inner:
            return block.backward_bytes, 0.0
        kept = self._link_bytes[index] if stays and not reruns.inner_makes_link else 0
        need = max(block.waiting_bytes + block.save_bytes + kept, block.backward_bytes)
        return need, reruns.inner_cost if stays else reruns.save_cost

    def _options(self, first: int, last: int, stays: bool) -> Iterator[Option]:
        held = self._blocks[last].waiting_bytes + (self._link_bytes[last] if stays else 0)
        into = self._link_bytes[first - 1] if first else 0
        ways = [(False, 0.0)]
        if first and self._fine is not None:
            ways.append((True, self._page_cost(_named(self._blocks[first - 1].link))))
        yield from self._keeping(first, held, into, ways)
        running = 0.0
        needs = {False: 0, True: 0}
        for split in range(first + 1, last + 1):
            index = split - 1
            if not self._blocks[index].may_repeat:
                return
            running += self.reruns[index].run_cost
            for paged, cost in ways:
                room = into if paged else 0
                before = self._link_bytes[index - 1] - room if index > first else 0
                here = held + before + self._blocks[index].run_bytes
                needs[paged] = max(needs[paged], here)
                yield Option(
                    split=split,
                    again=True,
                    page_link=paged,
                    page_inner=False,
                    need=needs[paged],
                    cost=running + cost,
                    taken=self._link_bytes[index] - room,
                )

    def _keeping(
        self, first: int, held: int, into: int, ways: list[tuple[bool, float]]
    ) -> Iterator[Option]:
        """Block first runs once and its values wait, in the arena or in storage."""
        block = self._blocks[first]
        inner = [(False, 0.0)]
        if block.inner and self._fine is not None:
            inner.append((True, self._page_cost(block.inner)))
        for page_link, link_cost in ways:
            for page_inner, inner_cost in inner:
                taken = self._link_bytes[first] + (0 if page_inner else self._inner_bytes[first])
                yield Option(
                    split=first + 1,
                    again=False,
                    page_link=page_link,
                    page_inner=page_inner,
                    need=max(held + block.save_bytes, block.backward_bytes),
                    cost=self.reruns[first].save_cost + link_cost + inner_cost,
                    taken=taken - (into if page_link else 0),
                )

    def _page_cost(self, values: tuple[str, ...]) -> float:
        cost = sum(self._price.page_out(v) + self._price.page_in(v) for v in values)
        return cost + (self._fine or 0.0) * self._per_byte * extent_of(self._problem, values)

    @cached_property
    def _per_byte(self) -> float:
        computing = sum(self._price.compute(index) for index in range(len(self._problem.ops)))
        return computing / max(1, sum(self._link_bytes) + sum(self._inner_bytes))

    def _up(self, bytes_: int) -> int:
        return -(-bytes_ // self._unit)


class Reruns:
    """Which operators of a block run again, for its link, its inner values or both; the costs."""

    def __init__(self, problem: Problem, block: Block, price: Price) -> None:
        link = _named(block.link)
        self.run = _makers(problem, block, link)
        self.save = _makers(problem, block, (*link, *block.inner))
        self.inner = _makers(problem, block, block.inner)
        made = {value for place in self.inner for value in problem.ops[place].outputs}
        self.inner_makes_link = block.link in made
        self.run_cost, self.save_cost, self.inner_cost = (
            math.fsum(map(price.compute, places)) for places in (self.run, self.save, self.inner)
        )


def _makers(problem: Problem, block: Block, values: tuple[str, ...]) -> list[int]:
    """Places of the block's operators that these values need, ascending."""
    needed = set(values)
    places = []
    for place in reversed(block.forward):
        op = problem.ops[place]
        if needed.intersection(op.outputs):
            places.append(place)
            needed.update(op.inputs)
    return places[::-1]


def _named(link: str | None) -> tuple[str, ...]:
    return () if link is None else (link,)
