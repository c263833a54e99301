# SPDX-License-Identifier: Apache-2.0
"""What a graph must satisfy, as code that runs after every pass."""

from __future__ import annotations

from collections.abc import Callable

from trainlet.errors import TrainletError
from trainlet.graph.types import Graph, Op, Role

OpRule = Callable[[Graph, Op], list[str]]


class GraphError(TrainletError):
    """A graph that breaks the rules: which pass left it so, which operator, which rule."""


def verify(graph: Graph, *, after: str, rule: OpRule | None = None) -> Graph:
    """Check the graph and return it; ``GraphError`` lists every violation.

    ``after`` names the pass that made the graph.  ``rule`` adds the checks of
    the operator set (known kind, arity, shapes), which this room cannot know.
    """
    problems = _definitions(graph) + _updates(graph)
    if not problems and rule is not None:
        problems = [p for op in graph.ops for p in rule(graph, op)]
    if problems:
        raise GraphError.of_all(f"graph '{graph.name}' is malformed after {after}:", problems)
    return graph


def _definitions(graph: Graph) -> list[str]:
    """Every value is made once, before it is read, and has a role that fits."""
    problems = []
    given = {Role.INPUT, Role.CONSTANT, Role.PARAMETER}
    known = {name for name, value in graph.values.items() if value.role in given}
    for name, value in graph.values.items():
        if name != value.name:
            problems.append(f"value %{value.name} is filed under the name %{name}")
        if any(extent < 0 for extent in value.shape):
            problems.append(f"value %{name} has a negative extent: {list(value.shape)}")
    for op in graph.ops:
        for name in op.reads:
            if name not in graph.values:
                problems.append(f"{op} reads %{name}, which does not exist")
            elif name not in known:
                problems.append(f"{op} reads %{name} before it is made")
        for name in op.outputs:
            if name not in graph.values:
                problems.append(f"{op} makes %{name}, which has no type")
            elif name in known:
                problems.append(f"{op} makes %{name} a second time")
            known.add(name)
    problems += [f"output %{n} is never made" for n in graph.outputs if n not in known]
    return problems


def _updates(graph: Graph) -> list[str]:
    """A parameter is read by nobody once its update has run."""
    problems = []
    stale: dict[str, Op] = {}
    for op in graph.ops:
        problems += [
            f"{op} reads %{name} after {stale[name]} has updated it"
            for name in op.reads
            if name in stale
        ]
        for output in op.outputs:
            value = graph.values.get(output)
            if value is None or value.role is not Role.UPDATED:
                continue
            parents = [n for n in op.reads if _replaces(graph, n, output)]
            if len(parents) != 1:
                problems.append(f"{op} updates %{output}, but not exactly one parameter like it")
            else:
                stale[parents[0]] = op
    return problems


def _replaces(graph: Graph, parameter: str, updated: str) -> bool:
    """Whether ``updated`` is the new state of ``parameter`` (its name plus ``.next``)."""
    old = graph.values.get(parameter)
    return old is not None and old.role is Role.PARAMETER and updated == parameter + ".next"
