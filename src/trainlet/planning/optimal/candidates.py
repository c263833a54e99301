# SPDX-License-Identifier: Apache-2.0
"""Which operators an optimal list may run again."""

from __future__ import annotations

import math

from trainlet.planning.optimal.network import Network


def worth_again(network: Network, *, page: bool, most: float) -> set[int]:
    """Operators that may run again in a list whose overhead is at most ``most``.

    Left out, besides those that write state, are: operators that nothing reads; those that cost
    more than ``most``; and those that cost at least as much as paging their results out and in,
    where nothing limits paging. Paging in needs no inputs and comes right before the read, so it
    then replaces any run again.
    """
    free_paging = page and _paging_is_free(network)
    return {op for op in range(network.op_count) if _is_worth(network, op, free_paging, most)}


def _is_worth(network: Network, op: int, free_paging: bool, most: float) -> bool:
    if network.last_stages[op] <= op:
        return False
    made = [v for v in network.makes[op] if network.readers[v] or v in network.outputs]
    if not made or network.run_cost[op] > most:
        return False
    if not free_paging or network.objective == "peak":
        return True
    joint = sum(network.out_cost[value] + network.in_cost[value] for value in made)
    seconds = sum(network.out_seconds[value] + network.in_seconds[value] for value in made)
    is_slow = math.isinf(network.spare_seconds) or seconds <= network.run_seconds[op]
    return not (is_slow and joint <= network.run_cost[op])


def _paging_is_free(network: Network) -> bool:
    """Whether storage holds every value at once."""
    problem = network.problem
    limits = [problem.storage_bytes]
    if problem.write_limit_bytes is not None:
        limits.append(problem.write_limit_bytes)
    return sum(network.lengths) <= min(limits)
