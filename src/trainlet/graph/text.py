# SPDX-License-Identifier: Apache-2.0
"""The text form of a graph: printed by ``format_graph``, read back by ``parse_graph``.

    graph step {
      input %image : i8[1, 3, 8, 8]
      parameter %stem.weight : i8[4, 3, 3, 3]
      %y : i8[1, 4, 8, 8], %mask : b1[1, 4, 8, 8] = conv2d(%image, %stem.weight, _) \
{stride = [1, 1], groups = 1} @ "stem"
      return %y
    }

Inputs, constants and parameters are declared; other values are typed where
they are made.  ``_`` is an optional input that is absent, ``@`` the module
path.  A value of role ``updated`` is written with an apostrophe before its
type.  ``parse_graph(format_graph(g)) == g`` for every graph.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import cast

from lark import Lark, Token, Transformer, UnexpectedInput
from lark.exceptions import VisitError

from trainlet.errors import TrainletError
from trainlet.graph.types import Attribute, DType, Graph, Op, Role, Value

_DECLARED = (Role.INPUT, Role.CONSTANT, Role.PARAMETER)


def format_graph(graph: Graph) -> str:
    """The graph as text, one operator a line."""
    lines = [f"graph {graph.name} {{"]
    for role in _DECLARED:
        lines += [f"  {role.value} {_typed(value)}" for value in graph.with_role(role)]
    lines += [f"  {_format_op(graph, op)}" for op in graph.ops]
    lines.append("  return " + ", ".join(f"%{name}" for name in graph.outputs))
    return "\n".join(lines) + "\n}\n"


def parse_graph(text: str) -> Graph:
    """The graph that the text describes; ``TrainletError`` names line and column."""
    try:
        return _Builder().transform(_parser().parse(text))
    except UnexpectedInput as error:
        detail = error.get_context(text).strip().splitlines()[0]
        raise TrainletError(
            f"graph text, line {error.line}, column {error.column}: cannot read '{detail}'"
        ) from None
    except VisitError as error:
        raise TrainletError(f"graph text: {error.orig_exc}") from None


def _typed(value: Value) -> str:
    prime = "'" if value.role is Role.UPDATED else ""
    shape = ", ".join(str(extent) for extent in value.shape)
    return f"%{value.name} : {prime}{value.dtype.value}[{shape}]"


def _format_op(graph: Graph, op: Op) -> str:
    made = ", ".join(_typed(value) for value in graph.outputs_of(op))
    operands = ", ".join("_" if name is None else f"%{name}" for name in op.inputs)
    text = f"{made} = {op.kind}({operands})"
    if op.attributes:
        pairs = (f"{key} = {_literal(value)}" for key, value in op.attributes.items())
        text += " {" + ", ".join(pairs) + "}"
    return text + (f" @ {json.dumps(op.path)}" if op.path else "")


def _literal(value: Attribute) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, tuple):
        return "[" + ", ".join(_literal(item) for item in value) + "]"
    return repr(value)


@cache
def _parser() -> Lark:
    grammar = files("trainlet.graph").joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, start="graph", parser="lalr", maybe_placeholders=True)


class _Builder(Transformer[Token, Graph]):
    """Turns the parse tree into a graph, one method a rule of the grammar."""

    def value(self, parts: list[Token]) -> str:
        return str(parts[0])

    def absent(self, parts: list[Token]) -> None:
        return None

    def shape(self, parts: list[Token | None]) -> tuple[int, ...]:
        return tuple(int(part) for part in parts if part is not None)

    def typed(self, parts: list[object]) -> Value:
        name, kind, shape = cast(tuple[str, str, tuple[int, ...]], tuple(parts))
        role = Role.UPDATED if kind.startswith("'") else Role.LOCAL
        return Value(name, shape, DType(kind.lstrip("'")), role)

    def declaration(self, parts: list[object]) -> Value:
        role, value = cast(tuple[str, Value], tuple(parts))
        return Value(value.name, value.shape, value.dtype, Role(str(role)))

    def number(self, parts: list[Token]) -> int | float:
        text = str(parts[0])
        try:
            return int(text)
        except ValueError:
            return float(text)

    def boolean(self, parts: list[Token]) -> bool:
        return str(parts[0]) == "true"

    def word(self, parts: list[Token]) -> str:
        return cast(str, json.loads(str(parts[0])))

    def sequence(self, parts: list[int | float | None]) -> tuple[int | float, ...]:
        return tuple(part for part in parts if part is not None)

    def attribute(self, parts: list[object]) -> tuple[str, Attribute]:
        return str(parts[0]), cast(Attribute, parts[1])

    def attributes(self, parts: list[tuple[str, Attribute] | None]) -> dict[str, Attribute]:
        return dict(part for part in parts if part is not None)

    def path(self, parts: list[Token]) -> str:
        return self.word(parts)

    def operands(self, parts: list[str | None]) -> tuple[str | None, ...]:
        return tuple(parts)

    def values(self, parts: list[str]) -> tuple[str, ...]:
        return tuple(parts)

    def op(self, parts: list[object]) -> tuple[Op, tuple[Value, ...]]:
        *made, kind, operands, attributes, path = parts
        outputs = tuple(cast(list[Value], made))
        op = Op(
            str(kind),
            cast(tuple[str | None, ...], operands or ()),
            tuple(value.name for value in outputs),
            cast(dict[str, Attribute], attributes or {}),
            cast(str, path or ""),
        )
        return op, outputs

    def graph(self, parts: list[object]) -> Graph:
        name, *body, outputs = parts
        values = [part for part in body if isinstance(part, Value)]
        ops = []
        for part in body:
            if isinstance(part, tuple):
                ops.append(cast(Op, part[0]))
                values += cast(tuple[Value, ...], part[1])
        return Graph.of(str(name), values, ops, cast(tuple[str, ...], outputs or ()))
