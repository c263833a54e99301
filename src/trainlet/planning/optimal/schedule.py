# SPDX-License-Identifier: Apache-2.0
"""An instruction list without its redundancy: which operators run, and which reads page in.

Everything else follows: a value stays from one of its events to the next if that is a read that
does not page it in, else it goes at once; what is ever paged in is paged out when first made.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from trainlet.planning.instructions import Compute, Free, Instruction, PageIn, PageOut
from trainlet.planning.lifetimes import lifetimes_of
from trainlet.planning.optimal.network import Network


@dataclass(frozen=True)
class Schedule:
    """Runs in order as (operator, stage), and (place, value) of each read that pages in.

    The place after the last run stands for the end, where the problem's outputs are read.
    """

    network: Network
    runs: tuple[tuple[int, int], ...]
    fetches: frozenset[tuple[int, int]]

    @cached_property
    def events(self) -> list[list[tuple[int, bool]]]:
        """Per value its (place, whether it is a read), in order; inputs are made at -1."""
        network = self.network
        found: list[list[tuple[int, bool]]] = [[] for _ in network.sizes]
        for value in network.inputs:
            found[value].append((-1, False))
        for place, (op, _) in enumerate(self.runs):
            for value in network.reads[op]:
                found[value].append((place, True))
            for value in network.makes[op]:
                found[value].append((place, False))
        for value in network.outputs:
            found[value].append((len(self.runs), True))
        return found

    @cached_property
    def stays(self) -> dict[tuple[int, int], int]:
        """(place, value) of an event after which the value stays -> place of its next event."""
        found = {}
        for value, places in enumerate(self.events):
            for (start, _), (end, is_read) in pairwise(places):
                if is_read and (end, value) not in self.fetches:
                    found[start, value] = end
        return found

    @cached_property
    def stored(self) -> set[int]:
        """Values that are paged out."""
        return {value for _, value in self.fetches}

    @cached_property
    def overhead(self) -> float:
        """The objective's price of all but the first runs."""
        network = self.network
        again = [network.run_cost[op] for op, stage in self.runs if op != stage]
        outs = [network.out_cost[value] for value in self.stored]
        return math.fsum([*again, *outs, *(network.in_cost[value] for _, value in self.fetches)])

    @cached_property
    def peak(self) -> int:
        """Most bytes alive at once, as the plan's lower bound counts them."""
        return lifetimes_of(self.network.problem, self.instructions).lower_bound_bytes

    @cached_property
    def is_within_limits(self) -> bool:
        """Whether it keeps the deadline and the limits of storage."""
        network, problem = self.network, self.network.problem
        written = sum(network.lengths[value] for value in self.stored)
        if written > problem.storage_bytes:
            return False
        if problem.write_limit_bytes is not None and written > problem.write_limit_bytes:
            return False
        return problem.deadline_seconds is None or self.seconds <= problem.deadline_seconds

    @cached_property
    def seconds(self) -> float:
        """Seconds of computing and paging."""
        network = self.network
        runs = [network.run_seconds[op] for op, _ in self.runs]
        outs = [network.out_seconds[value] for value in self.stored]
        return math.fsum([*runs, *outs, *(network.in_seconds[value] for _, value in self.fetches)])

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """The list."""
        names = [value.name for value in self.network.problem.values]
        waiting = set(self.stored)
        listed: list[Instruction] = []
        for place in range(-1, len(self.runs) + 1):
            reads: tuple[int, ...] = ()
            makes: tuple[int, ...] = ()
            if place < 0:
                makes = self.network.inputs
            elif place < len(self.runs):
                op, _ = self.runs[place]
                reads, makes = self.network.reads[op], self.network.makes[op]
            else:
                reads = self.network.outputs
            listed += [PageIn(names[v]) for v in reads if (place, v) in self.fetches]
            if place == len(self.runs):
                break
            if place >= 0:
                listed.append(Compute(self.network.problem.ops[op].name))
            listed += [Free(names[v]) for v in reads if (place, v) not in self.stays]
            listed += [PageOut(names[v]) for v in makes if v in waiting]
            waiting -= set(makes)
            listed += [Free(names[v]) for v in makes if (place, v) not in self.stays]
        return tuple(listed)


def tidy(
    network: Network, runs: Iterable[tuple[int, int]], fetches: Iterable[tuple[int, int]]
) -> Schedule:
    """The schedule without runs again that nobody reads and fetches where the value is there."""
    kept, pages = list(runs), set(fetches)
    while True:
        schedule = Schedule(network, tuple(kept), frozenset(pages))
        idle = [
            place
            for place, (op, stage) in enumerate(kept)
            if op != stage and not any((place, v) in schedule.stays for v in network.makes[op])
        ]
        if not idle:
            return schedule
        place = idle[-1]
        for value in network.reads[kept[place][0]]:
            # The next read has to fetch what this one would have fetched for it.
            if (place, value) in pages and (place, value) in schedule.stays:
                pages.add((schedule.stays[place, value], value))
            pages.discard((place, value))
        del kept[place]
        pages = {(at - (at > place), value) for at, value in pages}


def schedule_of(network: Network, instructions: Iterable[Instruction]) -> Schedule:
    """What an instruction list does, in the problem's order of operators."""
    ops = {op.name: index for index, op in enumerate(network.problem.ops)}
    values = {value.name: index for index, value in enumerate(network.problem.values)}
    runs: list[tuple[int, int]] = []
    pending: set[int] = set()
    fetches: set[tuple[int, int]] = set()
    first = 0
    for item in instructions:
        match item:
            case Compute(name):
                op = ops[name]
                for value in set(network.reads[op]) & pending:
                    fetches.add((len(runs), value))
                pending -= {*network.reads[op], *network.makes[op]}
                runs.append((op, first))
                first += op == first
            case PageIn(name):
                pending.add(values[name])
            case Free(name):
                pending.discard(values[name])
            case PageOut():
                pass
    fetches |= {(len(runs), value) for value in pending & set(network.outputs)}
    return tidy(network, runs, fetches)
