# SPDX-License-Identifier: Apache-2.0
"""Dead code: operators that no output needs."""

from __future__ import annotations

from trainlet.graph.types import Graph


def without_dead_code(graph: Graph) -> Graph:
    """The graph without operators none of whose outputs is needed."""
    needed = set(graph.outputs)
    alive = []
    for op in reversed(graph.ops):
        if needed.intersection(op.outputs):
            needed.update(op.reads)
            alive.append(op)
    return graph.with_ops(reversed(alive))
