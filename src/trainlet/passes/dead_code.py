# SPDX-License-Identifier: Apache-2.0
"""Dead code elimination: no operator remains that no output needs."""

from __future__ import annotations

from trainlet.graph import Graph, without_dead_code
from trainlet.passes.manager import Pass


def _unneeded(graph: Graph) -> list[str]:
    read = {name for op in graph.ops for name in op.reads} | set(graph.outputs)
    return [f"{op} is needed by nobody" for op in graph.ops if not read.intersection(op.outputs)]


DEAD_CODE = Pass("dead-code", without_dead_code, _unneeded)
