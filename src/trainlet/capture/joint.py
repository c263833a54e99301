# SPDX-License-Identifier: Apache-2.0
"""The one place that knows AOTAutograd: forward and backward of a network as one FX graph.

A parameter that does not require a gradient has no backward operators: the
scheme prunes at the source.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, fx, nn
from torch._functorch._aot_autograd.schemas import GraphSignature
from torch._functorch.aot_autograd import aot_export_module
from torch._subclasses.fake_tensor import FakeTensorMode

from trainlet.capture.paths import record_paths
from trainlet.errors import TrainletError
from trainlet.ops.loss import softmax_cross_entropy


@dataclass(frozen=True)
class Joint:
    """An exported joint graph and what its inputs and outputs are."""

    graph: fx.Graph
    state: dict[str, str]  # placeholder -> parameter or buffer of the network
    image: str
    label: str
    loss: str
    logits: str
    gradients: dict[str, str]  # parameter of the network -> node that is its gradient
    paths: dict[str, str]  # forward node -> path of the module that ran it


class _Step(nn.Module):
    """One training step up to the gradients: loss and logits of an image and a label."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, image: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.network(image)
        loss, _ = softmax_cross_entropy(logits, label)
        return loss, logits.detach()


def export_joint(network: nn.Module, input_shape: tuple[int, ...]) -> Joint:
    """Trace forward and backward of one image; ``input_shape`` is channels, rows, columns."""
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise TrainletError("nothing learns: no parameter of the network requires a gradient")
    step = _Step(network)
    with FakeTensorMode(allow_non_fake_inputs=True):  # shapes alone: nothing is computed
        image = torch.zeros((1, *input_shape), dtype=torch.float32)
        label = torch.zeros((1,), dtype=torch.int64)
        module, signature = export_step(step, (image, label))
        paths = record_paths(network, image, module.graph)
    backward = signature.backward_signature
    assert backward is not None
    state = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    return Joint(
        graph=module.graph,
        state={name: _own(path) for name, path in state.items()},
        image=signature.user_inputs[0],
        label=signature.user_inputs[1],
        loss=signature.user_outputs[0],
        logits=signature.user_outputs[1],
        gradients={_own(p): node for node, p in backward.gradients_to_parameters.items()},
        paths=paths,
    )


def export_step(
    step: nn.Module, arguments: tuple[Tensor, ...]
) -> tuple[fx.GraphModule, GraphSignature]:
    """Forward and backward of a module whose first output is the loss, without mutation.

    Graph inputs: parameters, buffers, arguments. Graph outputs: the new values of the buffers
    that the module mutates, the module's outputs, then a gradient for each parameter.
    """
    module, signature = aot_export_module(step, arguments, trace_joint=True, output_loss_index=0)
    assert isinstance(module, fx.GraphModule)
    return module, signature


def _own(path: str) -> str:
    """The name inside the network of a name inside ``_Step``."""
    return path.removeprefix("network.")
