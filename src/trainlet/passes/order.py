# SPDX-License-Identifier: Apache-2.0
"""Operator order that lowers the peak.

Data flow leaves freedom: a weight's update may run as soon as its input
gradient is done, the channels that a sparse weight gradient keeps may be copied
as soon as their map exists.  The pass schedules greedily, taking of the ready
operators the one that leaves the fewest live bytes, and keeps the result if
its peak, or at equal peak its sum of live bytes over time, is lower.
"""

from __future__ import annotations

from trainlet.graph import Graph, Op, Role
from trainlet.passes.manager import Pass
from trainlet.passes.problem import problem_of
from trainlet.planning.lifetimes import lifetimes_of
from trainlet.planning.methods import find_method


def order_for_memory(graph: Graph) -> Graph:
    """The same operators in an order whose peak is no higher."""
    candidate = graph.with_ops(_greedy(graph))
    return candidate if _cost(candidate) < _cost(graph) else graph


def _cost(graph: Graph) -> tuple[int, int]:
    """Peak of live bytes, then their sum over time."""
    problem = problem_of(graph)
    lifetimes = lifetimes_of(problem, find_method("keep-all")(problem))
    return lifetimes.lower_bound_bytes, sum(lifetimes.live_bytes)


def _greedy(graph: Graph) -> list[Op]:
    waits = _predecessors(graph)
    readers = {name: len(ops) for name, ops in graph.consumers.items()}
    left = list(range(len(graph.ops)))
    done: set[int] = set()
    order = []
    while left:
        ready = [i for i in left if waits[i] <= done]
        chosen = min(ready, key=lambda i: (_growth(graph, graph.ops[i], readers), i))
        left.remove(chosen)
        done.add(chosen)
        for name in set(graph.ops[chosen].reads):
            readers[name] -= 1
        order.append(graph.ops[chosen])
    return order


def _predecessors(graph: Graph) -> list[set[int]]:
    """For every operator those that must come first: data flow, and readers before an update."""
    index = {id(op): i for i, op in enumerate(graph.ops)}
    made = {name: index[id(op)] for name, op in graph.producers.items()}
    waits = [{made[name] for name in op.reads if name in made} for op in graph.ops]
    for i, op in enumerate(graph.ops):
        for output in op.outputs:
            if graph.values[output].role is Role.UPDATED:
                parameter = output.removesuffix(".next")
                waits[i] |= {index[id(reader)] for reader in graph.consumers[parameter]} - {i}
    return waits


def _growth(graph: Graph, op: Op, readers: dict[str, int]) -> int:
    """Live bytes after the operator, less those before it."""
    local = (Role.LOCAL, Role.INPUT)
    made = sum(
        graph.values[name].bytes
        for name in op.outputs
        if graph.values[name].role in local and (graph.consumers[name] or name in graph.outputs)
    )
    freed = sum(
        graph.values[name].bytes
        for name in set(op.reads)
        if graph.values[name].role in local and readers[name] == 1 and name not in graph.outputs
    )
    return made - freed


ORDER = Pass("order", order_for_memory)
