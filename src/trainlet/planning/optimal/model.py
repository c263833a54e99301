# SPDX-License-Identifier: Apache-2.0
"""The mixed-integer program over residency gaps.

Between two events of a value in a row of slots (it is made there, or may be made again; it is read
there, or may be) lies a *gap*; one binary says whether the value is resident throughout. Values
need to be present only at their events, so pages come in right before a read, copies go right
after an event, and a page goes out right after the first production: later is never better. Hence
the binaries

* ``again[s]``: the operator of slot s runs again there;
* ``keep[v, g]``: value v is resident throughout its gap g;
* ``fetch[s, v]``: v is paged in right before slot s reads it;
* ``stored[v]``: v is paged out at all;
* ``share[s, pair]``: an output overwrites an input that dies at s.

A slot that stays empty needs no bytes of its own: what is resident there was so at the last slot
that ran. So each slot has one row of bytes, and there is no variable for freeing or time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise

from trainlet.planning.optimal.network import Network
from trainlet.planning.optimal.program import Program
from trainlet.planning.optimal.slots import Slot


@dataclass
class Model:
    """The program and what its columns mean."""

    network: Network
    slots: list[Slot]
    program: Program = field(default_factory=Program)
    again: dict[int, int] = field(default_factory=dict)  # slot -> column
    stored: dict[int, int] = field(default_factory=dict)  # value -> column
    fetch: dict[tuple[int, int], int] = field(default_factory=dict)  # (slot, value) -> column
    before: dict[tuple[int, int], int] = field(default_factory=dict)  # gap that ends at an event
    after: dict[tuple[int, int], int] = field(default_factory=dict)  # gap that starts there
    excess: int | None = None  # bytes above the room
    gaps: list[tuple[int, int, int, int]] = field(default_factory=list)  # value, from, to, column


def build_model(
    network: Network, slots: list[Slot], *, page: bool, room: int, most: int | None = None
) -> Model:
    """The program for these slots.

    Args:
        network: the problem, numbered.
        slots: where operators run or may run again.
        page: whether values may be paged.
        room: bytes for values and scratch.
        most: where the peak is the price, the bytes it may at most exceed the room by.
    """
    model = Model(network, slots)
    events = _events(network, slots)
    program = model.program
    for index, slot in enumerate(slots):
        if slot.again:
            model.again[index] = program.column(network.run_cost[slot.op])
    if most is not None:
        model.excess = program.column(1.0, most)
    pageable = page and network.problem.storage_bytes > 0
    for value, places in enumerate(events):
        _value_columns(model, value, places)
        if pageable and network.lengths[value] <= network.problem.storage_bytes:
            _paging_columns(model, value, places)
    for value, places in enumerate(events):
        _value_rows(model, value, places)
    for index, slot in enumerate(slots):
        if slot.needs_input:
            _ghost_row(model, index)
    _byte_rows(model, room)
    _limit_rows(model)
    return model


def _events(network: Network, slots: list[Slot]) -> list[list[tuple[int, bool]]]:
    """Per value: (slot, whether it is a read), up to the last read; the end is one slot more."""
    events: list[list[tuple[int, bool]]] = [[] for _ in network.sizes]
    for value in network.inputs:
        events[value].append((-1, False))
    for index, slot in enumerate(slots):
        for value in network.reads[slot.op]:
            events[value].append((index, True))
        for value in network.makes[slot.op]:
            events[value].append((index, False))
    for value in network.outputs:
        events[value].append((len(slots), True))
    for places in events:
        while places and not places[-1][1]:
            places.pop()
    return events


def _value_columns(model: Model, value: int, places: list[tuple[int, bool]]) -> None:
    for (start, _), (end, _) in pairwise(places):
        column = model.program.column()
        model.before[end, value] = column
        model.after[start, value] = column
        model.gaps.append((value, start, end, column))


def _paging_columns(model: Model, value: int, places: list[tuple[int, bool]]) -> None:
    network = model.network
    reads = [slot for slot, is_read in places if is_read]
    if not reads:
        return
    model.stored[value] = model.program.column(network.out_cost[value])
    for slot in reads:
        column = model.program.column(network.in_cost[value])
        model.fetch[slot, value] = column


def _value_rows(model: Model, value: int, places: list[tuple[int, bool]]) -> None:
    program, runs = model.program, model.again
    for slot, is_read in places:
        before, after = model.before.get((slot, value)), model.after.get((slot, value))
        fetch = model.fetch.get((slot, value))
        if is_read:
            sources = [(column, 1.0) for column in (before, fetch) if column is not None]
            if slot in runs:
                if not model.slots[slot].ghost:
                    program.row([*sources, (runs[slot], -1.0)], low=0.0)
            else:
                program.row(sources, low=1.0)
            if slot in runs and fetch is not None:
                program.row([(runs[slot], 1.0), (fetch, -1.0)], low=0.0)
            if fetch is not None:
                program.row([(model.stored[value], 1.0), (fetch, -1.0)], low=0.0)
            if slot in runs and after is not None:
                program.row([*sources, (after, -1.0)], low=0.0)
        elif slot in runs and after is not None:
            sources = [] if before is None else [(before, 1.0)]
            program.row([*sources, (runs[slot], 1.0), (after, -1.0)], low=0.0)


def _ghost_row(model: Model, index: int) -> None:
    """A ghost needs any one of its inputs."""
    sources = [(model.again[index], -1.0)]
    for value in model.network.reads[model.slots[index].op]:
        sources += [
            (columns[index, value], 1.0)
            for columns in (model.before, model.fetch)
            if (index, value) in columns
        ]
    model.program.row(sources, low=0.0)


def _byte_rows(model: Model, room: int) -> None:
    network, program = model.network, model.program
    opening: dict[int, list[tuple[int, int]]] = {}
    closing: dict[int, list[int]] = {}
    for value, start, end, column in model.gaps:
        if network.sizes[value] and start + 1 < end:
            opening.setdefault(start + 1, []).append((value, column))
            closing.setdefault(end, []).append(value)
    alive: dict[int, int] = {}  # value -> column of the gap that spans the slot
    for index in range(len(model.slots) + 1):
        for value in closing.get(index, ()):
            alive.pop(value, None)
        alive.update(opening.get(index, ()))
        if index < len(model.slots) and model.slots[index].ghost:
            continue
        terms = [(column, float(network.sizes[value])) for value, column in alive.items()]
        if index == len(model.slots):
            own, shares = sum(network.sizes[value] for value in network.outputs), []
        else:
            own = network.working[model.slots[index].op]
            shares = _shares(model, index)
        free = float(room)
        if index in model.again:
            terms.append((model.again[index], float(own)))
        else:
            free -= own
        if sum(size for _, size in terms) > free or shares:
            above = [] if model.excess is None else [(model.excess, -1.0)]
            program.row([*terms, *shares, *above], high=free)


def _shares(model: Model, index: int) -> list[tuple[int, float]]:
    """Columns for the overwrites of a run, each with the bytes that it saves."""
    network, program = model.network, model.program
    by_value: dict[int, list[int]] = {}
    shares = []
    for output, source, saved in network.overwrites[model.slots[index].op]:
        column = program.column()
        shares.append((column, -float(saved)))
        for value in (output, source):
            by_value.setdefault(value, []).append(column)
        after = model.after.get((index, source))
        if after is not None:
            program.row([(column, 1.0), (after, 1.0)], high=1.0)
        if index in model.again:
            program.row([(model.again[index], 1.0), (column, -1.0)], low=0.0)
    for columns in by_value.values():
        if len(columns) > 1:
            program.row([(column, 1.0) for column in columns], high=1.0)
    return shares


def _limit_rows(model: Model) -> None:
    network, program = model.network, model.program
    problem = network.problem
    lengths = [(column, float(network.lengths[v])) for v, column in model.stored.items()]
    limit = problem.storage_bytes
    if problem.write_limit_bytes is not None:
        limit = min(limit, problem.write_limit_bytes)
    if sum(length for _, length in lengths) > limit:
        program.row(lengths, high=float(limit))
    if math.isinf(network.spare_seconds):
        return
    terms = [(column, network.run_seconds[model.slots[s].op]) for s, column in model.again.items()]
    terms += [(column, network.out_seconds[value]) for value, column in model.stored.items()]
    terms += [(column, network.in_seconds[value]) for (_, value), column in model.fetch.items()]
    terms = [(column, seconds) for column, seconds in terms if seconds > 0]
    spare = max(0.0, network.spare_seconds)
    if sum(seconds for _, seconds in terms) > spare:
        # Relative to the spare time, so that the engine's tolerance means the same everywhere.
        unit = spare or max(seconds for _, seconds in terms)
        program.row([(column, s / unit) for column, s in terms], high=spare / unit)
