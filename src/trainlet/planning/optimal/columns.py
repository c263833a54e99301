# SPDX-License-Identifier: Apache-2.0
"""From the columns of a model to a schedule, and from a schedule to columns as a hint."""

from __future__ import annotations

from collections.abc import Sequence

from trainlet.planning.optimal.model import Model
from trainlet.planning.optimal.schedule import Schedule, tidy


def decode(model: Model, values: Sequence[int]) -> tuple[Schedule, bool]:
    """The schedule that the columns say, and whether it is real: no ghost ran."""
    network = model.network
    is_real = True
    runs: list[tuple[int, int]] = []
    fetches: set[tuple[int, int]] = set()
    for index, slot in enumerate(model.slots):
        if slot.again and not values[model.again[index]]:
            continue
        is_real &= not slot.ghost
        come = [v for v in network.reads[slot.op] if _comes(model, values, index, v)]
        fetches |= {(len(runs), value) for value in come}
        runs.append((slot.op, slot.stage))
    end = len(model.slots)
    fetches |= {(len(runs), v) for v in network.outputs if _comes(model, values, end, v)}
    return tidy(network, runs, fetches), is_real


def ghosts_of(model: Model, values: Sequence[int]) -> set[int]:
    """Operators that ran as ghosts."""
    return {
        model.slots[index].op
        for index, column in model.again.items()
        if model.slots[index].ghost and values[column]
    }


def _comes(model: Model, values: Sequence[int], slot: int, value: int) -> bool:
    """Whether a value that is read in a slot has to be paged in for it."""
    before = model.before.get((slot, value))
    return before is None or not values[before]


def hint_of(model: Model, schedule: Schedule) -> dict[int, int]:
    """Columns of a schedule; runs for which the model has no slot are left out."""
    network = model.network
    hint = dict.fromkeys(range(len(model.program.cost)), 0)
    slot_of = {(slot.op, slot.stage): i for i, slot in enumerate(model.slots) if not slot.ghost}
    place_slots = [slot_of.get(run, -1) for run in schedule.runs]
    for index in place_slots:
        if index in model.again:
            hint[model.again[index]] = 1
    place_slots.append(len(model.slots))
    for value in schedule.stored:
        if value in model.stored:
            hint[model.stored[value]] = 1
    for place, value in schedule.fetches:
        column = model.fetch.get((place_slots[place], value))
        if column is not None:
            hint[column] = 1
    gaps: dict[int, list[tuple[int, int, int]]] = {}
    for value, start, end, column in model.gaps:
        gaps.setdefault(value, []).append((start, end, column))
    for (start, value), end in schedule.stays.items():
        low = -1 if start < 0 else place_slots[start]
        high = place_slots[end]
        for first, last, column in gaps.get(value, ()):
            if low <= first and last <= high:
                hint[column] = 1
    if model.excess is not None:
        hint[model.excess] = max(0, schedule.peak - network.floor)
    return hint
