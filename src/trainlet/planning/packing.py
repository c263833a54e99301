# SPDX-License-Identifier: Apache-2.0
"""The geometry of an arena: which residencies collide, how far apart they must lie, first fit.

Two residencies that share an instruction collide. With ``a`` below ``b``, b must start at least
``a.extent`` above a; where a is an output that may overwrite b, ``lag`` is enough. So each
colliding pair has two distances, one for either way round, and a placement is right when one of
the two holds. Turning the arena upside down gives a problem of the same kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trainlet.planning.lifetimes import Lifetimes


@dataclass(frozen=True)
class Geometry:
    """What a placement must respect, in bytes.

    Attributes:
        extents: size of each residency.
        neighbours: for each residency, (other, under, over) for those it collides with: where the
            other lies at y, this one lies at most at y - under or at least at y + over.
    """

    extents: tuple[int, ...]
    neighbours: tuple[tuple[tuple[int, int, int], ...], ...]

    def height(self, addresses: Sequence[int]) -> int:
        """Bytes of arena that a placement takes."""
        ends = (at + extent for at, extent in zip(addresses, self.extents, strict=True))
        return max(ends, default=0)

    def mirrored(self) -> Geometry:
        """The same problem with the arena upside down."""
        size = self.extents
        turned = tuple(
            tuple(
                (other, size[index] + over - size[other], size[other] + under - size[index])
                for other, under, over in around
            )
            for index, around in enumerate(self.neighbours)
        )
        return Geometry(size, turned)

    def turn_over(self, addresses: Sequence[int]) -> list[int]:
        """Addresses of the mirrored problem as addresses of this one, and back."""
        top = self.height(addresses)
        return [top - at - extent for at, extent in zip(addresses, self.extents, strict=True)]

    def fit(self, order: Iterable[int], tightest: bool = False) -> list[int]:
        """Addresses where each in turn takes the lowest gap left, or the tightest."""
        addresses = [-1] * len(self.extents)
        choose = _tightest_gap if tightest else _lowest_gap
        for index in order:
            blocked = [
                (addresses[other] - under, addresses[other] + over)
                for other, under, over in self.neighbours[index]
                if addresses[other] >= 0
            ]
            blocked.sort()
            addresses[index] = choose(blocked)
        return addresses


def _lowest_gap(blocked: list[tuple[int, int]]) -> int:
    """Least x >= 0 that lies strictly inside no blocked interval (sorted by their start)."""
    lowest = 0
    for start, end in blocked:
        if lowest <= start:
            break
        lowest = max(lowest, end)
    return lowest


def _tightest_gap(blocked: list[tuple[int, int]]) -> int:
    """Start of the gap with the least room to spare, the lowest of equals."""
    best, best_room = -1, 0
    lowest = 0
    for start, end in blocked:
        if lowest <= start and (best < 0 or start - lowest < best_room):
            best, best_room = lowest, start - lowest
        lowest = max(lowest, end)
    return lowest if best < 0 else best


def geometry_of(lifetimes: Lifetimes) -> Geometry:
    """Find the pairs that collide, with the distances that the permitted overlaps allow."""
    residencies = lifetimes.residencies
    lag_of = {(permit.output, permit.input): permit.lag for permit in lifetimes.permits}
    around: list[list[tuple[int, int, int]]] = [[] for _ in residencies]
    active: list[int] = []
    for index, residency in enumerate(residencies):  # in order of their start
        if residency.extent == 0:
            continue
        active = [other for other in active if residencies[other].end > residency.start]
        for other in active:
            under = lag_of.get((index, other), residency.extent)
            over = lag_of.get((other, index), residencies[other].extent)
            around[index].append((other, under, over))
            around[other].append((index, over, under))
        active.append(index)
    return Geometry(tuple(residency.extent for residency in residencies), tuple(map(tuple, around)))
