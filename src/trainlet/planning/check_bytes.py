# SPDX-License-Identifier: Apache-2.0
"""The checker's arena: which copy owns each byte, in cells between neighbouring addresses.

The ends of all placed copies cut the arena into cells in which every byte shares one fate, so the
map is exact to the byte and as small for a gigabyte as for a kilobyte.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

NOBODY = -1


@dataclass(frozen=True)
class Block:
    """One placed copy or scratch: its owner number, what it is called, its bytes."""

    number: int
    key: str
    name: str
    start: int
    extent: int

    @property
    def end(self) -> int:
        """First byte after it."""
        return self.start + self.extent

    def __str__(self) -> str:
        return f"{self.key!r} at bytes {self.start} to {self.end}"


class ByteMap:
    """Owner of every byte between the lowest and the highest placed one."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        edges = {edge for block in blocks for edge in (block.start, block.end)}
        self._edges = np.array(sorted(edges), dtype=np.int64)
        self._widths = np.diff(self._edges)
        self._owner = np.full(len(self._widths), NOBODY, dtype=np.int64)

    def _cells(self, block: Block) -> slice:
        first, last = np.searchsorted(self._edges, (block.start, block.end))
        return slice(int(first), int(last))

    def owners(self, block: Block) -> set[int]:
        """Who owns bytes of a block, nobody left out."""
        return {int(owner) for owner in np.unique(self._owner[self._cells(block)])} - {NOBODY}

    def claim(self, block: Block) -> None:
        """Every byte of the block is the block's from now on."""
        self._owner[self._cells(block)] = block.number

    def release(self, block: Block) -> None:
        """What the block still owns is nobody's from now on."""
        cells = self._owner[self._cells(block)]
        cells[cells == block.number] = NOBODY

    def intact(self, block: Block) -> bool:
        """Whether the block still owns each of its bytes."""
        return bool(np.all(self._owner[self._cells(block)] == block.number))

    def owned_bytes(self) -> int:
        """Bytes that have an owner."""
        return int(self._widths[self._owner != NOBODY].sum())
