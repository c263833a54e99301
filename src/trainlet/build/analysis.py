# SPDX-License-Identifier: Apache-2.0
"""What a planned program costs, before anything is compiled: bytes by part, work, and the peak."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from trainlet.emit import Program, constant_bytes, context_bytes
from trainlet.graph import DType, Op, Role
from trainlet.ops import definition
from trainlet.ops.overlap import align
from trainlet.passes import op_name
from trainlet.planning import Timeline, timeline_of

DEFAULT_STACK_BYTES = 1024


@dataclass(frozen=True)
class PeakValue:
    """A value that is alive when the arena is fullest."""

    name: str
    bytes: int
    address: int


@dataclass(frozen=True)
class Analysis:
    """Bytes and multiply-accumulates of one program; bytes include alignment.

    ``sram_bytes`` is what the library and its stack need: arena, what learns,
    state, stack.  ``constant_bytes`` is the library's part of flash without code.
    """

    arena_bytes: int
    arena_lower_bound_bytes: int
    weight_bytes: int
    bias_bytes: int
    head_bytes: int
    state_bytes: int
    stack_bytes: int
    constant_bytes: int
    macs_forward: int
    macs_backward: int
    operators: int
    peak_operator: str
    peak_values: tuple[PeakValue, ...]

    @property
    def trainable_bytes(self) -> int:
        """Everything that learns."""
        return self.weight_bytes + self.bias_bytes + self.head_bytes

    @property
    def sram_bytes(self) -> int:
        """The sum of the parts."""
        return self.arena_bytes + self.trainable_bytes + self.state_bytes + self.stack_bytes

    def to_data(self) -> dict[str, Any]:
        """The figures as plain data, sums included."""
        sums = {"trainable_bytes": self.trainable_bytes, "sram_bytes": self.sram_bytes}
        return asdict(self) | sums

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Analysis:
        """Read back what ``to_data`` gave."""
        own = {field.name: data[field.name] for field in fields(cls)}
        return cls(**own | {"peak_values": tuple(PeakValue(**v) for v in own["peak_values"])})


def analyze_program(program: Program, stack_bytes: int = DEFAULT_STACK_BYTES) -> Analysis:
    """Count the bytes and the work of a program."""
    parts = _trainable_parts(program)
    arena, trainable = align(program.arena_bytes), sum(parts.values())
    timeline = step_timeline(program)
    graph = program.step.graph
    work = [(definition(op.kind).backward, definition(op.kind).macs(graph, op)) for op in graph.ops]
    return Analysis(
        arena_bytes=arena,
        arena_lower_bound_bytes=program.step.plan.lower_bound_bytes,
        weight_bytes=parts["weight"],
        bias_bytes=parts["bias"],
        head_bytes=parts["head"],
        state_bytes=context_bytes(program) - arena - trainable,
        stack_bytes=stack_bytes,
        constant_bytes=constant_bytes(program),
        macs_forward=sum(macs for backward, macs in work if not backward),
        macs_backward=sum(macs for backward, macs in work if backward),
        operators=len(graph.ops),
        peak_operator=_readable(program, timeline.peak_op),
        peak_values=tuple(PeakValue(b.name, b.bytes, b.address) for b in timeline.at_peak),
    )


def step_timeline(program: Program) -> Timeline:
    """Who lies where from when to when in a training step."""
    return timeline_of(program.step.problem, program.step.plan)


def _trainable_parts(program: Program) -> dict[str, int]:
    """Bytes that learn, by kind: int8 weights, int32 biases, the float head."""
    parts = {"weight": 0, "bias": 0, "head": 0}
    for value in program.step.graph.with_role(Role.PARAMETER):
        kind = {DType.I8: "weight", DType.I32: "bias"}.get(value.dtype, "head")
        parts[kind] += align(program.stored_bytes(value))
    return parts


def _readable(program: Program, name: str | None) -> str:
    """An operator of the plan as a person would say it."""
    if name is None:
        return "before the first operator"
    names: dict[str, Op] = {op_name(i, op): op for i, op in enumerate(program.step.graph.ops)}
    op = names[name]
    return f"{op.kind} of {op.path}" if op.path else op.kind
