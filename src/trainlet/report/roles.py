# SPDX-License-Identifier: Apache-2.0
"""Why each value of a step lies in the arena, and what each operator is, for people to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from trainlet.emit import Program
from trainlet.graph import DType, Graph, Role, Value
from trainlet.ops import definition
from trainlet.passes import op_name
from trainlet.planning.timeline import Bar


class ValueRole(StrEnum):
    """What a value of the arena is for; the order is that of the legend."""

    INPUT = "input"
    ACTIVATION = "activation"
    SAVED = "saved activation"
    MASK = "mask"
    GRADIENT = "gradient"
    SCRATCH = "scratch"

    @property
    def slug(self) -> str:
        """The role as a word that can stand in a class name."""
        return self.value.split()[0]

    @property
    def meaning(self) -> str:
        """One line for the legend."""
        return _MEANINGS[self]


_MEANINGS = {
    ValueRole.INPUT: "given before the step",
    ValueRole.ACTIVATION: "a forward value that only the forward pass reads",
    ValueRole.SAVED: "a forward value kept because the backward pass reads it",
    ValueRole.MASK: "one bit an element: where a clamp let the gradient through",
    ValueRole.GRADIENT: "a float32 value of the backward pass",
    ValueRole.SCRATCH: "working memory of one operator, for the time that it runs",
}


@dataclass(frozen=True)
class OperatorNote:
    """What the report says of an operator; ``name`` is the plan's."""

    name: str
    kind: str
    path: str
    backward: bool
    macs: int


def roles_of(program: Program) -> dict[str, ValueRole]:
    """The role of every value that a training step may place in the arena, by name."""
    return graph_roles(program.step.graph)


def graph_roles(graph: Graph) -> dict[str, ValueRole]:
    """The same for a lowered graph."""
    placed = graph.with_role(Role.INPUT, Role.LOCAL)
    return {value.name: _role(graph, value) for value in placed}


def _role(graph: Graph, value: Value) -> ValueRole:
    if value.role is Role.INPUT:
        return ValueRole.INPUT
    if value.dtype is DType.BIT:
        return ValueRole.MASK
    if definition(graph.producers[value.name].kind).backward:
        return ValueRole.GRADIENT
    if any(definition(reader.kind).backward for reader in graph.consumers[value.name]):
        return ValueRole.SAVED
    return ValueRole.ACTIVATION


def operators_of(program: Program) -> tuple[OperatorNote, ...]:
    """The operators of a training step in order."""
    return graph_operators(program.step.graph)


def graph_operators(graph: Graph) -> tuple[OperatorNote, ...]:
    """The same for a lowered graph."""
    notes = []
    for index, op in enumerate(graph.ops):
        known = definition(op.kind)
        name = op_name(index, op)
        notes.append(OperatorNote(name, op.kind, op.path, known.backward, known.macs(graph, op)))
    return tuple(notes)


def role_of_bar(bar: Bar, roles: Mapping[str, ValueRole]) -> ValueRole:
    """The role of a bar; where ``roles`` does not have it, what its name suggests."""
    if bar.is_scratch:
        return ValueRole.SCRATCH
    if bar.name in roles:
        return ValueRole(roles[bar.name])
    if bar.start < 0:
        return ValueRole.INPUT
    last = bar.name.rpartition(".")[2]
    if "mask" in last:
        return ValueRole.MASK
    return ValueRole.GRADIENT if "grad" in last else ValueRole.ACTIVATION
