# SPDX-License-Identifier: Apache-2.0
"""Kernel calls as C statements, with the constant structs and tables that they point to."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from trainlet.emit.literals import TYPES, array, comment, number, wrapped
from trainlet.emit.program import Planned, Program
from trainlet.graph import Role
from trainlet.ops import definition
from trainlet.ops.base import (
    Argument,
    KernelCall,
    Label,
    LearningRate,
    Number,
    Pointer,
    Scratch,
    Sgd,
    Struct,
    Table,
)

_SUFFIXES = {
    "int8_t": "s8",
    "uint8_t": "u8",
    "int16_t": "s16",
    "int32_t": "s32",
    "float": "f32",
}


@dataclass(frozen=True)
class Accessor:
    """A function of the generated file that gives a place in the arena or in what learns."""

    name: str
    ctype: str
    region: str


def accessors(code: str) -> list[Accessor]:
    """The accessors that the code calls."""
    every = (
        Accessor(f"{name}_{suffix}", ctype, region)
        for name, region in (("arena", "arena"), ("learns", "trainables"))
        for ctype, suffix in _SUFFIXES.items()
    )
    return [accessor for accessor in every if f"{accessor.name}(" in code]


@dataclass
class Statics:
    """Constant structs and tables of the generated file; equal ones are written once."""

    tables: dict[str, str] = field(default_factory=dict)  # initializer -> name
    structs: dict[str, str] = field(default_factory=dict)

    def table(self, table: Table) -> str:
        """The name of a table, or NULL."""
        if table.data is None:
            return "NULL"
        data: npt.NDArray[np.generic] = np.fromiter(table.data, TYPES[table.ctype])
        text = f"{table.ctype}|{data.size}|{array(data)}"
        return self.tables.setdefault(text, f"table_{len(self.tables)}")

    def struct(self, ctype: str, initializer: str) -> str:
        """The address of a struct."""
        text = f"{ctype}|{initializer}"
        return "&" + self.structs.setdefault(text, f"{ctype[3:]}_{len(self.structs)}")

    def lines(self) -> list[str]:
        """Their definitions."""
        lines = []
        for text, name in self.tables.items():
            ctype, count, body = text.split("|", 2)
            lines.append(f"static const {ctype} {name}[{count}] = {{\n{body}}};")
        for text, name in self.structs.items():
            ctype, body = text.split("|", 1)
            fields = body.split(", ")
            lines.append(wrapped(f"static const {ctype} {name} = {{", fields, "};"))
        return lines


class CallWriter:
    """Writes the calls of one planned graph."""

    def __init__(self, program: Program, planned: Planned, statics: Statics) -> None:
        self.program, self.planned, self.statics = program, planned, statics
        self.sources: set[str] = set()
        self.constants: dict[str, None] = {}

    def statements(self) -> list[str]:
        """One C statement (or block) an operator, in the plan's order, each with a comment."""
        by_name = dict(
            zip((op.name for op in self.planned.problem.ops), self.planned.graph.ops, strict=True)
        )
        lines = []
        for operands in self.planned.plan.operands(self.planned.problem):
            op = by_name[operands.op]
            call = definition(op.kind).kernel(self.planned.graph, op)
            self.sources.add(call.source)
            lines.append(f"/* {comment(op.path or op.kind)}: {op.kind} */")
            lines.append(self._statement(call, operands.addresses, operands.scratch))
        return lines

    def pointer(self, name: str, ctype: str, addresses: Mapping[str, int]) -> str:
        """The C expression for the address of a value."""
        value = self.planned.graph.values[name]
        if name in addresses:
            return f"arena_{_SUFFIXES[ctype]}({addresses[name]})"
        if value.role is Role.PARAMETER:
            offset = self.program.trainable_offsets[name]
            return f"learns_{_SUFFIXES[ctype]}({offset})"
        self.constants[name] = None
        return f"tl_{self.program.constant_names[name]}"

    def _statement(self, call: KernelCall, at: Mapping[str, int], scratch: int | None) -> str:
        arguments = [self._argument(a, at, scratch) for a in call.arguments]
        target = "" if call.result is None else "context.loss = "
        text = wrapped(f"{target}{call.function}(", arguments, ");")
        updates = [a for a in call.arguments if isinstance(a, Sgd)]
        if not updates:
            return text
        scale = self._argument(updates[0].scale, at, scratch)
        body = f"const tl_sgd sgd = update({scale}, {updates[0].tensor}u);\n{text}"
        return "{\n" + textwrap.indent(body, "    ") + "\n}"

    def _argument(self, argument: Argument, at: Mapping[str, int], scratch: int | None) -> str:
        match argument:
            case Pointer(value, ctype):
                return "NULL" if value is None else self.pointer(value, ctype, at)
            case Scratch(ctype):
                return "NULL" if scratch is None else f"arena_{_SUFFIXES[ctype]}({scratch})"
            case Number(value):
                return number(value)
            case Table():
                return self.statics.table(argument)
            case Struct(ctype, _):
                return self.statics.struct(ctype, self._fields(argument, at))
            case Label():
                return "label"
            case LearningRate(head):
                return "context.head_learning_rate" if head else "context.learning_rate"
            case Sgd():
                return "&sgd"

    def _fields(self, struct: Struct, at: Mapping[str, int]) -> str:
        parts = []
        for name, value in struct.fields.items():
            if isinstance(value, (Table, Pointer)):
                parts.append(f".{name} = {self._argument(value, at, None)}")
            else:
                parts.append(f".{name} = {number(value)}")
        return ", ".join(parts)
