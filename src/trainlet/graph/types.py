# SPDX-License-Identifier: Apache-2.0
"""Values, operators and the graph that holds them: plain immutable data.

A ``Graph`` is one computation in static single assignment form: every value is
produced once, operators stand in execution order, and an attribute is a
number, a word or a list of them.  Passes return new graphs.

Shapes are logical and in PyTorch's order (batch, channels, rows, columns);
on a device maps lie channels-last (see docs/arithmetic.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from types import MappingProxyType

Attribute = int | float | bool | str | tuple[int, ...] | tuple[float, ...]


class DType(Enum):
    """How an element is stored on the device."""

    I8 = "i8"
    U8 = "u8"
    I32 = "i32"
    U32 = "u32"
    F32 = "f32"
    BIT = "b1"

    def bytes_of(self, elements: int) -> int:
        """Bytes that so many elements occupy; bits are packed eight to a byte."""
        bits = {DType.I8: 8, DType.U8: 8, DType.BIT: 1}.get(self, 32)
        return (int(elements) * bits + 7) // 8


class Role(Enum):
    """Why a value exists, which is also where it lives."""

    INPUT = "input"  # given before each call, in the arena
    CONSTANT = "constant"  # frozen, in flash
    PARAMETER = "parameter"  # learns, in RAM
    LOCAL = "local"  # computed, in the arena
    UPDATED = "updated"  # a parameter after its update, in the parameter's place


@dataclass(frozen=True)
class Value:
    """A tensor: its name, logical shape, storage type and role."""

    name: str
    shape: tuple[int, ...]
    dtype: DType
    role: Role = Role.LOCAL

    @property
    def elements(self) -> int:
        """Number of elements (1 for a scalar)."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of the dense tensor; a kernel's weight layout may pad beyond this."""
        return self.dtype.bytes_of(self.elements)


@dataclass(frozen=True)
class Op:
    """One operator: what it reads, what it makes, and its constants.

    ``inputs`` may hold ``None`` for an optional tensor that is absent; ``path``
    is the module of the user's network that it comes from.
    """

    kind: str
    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]
    path: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", MappingProxyType(dict(self.attributes)))

    def __reduce__(self) -> tuple[object, ...]:
        return Op, (self.kind, self.inputs, self.outputs, dict(self.attributes), self.path)

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the inputs that are present."""
        return tuple(name for name in self.inputs if name is not None)

    def integer(self, key: str) -> int:
        """The attribute as an int (also from a bool)."""
        value = self.attributes[key]
        assert isinstance(value, int), (self.kind, key, value)
        return int(value)

    def number(self, key: str) -> float:
        """The attribute as a float."""
        value = self.attributes[key]
        assert isinstance(value, (int, float)), (self.kind, key, value)
        return float(value)

    def integers(self, key: str) -> tuple[int, ...]:
        """The attribute as a tuple of ints."""
        value = self.attributes[key]
        assert isinstance(value, tuple), (self.kind, key, value)
        return tuple(int(item) for item in value)

    def __str__(self) -> str:
        where = f" ({self.path})" if self.path else ""
        return f"{self.kind} -> {', '.join('%' + name for name in self.outputs)}{where}"


@dataclass(frozen=True)
class Graph:
    """Operators in execution order over named values."""

    name: str
    values: Mapping[str, Value]
    ops: tuple[Op, ...]
    outputs: tuple[str, ...]

    @classmethod
    def of(
        cls, name: str, values: Iterable[Value], ops: Iterable[Op], outputs: Iterable[str]
    ) -> Graph:
        """A graph from its parts; a value that nothing mentions is left out."""
        ops, outputs = tuple(ops), tuple(outputs)
        used = {n for op in ops for n in (*op.reads, *op.outputs)} | set(outputs)
        kept = {v.name: v for v in values if v.name in used or v.role is Role.INPUT}
        return cls(name, MappingProxyType(kept), ops, outputs)

    def with_ops(
        self,
        ops: Iterable[Op],
        *,
        values: Iterable[Value] = (),
        outputs: Iterable[str] | None = None,
    ) -> Graph:
        """The same graph with other operators; ``values`` adds to or replaces the values."""
        merged = {**self.values, **{value.name: value for value in values}}
        return Graph.of(
            self.name, merged.values(), ops, self.outputs if outputs is None else outputs
        )

    def renamed(self, name: str) -> Graph:
        """The same graph under another name."""
        return replace(self, name=name)

    @cached_property
    def producers(self) -> dict[str, Op]:
        """Value name to the operator that makes it."""
        return {name: op for op in self.ops for name in op.outputs}

    @cached_property
    def consumers(self) -> dict[str, tuple[Op, ...]]:
        """Value name to the operators that read it, in order."""
        found: dict[str, list[Op]] = {name: [] for name in self.values}
        for op in self.ops:
            for name in dict.fromkeys(op.reads):
                found[name].append(op)
        return {name: tuple(ops) for name, ops in found.items()}

    def inputs_of(self, op: Op) -> tuple[Value | None, ...]:
        """The operator's input values, ``None`` where one is absent."""
        return tuple(None if name is None else self.values[name] for name in op.inputs)

    def outputs_of(self, op: Op) -> tuple[Value, ...]:
        """The operator's output values."""
        return tuple(self.values[name] for name in op.outputs)

    def with_role(self, *roles: Role) -> tuple[Value, ...]:
        """The values that have one of the roles, in the order of their first mention."""
        return tuple(value for value in self.values.values() if value.role in roles)
