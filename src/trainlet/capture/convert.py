# SPDX-License-Identifier: Apache-2.0
"""From the exported FX graph to ours: named by module path, typed by the operator set.

Operators of the set (``trainlet.*``) become themselves.  The few PyTorch
operators that the export adds around them (copies, the gradient of the loss
by itself, the sum of gradients where a value forks) are translated; every
other one stays as ``aten.*``, which PyTorch can run and C cannot.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, fx

from trainlet.capture.joint import Joint
from trainlet.graph import Attribute, DType, Graph, Op, Role, Value
from trainlet.ops import definition, is_defined

_COPIES = frozenset({"aten.detach.default", "aten.clone.default", "aten.alias.default"})
_DROPPED = frozenset({"aten._assert_tensor_metadata.default"})
_STORAGE = {
    torch.int8: DType.I8,
    torch.uint8: DType.U8,
    torch.int32: DType.I32,
    torch.int64: DType.I32,
    torch.bool: DType.BIT,
}
# What the outputs of a forward operator after the first are called.
_SECOND = {"max_pool2d": "index", "softmax_cross_entropy": "probabilities"}


def convert(joint: Joint) -> Graph:
    """The step up to the gradients; outputs are loss, logits, then the gradients by parameter."""
    return _Converter(joint).run()


def gradient_outputs(joint: Joint, graph: Graph) -> dict[str, str]:
    """Parameter name to the value that is its gradient."""
    return dict(zip(joint.gradients, graph.outputs[2:], strict=True))


class _Converter:
    """Walks the FX graph once, keeping for every node the value it became."""

    def __init__(self, joint: Joint) -> None:
        self.joint = joint
        self.values: dict[str, Value] = {}
        self.ops: list[Op] = []
        self.became: dict[str, tuple[str, ...]] = {}
        self.paths: dict[str, str] = {}  # value name -> module path

    def run(self) -> Graph:
        for node in self.joint.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node)
            elif node.op == "call_function":
                self._call(node)
        names = [self.joint.loss, self.joint.logits, *self.joint.gradients.values()]
        return Graph.of("step", self.values.values(), self.ops, [self.became[n][0] for n in names])

    def _placeholder(self, node: fx.Node) -> None:
        role, dtype = Role.CONSTANT, _storage(node)
        if node.name == self.joint.image:
            name, role, dtype = "image", Role.INPUT, DType.I8
        elif node.name == self.joint.label:
            name, role, dtype = "label", Role.INPUT, DType.U32
        else:
            name = self.joint.state[node.name]
            role = Role.PARAMETER if name in self.joint.gradients else Role.CONSTANT
            dtype = self._expected(node) or dtype
            self.paths[name] = name.rpartition(".")[0]
        self._define(Value(name, _shape(node), dtype, role))
        self.became[node.name] = (name,)

    def _expected(self, node: fx.Node) -> DType | None:
        """The storage type that the first operator of the set which reads the node wants."""
        for user in node.users:
            kind = _kind(user)
            if kind is not None and is_defined(kind):
                tensors = _tensor_arguments(user)
                return definition(kind).inputs[tensors.index(node)]
        return None

    def _call(self, node: fx.Node) -> None:
        target = str(node.target)
        if node.target is operator.getitem:
            source, index = node.args
            whole = self.became[cast(fx.Node, source).name]
            self.became[node.name] = (whole[cast(int, index)],)
        elif target in _COPIES:
            self.became[node.name] = self.became[cast(fx.Node, node.args[0]).name]
        elif target not in _DROPPED:
            self._operator(node)

    def _operator(self, node: fx.Node) -> None:
        kind = _kind(node)
        operands = _tensor_arguments(node)
        inputs = tuple(None if a is None else self.became[a.name][0] for a in operands)
        if kind == "softmax_cross_entropy_grad":
            inputs = inputs[1:]  # the gradient of the loss by itself, which is one
        if str(node.target) == "aten.add.Tensor" and self._adds_gradients(inputs):
            kind = "add_f32"
        if kind is None or not is_defined(kind):
            kind = str(node.target)
        path = self.joint.paths.get(node.name) or self._path_of(inputs)
        dtypes = definition(kind).outputs if is_defined(kind) else None
        outputs = tuple(self._output(node, i, kind, path, dtypes) for i in range(_arity(node)))
        attributes = _attributes(node) if kind != "add_f32" else {}
        self.ops.append(Op(kind, inputs, outputs, attributes, path))
        self.became[node.name] = outputs

    def _adds_gradients(self, inputs: tuple[str | None, ...]) -> bool:
        return len(inputs) == 2 and all(
            name is not None and self.values[name].dtype is DType.F32 for name in inputs
        )

    def _path_of(self, inputs: tuple[str | None, ...]) -> str:
        """A backward operator belongs to the module whose constants, mask or value it reads."""
        names = [name for name in inputs if name is not None]
        held = [n for n in names if self.values[n].role in (Role.CONSTANT, Role.PARAMETER)]
        saved = [n for n in names if self.values[n].dtype in (DType.BIT, DType.U8)]
        return next((self.paths[n] for n in [*held, *saved, *names] if self.paths.get(n)), "")

    def _output(
        self, node: fx.Node, index: int, kind: str, path: str, dtypes: tuple[DType, ...] | None
    ) -> str:
        plain = path and path not in self.values and index == 0
        stem = path if plain or (index and node.name in self.joint.paths) else _join(path, kind)
        name = stem if index == 0 else f"{stem}.{_SECOND.get(kind, 'mask')}"
        dtype = _storage(node, index) if dtypes is None else dtypes[index]
        value = Value(self._unused(name), _shape(node, index), dtype)
        self._define(value)
        self.paths[value.name] = path
        return value.name

    def _unused(self, name: str) -> str:
        count, unique = 2, name
        while unique in self.values:
            unique, count = f"{name}_{count}", count + 1
        return unique

    def _define(self, value: Value) -> None:
        self.values[value.name] = value


def _join(path: str, kind: str) -> str:
    return f"{path}.{kind}" if path else kind


def _kind(node: fx.Node) -> str | None:
    """The operator kind of a node of our namespace."""
    space, _, rest = str(node.target).partition(".")
    return rest.partition(".")[0] if space == "trainlet" else None


def _schema(node: fx.Node) -> list[tuple[Any, Any]]:
    """Pairs of schema argument and value, defaults filled in."""
    arguments = cast(Any, node.target)._schema.arguments
    given = list(node.args) + [None] * (len(arguments) - len(node.args))
    pairs = []
    for position, argument in enumerate(arguments):
        value = given[position] if position < len(node.args) else argument.default_value
        pairs.append((argument, node.kwargs.get(argument.name, value)))
    return pairs


def _tensor_arguments(node: fx.Node) -> list[fx.Node | None]:
    """The tensor inputs in order, with None for an optional one that is absent."""
    found: list[fx.Node | None] = []
    for argument, value in _schema(node):
        if "Tensor" not in str(argument.type):
            continue
        if isinstance(value, (list, tuple)):
            found += value
        elif value is None or isinstance(value, fx.Node):
            found.append(value)
    return found


def _attributes(node: fx.Node) -> dict[str, Attribute]:
    """The arguments that are not tensors; what text cannot hold is written as a word."""
    pairs = ((a.name, v) for a, v in _schema(node) if "Tensor" not in str(a.type) and v is not None)
    return {name: _attribute(value) for name, value in pairs}


def _attribute(value: Any) -> Attribute:
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(v, (int, float)) for v in value):
        return tuple(value)
    return str(value)


def _fake(node: fx.Node, index: int = 0) -> Tensor:
    meta: Any = node.meta["val"]
    return cast(Tensor, meta[index] if isinstance(meta, (list, tuple)) else meta)


def _arity(node: fx.Node) -> int:
    meta: Any = node.meta["val"]
    return len(meta) if isinstance(meta, (list, tuple)) else 1


def _shape(node: fx.Node, index: int = 0) -> tuple[int, ...]:
    return tuple(int(extent) for extent in _fake(node, index).shape)


def _storage(node: fx.Node, index: int = 0) -> DType:
    return _STORAGE.get(_fake(node, index).dtype, DType.F32)


def constants_of(graph: Graph) -> Mapping[str, Value]:
    """The values whose data the network holds: constants and parameters."""
    return {v.name: v for v in graph.with_role(Role.CONSTANT, Role.PARAMETER)}
