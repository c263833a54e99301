# SPDX-License-Identifier: Apache-2.0
"""Checkpoints kept, offloaded or computed again: the dynamic program on chains of POFO.

O. Beaumont, L. Eyraud-Dubois, A. Shilova, "Efficient Combination of Rematerialization and
Offloading for Training DNNs", NeurIPS 2021; the rematerialization alone is that of O. Beaumont,
L. Eyraud-Dubois, J. Herrmann, A. Joly, A. Shilova, "Optimal checkpointing for heterogeneous
chains", 2019 (rotor).

The step is made a chain of blocks (see ``chain``), block k taking link k-1 to link k. ``cost(s, t,
m)`` is the least cost to run blocks s to t forward and backward from link s-1 within m bytes
beside it. Either block s runs and keeps what its backward part reads while the rest (s+1, t) is
done; or blocks s to r-1 run and leave link r-1 alone, (r, t) is done, and (s, r-1) starts again
from link s-1. While the rest is done, link s-1 and the kept values may lie in storage instead, at
the cost of writing and reading them. Where (s, r-1) starts again, link r-1 may stay for it.

It is optimal among such plans, with bytes rounded up to a unit: the least power of two by which
the table stays below 4096 slots and 4 million entries. Two differences to the paper: here paging
and computing do not overlap, so the cost is a sum; and a value may be offloaded in any pass, not
in the first alone. The cost is joules, or seconds where there are none or where the plan of least
joules misses the deadline.
"""

from __future__ import annotations

from trainlet.errors import TrainletError
from trainlet.planning.instructions import Instruction
from trainlet.planning.methods.chain import chain_of
from trainlet.planning.methods.chain_events import ChainEvents
from trainlet.planning.methods.chain_table import ChainTable
from trainlet.planning.methods.keep_all import keep_all
from trainlet.planning.methods.limits import (
    OverBudgetError,
    accept,
    arena_limit,
    budget_error,
    fits,
    in_time,
    peak_of,
    writable_bytes,
)
from trainlet.planning.methods.schedule import Price, price_of, with_frees
from trainlet.planning.problem import Problem

_FINES = (0.0, 0.25, 1.0, 4.0, 16.0)  # on offloading, where storage cannot take it all


def pofo(problem: Problem) -> tuple[Instruction, ...]:
    """POFO's plan within the budget; without one, or where everything fits, that of keep-all.

    Raises:
        TrainletError: a plan of this kind needs more bytes or more time, or the graph is no chain.
    """
    everything = keep_all(problem)
    limit = arena_limit(problem)
    if limit is None or fits(problem, everything):
        return accept(problem, "pofo", everything)
    chain = _Chain(problem)
    price = price_of(problem)
    try:
        plan = chain.plan(limit, price)
        if not in_time(problem, plan) and price.in_joules:
            plan = chain.plan(limit, Price(problem, in_joules=False))
    except OverBudgetError:
        smallest = chain.smallest_peak(peak_of(problem, everything), price)
        raise budget_error(problem, "pofo", smallest) from None
    return accept(problem, "pofo", plan)


class _Chain:
    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._blocks = chain_of(problem)
        if len(self._blocks) == 1:
            raise TrainletError(
                f"pofo plans chains, and the graph of {problem.name!r} has no operator that "
                "everything passes through; choose another method"
            )

    def plan(self, limit: int, price: Price) -> tuple[Instruction, ...]:
        """The cheapest plan that storage can take.

        Raises:
            OverBudgetError: there is none within the bytes.
        """
        room = writable_bytes(self._problem)
        for fine in _FINES if room else ():
            table = ChainTable(self._problem, self._blocks, limit, price, fine)
            events = ChainEvents(self._problem, self._blocks, table).events()
            if self._written(events.paged_out) <= room:
                return with_frees(self._problem, events.listed)
        table = ChainTable(self._problem, self._blocks, limit, price, None)
        return with_frees(
            self._problem, ChainEvents(self._problem, self._blocks, table).events().listed
        )

    def smallest_peak(self, everything: int, price: Price) -> int:
        """The smallest peak of any such plan; ``everything`` is that of keep-all."""
        fine = 0.0 if writable_bytes(self._problem) else None
        table = ChainTable(self._problem, self._blocks, everything, price, fine)
        least = table.least_bytes()
        return everything if least is None else min(everything, least)

    def _written(self, values: set[str]) -> int:
        return sum(self._problem.value_by_name[value].bytes for value in values)
