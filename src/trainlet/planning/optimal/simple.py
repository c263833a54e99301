# SPDX-License-Identifier: Apache-2.0
"""Schedules that are quick to find: keep all, page all, and keep in what fits best."""

from __future__ import annotations

import numpy as np

from trainlet.planning.optimal.network import Network
from trainlet.planning.optimal.schedule import Schedule


def keep_all(network: Network) -> Schedule:
    """Every operator once, nothing paged."""
    return Schedule(network, tuple((op, op) for op in range(network.op_count)), frozenset())


def page_all(network: Network) -> Schedule:
    """Every operator once, every value paged whenever that frees its bytes for an operator."""
    base = keep_all(network)
    pages = {
        (end, value)
        for (start, value), end in base.stays.items()
        if end > start + 1 and network.sizes[value]
    }
    return Schedule(network, base.runs, frozenset(pages))


def page_least(network: Network, room: int) -> Schedule:
    """Paging alone, greedily: gaps stay resident in the order of price saved per byte and time.

    A value is paged out as long as one of its gaps is; the price of that is shared among them.
    """
    base = keep_all(network)
    used = np.array([*network.working, sum(network.sizes[v] for v in network.outputs)])
    used = used.astype(np.int64)
    gaps = [
        (start, end, value)
        for (start, value), end in base.stays.items()
        if end > start + 1 and network.sizes[value]
    ]
    count: dict[int, int] = {}
    for _, _, value in gaps:
        count[value] = count.get(value, 0) + 1

    def worth(gap: tuple[int, int, int]) -> float:
        start, end, value = gap
        price = network.in_cost[value] + network.out_cost[value] / count[value]
        return price / (network.sizes[value] * (end - start - 1))

    paged = set()
    for start, end, value in sorted(gaps, key=worth, reverse=True):
        span = used[start + 1 : end]
        if span.max() + network.sizes[value] <= room:
            span += network.sizes[value]
        else:
            paged.add((end, value))
    return Schedule(network, base.runs, frozenset(paged))
