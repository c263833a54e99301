# SPDX-License-Identifier: Apache-2.0
"""What the planner sees of a graph: bytes, edges, permitted overlaps, scratch."""

from __future__ import annotations

from trainlet.graph import Graph, Op, Role, Value
from trainlet.ops import definition
from trainlet.ops.overlap import ALIGNMENT
from trainlet.planning import OpSpec, Overwrite, Problem, ValueSpec

_STATE = (Role.PARAMETER, Role.UPDATED)


def op_name(index: int, op: Op) -> str:
    """The planner's name of an operator: unique, and readable in a report."""
    return f"{index}:{op.path}.{op.kind}" if op.path else f"{index}:{op.kind}"


def problem_of(graph: Graph, *, fixed_bytes: int = 0, budget_bytes: int | None = None) -> Problem:
    """The planning problem of a lowered graph in its present order.

    ``fixed_bytes`` is RAM outside the arena; ``budget_bytes`` limits both together.
    """
    placed = {name: value for name, value in graph.values.items() if in_arena(graph, value)}
    return Problem(
        name=graph.name,
        values=tuple(ValueSpec(value.name, value.bytes) for value in placed.values()),
        ops=tuple(_op_spec(graph, i, op, placed) for i, op in enumerate(graph.ops)),
        inputs=tuple(v.name for v in graph.with_role(Role.INPUT) if v.name in placed),
        outputs=tuple(name for name in graph.outputs if name in placed),
        fixed_bytes=fixed_bytes,
        alignment=ALIGNMENT,
        budget_bytes=budget_bytes,
    )


def in_arena(graph: Graph, value: Value) -> bool:
    """Whether a value lies in the arena: computed or given, wanted, and not a mere scalar."""
    if value.role is Role.INPUT:
        return value.name != "label"
    if value.role is not Role.LOCAL:
        return False
    producer = graph.producers[value.name]
    is_result = definition(producer.kind).kernel(graph, producer).result == value.name
    return not is_result and bool(graph.consumers[value.name] or value.name in graph.outputs)


def _op_spec(graph: Graph, index: int, op: Op, placed: dict[str, Value]) -> OpSpec:
    known = definition(op.kind)
    overwrites = []
    for rule in known.overwrites(graph, op):
        output, source = op.outputs[rule.output], op.inputs[rule.input]
        if output in placed and source is not None and source in placed:
            overwrites.append(Overwrite(output, source, rule.lag))
    state = [n for n in op.reads if graph.values[n].role in _STATE]
    updated = [n for n in op.outputs if graph.values[n].role is Role.UPDATED]
    return OpSpec(
        name=op_name(index, op),
        inputs=tuple(dict.fromkeys(n for n in op.reads if n in placed)),
        outputs=tuple(n for n in op.outputs if n in placed),
        scratch_bytes=known.kernel(graph, op).scratch_bytes,
        overwrites=tuple(overwrites),
        reads=tuple(dict.fromkeys(state)),
        writes=tuple(name.removesuffix(".next") for name in updated),
    )
