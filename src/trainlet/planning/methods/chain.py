# SPDX-License-Identifier: Apache-2.0
"""A training step seen as a chain of blocks, each with a forward and a backward part.

The forward half is cut wherever a single value, the *link*, passes from what ran before to what
runs after (an articulation of the graph); what lies between two cuts is a block. The backward half
is split along its order: a backward operator belongs to the block whose link, inner values or
incoming link it reads, and one that reads no forward value goes with the operator before it. Where
that would leave an operator reading from blocks far apart, or running after those of an earlier
block, the blocks between are merged. A graph with no such cuts becomes one block; a chain of more
than 96 blocks has neighbours merged until it is that short.

All bytes are what a block needs beside its incoming link. The problem's inputs, and forward values
that must be there at the end, count as resident throughout.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from trainlet.planning.methods.phases import forward_length
from trainlet.planning.methods.schedule import Uses, extent_of, redo_limits, uses_of
from trainlet.planning.problem import Problem

_MOST_BLOCKS = 96  # the table of a chain grows with the square, the work with the cube


@dataclass(frozen=True)
class Block:
    """A stretch of the chain.

    Attributes:
        forward: its operators in the forward half.
        backward: its operators in the backward half.
        link: the value that it hands to the next block; the last block has none.
        inner: the other values that its backward part reads.
        may_repeat: whether the forward part may run again until the backward part begins.
        run_bytes: peak of a forward run that leaves the link alone behind.
        save_bytes: peak of a forward run that leaves the inner values too.
        backward_bytes: peak of the backward part, everything else of that time included.
        waiting_bytes: what the backward half has made and still needs when this block's backward
            part begins, with what is resident throughout.
    """

    forward: range
    backward: range
    link: str | None
    inner: tuple[str, ...]
    may_repeat: bool
    run_bytes: int
    save_bytes: int
    backward_bytes: int
    waiting_bytes: int


def chain_of(problem: Problem) -> list[Block]:
    """The blocks in the order of the forward half."""
    uses = uses_of(problem)
    length = forward_length(problem, uses)
    cuts = _cuts(problem, uses, length)
    while True:
        owners = _Owners(problem, uses, length, cuts)
        backward = owners.split()
        if isinstance(backward, tuple):
            first, last = backward
            cuts = cuts[:first] + cuts[last:]
        elif len(cuts) > _MOST_BLOCKS:
            step = -(-len(cuts) // _MOST_BLOCKS)
            cuts = cuts[::-step][::-1]
        else:
            return [_block(owners, index, part) for index, part in enumerate(backward)]


def _cuts(problem: Problem, uses: Uses, length: int) -> list[int]:
    """Ends of the blocks, exclusive; each link is another one and made in the block it ends."""
    crossing: set[str] = set()
    cuts: list[int] = []
    start = 0
    for index in range(length - 1):
        crossing |= set(problem.ops[index].outputs)
        crossing = {v for v in crossing if any(index < r < length for r in uses.read[v])}
        if len(crossing) == 1 and uses.made[next(iter(crossing))] >= start:
            start = index + 1
            cuts.append(start)
    return [*cuts, length]


class _Owners:
    """Which block a value belongs to, for given cuts, and which a backward operator."""

    def __init__(self, problem: Problem, uses: Uses, length: int, cuts: list[int]) -> None:
        self.problem, self.uses, self.length, self.cuts = problem, uses, length, cuts
        self.count = len(cuts)
        self.links: list[str | None] = []
        self.owner: dict[str, int] = {}
        for block, (start, end) in enumerate(pairwise((0, *cuts))):
            made = [value for op in problem.ops[start:end] for value in op.outputs]
            self.owner.update(dict.fromkeys(made, block))
            passed = [v for v in made if any(end <= r < length for r in uses.read[v])]
            self.links.append(passed[0] if passed else None)

    def split(self) -> list[range] | tuple[int, int]:
        """The backward operators of every block, or the first and last block to be merged."""
        starts: dict[int, int] = {}
        current = self.count - 1
        for index in range(self.length, len(self.problem.ops)):
            reads = [v for v in self.problem.ops[index].inputs if v in self.owner]
            if reads:
                fitting = [range(self.owner[v], self._latest(v) + 1) for v in reads]
                low = max(blocks[0] for blocks in fitting)
                high = min(current, *(blocks[-1] for blocks in fitting))
                if low > high:
                    return min(high, *(self.owner[v] for v in reads)), low
                current = high
            starts.setdefault(current, index)
        parts = []
        end = len(self.problem.ops)
        for block in range(self.count):  # the earliest block's part is the last
            start = starts.get(block, end)
            parts.append(range(start, end))
            end = start
        return parts

    def _latest(self, value: str) -> int:
        """The last block that may read the value: the next one reads a link."""
        block = self.owner[value]
        return block + 1 if value == self.links[block] and block + 1 < self.count else block


def _block(owners: _Owners, index: int, backward: range) -> Block:
    problem, uses = owners.problem, owners.uses
    forward = range(owners.cuts[index - 1] if index else 0, owners.cuts[index])
    link = owners.links[index]
    made = [value for place in forward for value in problem.ops[place].outputs]
    inner = tuple(v for v in made if v != link and _read_in(uses, v, backward))
    limits = redo_limits(problem)
    after = {link} if link is not None else set()
    return Block(
        forward=forward,
        backward=backward,
        link=link,
        inner=inner,
        may_repeat=all(limits[place] >= backward.start for place in forward),
        run_bytes=_forward_peak(owners, forward, after),
        save_bytes=_forward_peak(owners, forward, after | set(inner)),
        backward_bytes=_backward_peak(owners, backward, made),
        waiting_bytes=_waiting(owners, backward.start),
    )


def _read_in(uses: Uses, value: str, places: range) -> bool:
    return any(reader in places for reader in uses.read[value])


def _forward_peak(owners: _Owners, forward: range, after: set[str]) -> int:
    """Peak of running a block's forward part, of its own values alone; ``after`` stays."""
    problem, uses = owners.problem, owners.uses
    peak, live = 0, set[str]()
    for place in forward:
        op = problem.ops[place]
        live |= set(op.outputs)
        peak = max(peak, extent_of(problem, live) + problem.align(op.scratch_bytes))
        later = range(place + 1, forward.stop)
        live = {value for value in live if value in after or _read_in(uses, value, later)}
    return peak


def _backward_peak(owners: _Owners, backward: range, own: list[str]) -> int:
    """Peak of a block's backward part: what waits, what it makes, its forward values in use."""
    problem, uses = owners.problem, owners.uses
    peak = _waiting(owners, backward.start)
    for place in backward:
        op = problem.ops[place]
        used = [v for v in own if _read_in(uses, v, range(place, backward.stop))]
        live = _waiting(owners, place) + extent_of(problem, (*op.outputs, *used))
        peak = max(peak, live + problem.align(op.scratch_bytes))
    return peak


def _waiting(owners: _Owners, place: int) -> int:
    """Bytes made by the backward half before a place and read from there on.

    What is resident throughout counts too.
    """
    problem, uses = owners.problem, owners.uses
    waiting = [
        value
        for value, made in uses.made.items()
        if (made < owners.length and (made < 0 or value in problem.outputs))
        or (owners.length <= made < place <= uses.last(value))
    ]
    return extent_of(problem, waiting)
