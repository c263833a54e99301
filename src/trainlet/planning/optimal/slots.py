# SPDX-License-Identifier: Apache-2.0
"""Where operators may run: one slot for each first run, and slots in between for running again.

*Stage* t is what happens after the first run of operator t-1, up to and with that of operator t;
the last stage ends with the list. Within a stage operators run again in the order of the problem,
each once at most, and not the one that has just run. Everything else (free, page out, page in)
may happen between any two slots.

A run again is *near* where its own stage reads the result, be it to run another again; else it is
*early*. Early slots are many (stages times operators) and rarely pay. For a bound they can be
replaced. Take the last early run of a list: from inputs X it makes y, which stage u reads first.
Move the run to stage u, and until then keep one of X instead of y. If none of X is larger than y,
nothing gets dearer and no more bytes are alive, save at the run itself. Hence a program with near
slots and with *ghosts*, near runs that need no bytes and only one of their inputs (none if one is
larger than y), bounds every list from below. Where the run needs all of X, none of them can be
kept instead of y only if together they are no larger, and if the next run in stage u needs at
least as many bytes of its own as the moved one, then the near slot itself will do: no ghost.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from trainlet.planning.optimal.network import Network


class Slot(NamedTuple):
    """A place in the list where an operator runs, or may run again."""

    op: int
    stage: int
    again: bool = False
    ghost: bool = False
    needs_input: bool = False  # of a ghost: one of its inputs, if it has any


def near_slots(network: Network, again: Collection[int], depth: int | None = None) -> list[Slot]:
    """Slots of all first runs and of near runs of ``again``, in chains up to a depth."""
    stages = [_near(network, again, stage, depth) for stage in range(network.op_count + 1)]
    return _listed(network, [_in_time(network, stage, ops) for stage, ops in enumerate(stages)])


def bounding_slots(
    network: Network, again: Collection[int], early: Collection[int], depth: int | None = None
) -> list[Slot]:
    """Slots of which some list, real but for ghosts, is no dearer than any real list.

    Args:
        network: the problem, numbered.
        again: operators that may run again.
        early: those of them that have early slots, hence no ghosts.
        depth: longest chain of runs again within a stage; what a longer one would make comes from
            ghosts without inputs, as it does wherever an early run may have used such a chain.
    """
    if depth is not None:
        return _cut_slots(network, again, depth)
    count = network.op_count
    real: list[set[int]] = [set()] * (count + 1)
    ghosts: list[set[int]] = [set()] * (count + 1)
    reader: dict[int, int] = {}  # operator -> next stage that may read what it makes again
    shelter: dict[int, int] = {}  # operator -> next stage that an earlier run can move to
    for stage in range(count, -1, -1):
        sooner = {
            op
            for op in early
            if op < stage - 1 and shelter.get(op, count + 1) > reader.get(op, count)
        }
        chosen = _near(network, again, stage, None, sooner & set(reader))
        real[stage] = _in_time(network, stage, chosen)
        movable = {op for op in real[stage] if _may_move(network, op, stage, chosen)}
        ghosts[stage] = chosen - set(early) - movable
        reader |= dict.fromkeys(chosen, stage)
        shelter |= dict.fromkeys(movable, stage)
    return _listed(network, real, ghosts)


def _cut_slots(network: Network, again: Collection[int], depth: int) -> list[Slot]:
    count = network.op_count + 1
    real = [_in_time(network, stage, _near(network, again, stage, depth)) for stage in range(count)]
    ghosts = [_near(network, again, stage, depth + 1) for stage in range(count)]
    return _listed(network, real, ghosts, cut=True)


def _listed(
    network: Network,
    real: list[set[int]],
    ghosts: list[set[int]] | None = None,
    *,
    cut: bool = False,
) -> list[Slot]:
    slots: list[Slot] = []
    for stage, here in enumerate(real):
        runs = [Slot(op, stage, True) for op in here]
        for op in ghosts[stage] if ghosts else ():
            needs = not cut and _stands_in(network, op)
            runs.append(Slot(op, stage, True, True, needs))
        slots += sorted(runs)
        if stage < network.op_count:
            slots.append(Slot(stage, stage))
    return slots


def _near(
    network: Network,
    again: Collection[int],
    stage: int,
    depth: int | None,
    sooner: Collection[int] = (),
) -> set[int]:
    """Operators that a stage may run again: those given, and all that it may read, by chains."""
    chosen = set(sooner)
    wanted = set(network.outputs if stage == network.op_count else network.reads[stage])
    wanted |= {value for op in chosen for value in network.reads[op]}
    level = 0
    while wanted and (depth is None or level < depth):
        makers = {network.maker[value] for value in wanted} - chosen
        fresh = {op for op in makers if op in again and op < stage - 1}
        chosen |= fresh
        wanted = {value for op in fresh for value in network.reads[op]}
        level += 1
    return chosen


def _in_time(network: Network, stage: int, ops: set[int]) -> set[int]:
    """Those operators that still read the state they have to."""
    return {op for op in ops if stage <= network.last_stages[op]}


def _may_move(network: Network, op: int, stage: int, runs: set[int]) -> bool:
    """Whether any earlier run again of an operator could as well happen in this stage."""
    made = [value for value in network.makes[op] if network.readers[value]]
    if len(made) != 1 or stage == network.op_count:
        return False
    if set(network.outputs) & set(network.makes[op]):
        return False
    inputs = set(network.reads[op])
    if sum(network.sizes[value] for value in inputs) > network.sizes[made[0]]:
        return False
    rest = network.working[op] - network.sizes[made[0]]  # inputs, scratch, unread outputs
    next_runs = {run for run in runs if run > op} | {stage}
    return all(_hides(network, run, inputs, rest) for run in next_runs)


def _hides(network: Network, run: int, inputs: set[int], rest: int) -> bool:
    """Whether a run needs at least ``rest`` bytes, but for inputs it reads itself, of its own."""
    shared = sum(network.sizes[value] for value in inputs & set(network.reads[run]))
    own = network.working[run] - sum(network.sizes[value] for value in network.reads[run])
    own -= sum(saved for *_, saved in network.overwrites[run])
    return rest - shared <= own


def _stands_in(network: Network, op: int) -> bool:
    """Whether one of the inputs can stand in for any result."""
    made = [v for v in network.makes[op] if network.readers[v] or v in network.outputs]
    inputs = network.reads[op]
    if not made or not inputs:
        return False
    return max(network.sizes[v] for v in inputs) <= min(network.sizes[v] for v in made)
