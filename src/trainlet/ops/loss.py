# SPDX-License-Identifier: Apache-2.0
"""Softmax cross-entropy: loss = log(sum exp(z - max)) - (z[label] - max), averaged over a batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trainlet.graph import DType, Graph, Op
from trainlet.ops.base import (
    KernelCall,
    Label,
    Number,
    OpDef,
    Overwrite,
    Pointer,
    RunState,
    present,
    register,
)
from trainlet.ops.torch_op import torch_op


@torch_op("softmax_cross_entropy")
def softmax_cross_entropy(logits: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
    """Mean loss (scalar) and probabilities [N, O] of logits [N, O] and labels [N] (int64)."""
    logs = torch.log_softmax(logits.double(), dim=1)
    loss = -logs.gather(1, label.view(-1, 1)).mean()
    return loss.to(torch.float32), logs.exp().to(torch.float32)


@torch_op("softmax_cross_entropy_grad")
def softmax_cross_entropy_grad(seed: Tensor, probabilities: Tensor, label: Tensor) -> Tensor:
    """(probabilities - onehot(label)) / N, times the gradient ``seed`` of the loss."""
    one_hot = torch.nn.functional.one_hot(label, probabilities.shape[1])
    return (probabilities - one_hot) / probabilities.shape[0] * seed


@softmax_cross_entropy.register_fake
def _(logits: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
    return logits.new_empty(()), torch.empty_like(logits)


@softmax_cross_entropy_grad.register_fake
def _(seed: Tensor, probabilities: Tensor, label: Tensor) -> Tensor:
    return torch.empty_like(probabilities)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(output[1], inputs[1])


def _backward(ctx: Any, seed: Tensor, _: Tensor | None) -> tuple[Tensor, None]:
    probabilities, label = ctx.saved_tensors
    return softmax_cross_entropy_grad(seed, probabilities, label), None


softmax_cross_entropy.register_autograd(_backward, setup_context=_setup)


# ---- definitions -----------------------------------------------------------------------


def _kernel(graph: Graph, op: Op) -> KernelCall:
    logits = present(graph.inputs_of(op)[0])
    return KernelCall(
        function="tl_softmax_cross_entropy_f32",
        source="tl_softmax_cross_entropy_f32.c",
        arguments=(
            Number(logits.elements),
            Pointer(logits.name, "float"),
            Label(),
            Pointer(op.outputs[1], "float"),
        ),
        result=op.outputs[0],
    )


def _grad_kernel(graph: Graph, op: Op) -> KernelCall:
    probabilities = present(graph.inputs_of(op)[0])
    return KernelCall(
        function="tl_softmax_cross_entropy_grad_f32",
        source="tl_softmax_cross_entropy_f32.c",
        arguments=(
            Number(probabilities.elements),
            Pointer(probabilities.name, "float"),
            Label(),
            Pointer(op.outputs[0], "float"),
        ),
    )


def _loss_shapes(graph: Graph, op: Op) -> tuple[tuple[int, ...], ...]:
    return (), present(graph.inputs_of(op)[0]).shape


def _grad_reference(_: RunState, __: Op, probabilities: Tensor, label: Tensor) -> Tensor:
    return softmax_cross_entropy_grad(torch.ones(()), probabilities, label)


register(
    OpDef(
        kind="softmax_cross_entropy",
        inputs=(DType.F32, DType.U32),
        outputs=(DType.F32, DType.F32),
        shapes=_loss_shapes,
        reference=lambda _, __, logits, label: softmax_cross_entropy(logits, label),
        kernel=_kernel,
    )
)
register(
    OpDef(
        kind="softmax_cross_entropy_grad",
        inputs=(DType.F32, DType.U32),
        outputs=(DType.F32,),
        shapes=lambda graph, op: (present(graph.inputs_of(op)[0]).shape,),
        reference=_grad_reference,
        kernel=_grad_kernel,
        overwrites=lambda _, __: (Overwrite(output=0, input=0, lag=0),),
        backward=True,
    )
)
