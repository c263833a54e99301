# SPDX-License-Identifier: Apache-2.0
"""What the optimiser returns, and what it tells while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainlet.planning.instructions import Instruction

Status = Literal["optimal", "feasible", "infeasible", "unknown"]
GAP = 1e-6  # at which a solution counts as optimal


@dataclass(frozen=True)
class Progress:
    """The state of a search: price of the best list, and what no list can be under."""

    seconds: float
    overhead: float | None
    bound: float

    @property
    def gap(self) -> float | None:
        """Relative distance of overhead and bound."""
        return None if self.overhead is None else gap_of(self.overhead, self.bound)


@dataclass(frozen=True)
class Solution:
    """The best list found and how good it is.

    Attributes:
        instructions: the list; None where none was found.
        overhead: what the list costs beyond running every operator once: joules, seconds, or for
            the peak objective the bytes above the largest working set of any operator.
        bound: no list in the problem's order has a smaller overhead.
        gap: (overhead - bound) / overhead; 0 where both are 0.
        status: ``optimal`` (the gap is 1e-6 or less), ``feasible``, ``infeasible`` (proven), or
            ``unknown`` (nothing found, nothing proven).
        solve_seconds: time taken.
    """

    instructions: tuple[Instruction, ...] | None
    overhead: float | None
    bound: float
    gap: float | None
    status: Status
    solve_seconds: float


def gap_of(overhead: float, bound: float) -> float:
    """Relative distance of a price and its bound."""
    return max(0.0, overhead - bound) / overhead if overhead > 0 else 0.0
