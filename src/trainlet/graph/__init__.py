# SPDX-License-Identifier: Apache-2.0
"""What is computed: ``Graph``, ``Op``, ``Value``, their text form, and ``verify``."""

from trainlet.graph.prune import without_dead_code
from trainlet.graph.text import format_graph, parse_graph
from trainlet.graph.types import Attribute, DType, Graph, Op, Role, Value
from trainlet.graph.verify import GraphError, verify

__all__ = [
    "Attribute",
    "DType",
    "Graph",
    "GraphError",
    "Op",
    "Role",
    "Value",
    "format_graph",
    "parse_graph",
    "verify",
    "without_dead_code",
]
