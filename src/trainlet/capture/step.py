# SPDX-License-Identifier: Apache-2.0
"""A network becomes one training step: forward, backward and update as a single graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from trainlet.capture.convert import constants_of, convert, gradient_outputs
from trainlet.capture.joint import export_joint
from trainlet.errors import TrainletError
from trainlet.graph import (
    Attribute,
    DType,
    Graph,
    Op,
    Role,
    Value,
    verify,
    without_dead_code,
)
from trainlet.nn import UpdateRule
from trainlet.ops import check_op, is_defined

Tensors = Mapping[str, npt.NDArray[np.generic]]

_NUMPY = {
    DType.I8: np.int8,
    DType.U8: np.uint8,
    DType.I32: np.int32,
    DType.U32: np.uint32,
    DType.F32: np.float32,
}


@dataclass(frozen=True)
class CapturedStep:
    """The graph of a step and the data of its constants and parameters, by value name.

    Outputs of the graph: the loss, the logits, then every updated parameter.
    """

    graph: Graph
    tensors: Tensors


def capture_step(network: nn.Module, input_shape: tuple[int, ...]) -> CapturedStep:
    """Capture the step that trains whatever requires a gradient; one image, SGD.

    Raises ``TrainletError`` listing every operator that has no kernel by module path.
    """
    joint = export_joint(network, input_shape)
    gradients = convert(joint)
    state = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    graph = without_dead_code(
        _with_updates(gradients, gradient_outputs(joint, gradients), _update_rules(network), state)
    )
    _refuse_unsupported(graph)  # first: what they hand on has types that no int8 operator takes
    verify(graph, after="capture", rule=check_op)
    return CapturedStep(graph, MappingProxyType(_tensors(state, graph)))


def _update_rules(network: nn.Module) -> dict[str, UpdateRule]:
    rules = {}
    for path, module in network.named_modules():
        own = getattr(module, "update_rules", None)
        if callable(own):
            prefix = f"{path}." if path else ""
            rules.update({prefix + name: rule for name, rule in own().items()})
    return rules


def _with_updates(
    graph: Graph,
    gradients: Mapping[str, str],
    rules: Mapping[str, UpdateRule],
    state: Mapping[str, Tensor],
) -> Graph:
    """Append the update of every parameter that has a gradient."""
    ops, values = list(graph.ops), list(graph.values.values())
    updated = []
    for tensor, (parameter, gradient) in enumerate(gradients.items()):
        if parameter not in rules:
            raise TrainletError(
                f"parameter '{parameter}' learns, but its module has no update rule"
            )
        rule, old = rules[parameter], graph.values[parameter]
        path = parameter.rpartition(".")[0]
        constants = [f"{path}.{name}" if path else name for name in rule.constants]
        attributes: dict[str, Attribute] = {"tensor": tensor, **rule.attributes}
        new = Value(f"{parameter}.next", old.shape, old.dtype, Role.UPDATED)
        values.append(new)
        values += [_update_constant(name, state[name]) for name in constants]
        inputs = (gradient, parameter, *constants)
        ops.append(Op(rule.kind, inputs, (new.name,), attributes, path))
        updated.append(new.name)
    return Graph.of(graph.name, values, ops, (*graph.outputs[:2], *updated))


def _update_constant(name: str, data: Tensor) -> Value:
    """A scale (float) or a limit (integer), one an output channel."""
    dtype = DType.F32 if data.is_floating_point() else DType.I32
    return Value(name, tuple(data.shape), dtype, Role.CONSTANT)


def _tensors(state: Mapping[str, Tensor], graph: Graph) -> dict[str, npt.NDArray[np.generic]]:
    return {
        name: np.ascontiguousarray(state[name].detach().numpy().astype(_NUMPY[value.dtype]))
        for name, value in constants_of(graph).items()
    }


def _refuse_unsupported(graph: Graph) -> None:
    problems = [
        f"{op.path or '(top level)'}: {op.kind}" for op in graph.ops if not is_defined(op.kind)
    ]
    if problems:
        raise TrainletError.of_all(
            "these operators have no int8 kernel (quantize the network, or keep to PyTorch):",
            dict.fromkeys(problems),
        )
