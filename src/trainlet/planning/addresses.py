# SPDX-License-Identifier: Apache-2.0
"""Static addresses: one offset for every copy and scratch, in an arena as low as can be found.

The aim is an arena of the lower bound (``lifetimes``). In turn, each only if the one before did
not get there: first fit and best fit in several orders, with the arena either way up; hill climbing
on the best of those orders; CP-SAT. All of it is deterministic.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from trainlet.planning import exact
from trainlet.planning.lifetimes import Lifetimes, bytes_over_time
from trainlet.planning.packing import Geometry, geometry_of
from trainlet.planning.plan import Overlap

_CLIMB_WORK = 1_500_000  # neighbours looked at while climbing: about half a second
_CLIMBS = 6  # orders to climb from
_DARING, _HARM = 0.02, 1.03  # how often a climb takes a step back, and how far at most


@dataclass(frozen=True)
class Placement:
    """Where everything lies.

    ``occupied_bytes`` is the most bytes in use at any instruction, before the first one included;
    it lies between the lower bound and the arena.
    """

    addresses: dict[str, int]
    overlaps: tuple[Overlap, ...]
    arena_bytes: int
    occupied_bytes: int


def place(lifetimes: Lifetimes) -> Placement:
    """Find addresses; ``arena_bytes`` equals the lower bound wherever the search gets there."""
    geometry = geometry_of(lifetimes)
    bound = lifetimes.lower_bound_bytes
    best = min(_until(bound, geometry, _simple_fits(lifetimes, geometry)), key=geometry.height)
    if geometry.height(best) > bound:
        best = _climb(lifetimes, geometry, best)
    if geometry.height(best) > bound and len(lifetimes.residencies) <= exact.LARGEST:
        best = exact.solve(lifetimes, geometry, best)
    return placement_of(lifetimes, geometry, best)


def _until(bound: int, geometry: Geometry, fits: Iterator[list[int]]) -> Iterator[list[int]]:
    """The fits, up to the first that needs no more than the bound."""
    for addresses in fits:
        yield addresses
        if geometry.height(addresses) <= bound:
            return


def _simple_fits(lifetimes: Lifetimes, geometry: Geometry) -> Iterator[list[int]]:
    mirrored = geometry.mirrored()
    for order in _orders(lifetimes):
        for tightest in (False, True):
            yield geometry.fit(order, tightest)
            yield geometry.turn_over(mirrored.fit(order, tightest))


def _orders(lifetimes: Lifetimes) -> Iterator[list[int]]:
    """Orders of placing, those that reach the bound most often first."""
    spans = lifetimes.residencies
    peak = lifetimes.peak
    everything = range(len(spans))

    def length(index: int) -> int:
        return spans[index].end - spans[index].start

    def at_peak(index: int) -> bool:
        return spans[index].start <= peak < spans[index].end

    def distance(index: int) -> int:
        return max(spans[index].start - peak, peak + 1 - spans[index].end, 0)

    yield sorted(everything, key=lambda i: -spans[i].extent)
    yield sorted(everything, key=lambda i: (-spans[i].extent * length(i), i))
    yield sorted(everything, key=lambda i: (-length(i), -spans[i].extent))
    yield sorted(everything, key=lambda i: (spans[i].start, -length(i)))
    yield sorted(everything, key=lambda i: (-spans[i].end, -length(i)))
    yield sorted(everything, key=lambda i: (-spans[i].start, -spans[i].extent))
    yield sorted(everything, key=lambda i: (not at_peak(i), -length(i), -spans[i].extent))
    yield sorted(everything, key=lambda i: (not at_peak(i), -spans[i].extent))
    yield sorted(everything, key=lambda i: (distance(i), -length(i), -spans[i].extent))


def _climb(lifetimes: Lifetimes, geometry: Geometry, best: list[int]) -> list[int]:
    """Climb from the most promising orders, either way up, and keep the lowest arena."""
    draw = random.Random(0)
    bound = lifetimes.lower_bound_bytes
    views = (geometry, geometry.mirrored())
    starts = [(view, order) for order in _orders(lifetimes) for view in views]
    starts.sort(key=lambda start: start[0].height(start[0].fit(start[1])))  # stable
    cost = sum(map(len, geometry.neighbours)) + 10 * len(geometry.extents)
    steps = max(_CLIMB_WORK // (cost * _CLIMBS), 1)
    for view, order in starts[:_CLIMBS]:
        found = _climb_from(view, order, bound, steps, draw)
        if view.height(found) < geometry.height(best):
            best = found if view is geometry else geometry.turn_over(found)
        if geometry.height(best) <= bound:
            break
    return best


def _climb_from(
    view: Geometry, order: list[int], bound: int, steps: int, draw: random.Random
) -> list[int]:
    """Keep each change of the order that does no harm, and now and then one that does a little."""
    addresses = view.fit(order)
    height = view.height(addresses)
    best, lowest = addresses, height
    for _ in range(steps):
        if lowest <= bound:
            break
        changed = _moved(view, order, addresses, height, draw)
        moved = view.fit(changed)
        reached = view.height(moved)
        if reached <= height or (draw.random() < _DARING and reached < height * _HARM):
            order, addresses, height = changed, moved, reached
        if height < lowest:
            best, lowest = addresses, height
    return best


def _moved(
    view: Geometry, order: list[int], addresses: list[int], height: int, draw: random.Random
) -> list[int]:
    """The order with one residency from the top of the arena taking an earlier turn."""
    extents = view.extents
    tops = [index for index in order if addresses[index] + extents[index] == height]
    chosen = draw.choice(tops)
    rivals = [other for other, _, _ in view.neighbours[chosen]] or [chosen]
    rival = draw.choice(rivals)
    here, there = order.index(chosen), order.index(rival)
    changed = list(order)
    if draw.random() < 0.5:
        changed[here], changed[there] = changed[there], changed[here]
    else:
        changed.insert(min(here, there), changed.pop(here))
    return changed


def placement_of(lifetimes: Lifetimes, geometry: Geometry, addresses: list[int]) -> Placement:
    """The placement that has these addresses, in the order of the residencies."""
    residencies = lifetimes.residencies
    shared = []
    overlaps = []
    for permit in lifetimes.permits:
        low = max(addresses[permit.output], addresses[permit.input])
        high = min(
            addresses[permit.output] + residencies[permit.output].extent,
            addresses[permit.input] + residencies[permit.input].extent,
        )
        shared.append(max(high - low, 0))
        if high > low:
            output, source = residencies[permit.output].name, residencies[permit.input].name
            overlaps.append(Overlap(permit.instruction, output, source, permit.lag))
    occupied = bytes_over_time(residencies, lifetimes.permits, shared, len(lifetimes.live_bytes))
    return Placement(
        {residency.key: at for residency, at in zip(residencies, addresses, strict=True)},
        tuple(overlaps),
        geometry.height(addresses),
        max(occupied),
    )
