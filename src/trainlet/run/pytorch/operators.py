# SPDX-License-Identifier: Apache-2.0
"""What an aten operator does with memory, read from its schema."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor, fx

from trainlet.errors import TrainletError

# Returns its input's memory although the schema does not say so.
_SECRET_VIEWS = frozenset({"aten::_unsafe_view"})

# Results whose bytes PyTorch tells only when it has run: nn.LSTM's own CPU kernel.
_UNKNOWN_BYTES = frozenset({"aten::mkldnn_rnn_layer"})


def schema_of(node: fx.Node) -> Any:
    """The schema of the operator that a node calls.

    Raises:
        TrainletError: it is no plain operator, or it mutates its input.
    """
    schema = getattr(node.target, "_schema", None)
    if not isinstance(node.target, torch._ops.OpOverload) or schema is None:
        inner = [str(a) for a in node.args if isinstance(a, torch._ops.OpOverload)]
        name = f"{inner[0]} (by way of {node.target})" if inner else str(node.target)
        raise TrainletError(
            f"the model cannot be planned: {name} is no functional operator; an operator that "
            "mutates its input, or calls back into Python, cannot be replayed"
        )
    if schema.is_mutable:
        raise TrainletError(
            f"the model cannot be planned: {node.target} mutates its input, and PyTorch has not "
            "turned it into an operator that does not"
        )
    if schema.name in _UNKNOWN_BYTES:
        raise TrainletError(
            f"the model cannot be planned: {node.target} does not tell the bytes of its workspace; "
            "write nn.LSTM as nn.LSTMCell, or capture within torch.backends.mkldnn.flags(False)"
        )
    return schema


def is_item(node: fx.Node) -> bool:
    """Whether a node picks one of several results."""
    return node.target is operator.getitem


def is_view(node: fx.Node) -> bool:
    """Whether the result shares the memory of an input."""
    if is_item(node):
        return is_view(cast(fx.Node, node.args[0]))
    if node.op != "call_function":
        return False
    schema = schema_of(node)
    return schema.name in _SECRET_VIEWS or any(r.alias_info is not None for r in schema.returns)


def is_random(node: fx.Node) -> bool:
    """Whether the operator draws from the generator."""
    tags = getattr(node.target, "tags", ())
    return torch.Tag.nondeterministic_seeded in tags


def kind_of(node: fx.Node) -> str:
    """The operator's name, with its library where that is not PyTorch's."""
    space, _, name = str(schema_of(node).name).partition("::")
    return name if space == "aten" else f"{space}.{name}"


def results_of(node: fx.Node) -> Iterator[tuple[int | None, Tensor]]:
    """Position (None for a single result) and shape-only tensor of every result that exists."""
    value: Any = node.meta.get("val")
    if isinstance(value, Tensor):
        yield None, value
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            if isinstance(item, Tensor):
                yield index, item


def storage_bytes(tensor: Tensor) -> int:
    """Bytes of the memory block behind a tensor."""
    return int(tensor.untyped_storage().nbytes())
