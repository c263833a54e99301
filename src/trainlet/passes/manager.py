# SPDX-License-Identifier: Apache-2.0
"""Passes: functions from graph to graph, each verified on its result and named in its errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainlet.graph import Graph, GraphError, verify
from trainlet.ops import check_op


@dataclass(frozen=True)
class Pass:
    """One transformation and what it promises.

    ``ensures`` lists violations of the pass's own postcondition on its result.
    """

    name: str
    run: Callable[[Graph], Graph]
    ensures: Callable[[Graph], list[str]] = lambda _: []


def run_passes(graph: Graph, passes: Sequence[Pass]) -> Graph:
    """Apply the passes in order; ``GraphError`` names the pass and the operators at fault."""
    for step in passes:
        after = f"pass '{step.name}'"
        graph = verify(step.run(graph), after=after, rule=check_op)
        broken = step.ensures(graph)
        if broken:
            raise GraphError.of_all(f"{after} does not keep its promise:", broken)
    return graph
