# SPDX-License-Identifier: Apache-2.0
"""The float32 classifier head: y = W x + b, its gradients, and its fused update.

x may be a map [N, C, H, W]; the weight [O, C * H * W] is in PyTorch's order and
the emitter lays its columns out in the map's order in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from trainlet.graph import DType, Graph, Op
from trainlet.ops.base import (
    KernelCall,
    LearningRate,
    Number,
    OpDef,
    Pointer,
    RunState,
    present,
    register,
)
from trainlet.ops.torch_op import torch_op
from trainlet.ops.weight_layout import ChannelsLast, WeightLayout


@torch_op("linear")
def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Logits [N, O] of x [N, ...] in float32.

    The sum starts from the bias and runs over x in its order in memory, one
    rounding a product and one a sum, so that logits are the kernel's to the bit.
    """
    if x.dim() == 4:
        split = weight.view(-1, *x.shape[1:])
        x, weight = x.permute(0, 2, 3, 1), split.permute(0, 2, 3, 1).flatten(1)
    total = bias.expand(x.shape[0], -1)
    for column, weights in zip(x.flatten(1).t(), weight.t(), strict=True):
        total = total + column.view(-1, 1) * weights
    return total.clone()


@torch_op("linear_grad_input")
def linear_grad_input(g: Tensor, weight: Tensor, shape: list[int]) -> Tensor:
    """Gradient [N, *shape] for x."""
    return (g.double() @ weight.double()).to(torch.float32).reshape(g.shape[0], *shape)


@torch_op("linear_grad_weight")
def linear_grad_weight(g: Tensor, x: Tensor) -> Tensor:
    """Gradient [O, C * H * W], summed over the batch."""
    return (g.double().t() @ x.double().flatten(1)).to(torch.float32)


@torch_op("batch_sum")
def batch_sum(g: Tensor) -> Tensor:
    """Gradient [O] of the head's bias: g summed over the batch."""
    return g.double().sum(0).to(torch.float32)


@linear.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return x.new_empty((x.shape[0], weight.shape[0]))


@linear_grad_input.register_fake
def _(g: Tensor, weight: Tensor, shape: list[int]) -> Tensor:
    return g.new_empty((g.shape[0], *shape))


@linear_grad_weight.register_fake
def _(g: Tensor, x: Tensor) -> Tensor:
    return g.new_empty((g.shape[1], x.shape[1:].numel()))


@batch_sum.register_fake
def _(g: Tensor) -> Tensor:
    return g.new_empty((g.shape[1],))


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, _ = inputs
    ctx.save_for_backward(x, weight)


def _backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
    x, weight = ctx.saved_tensors
    needs_x, needs_weight, needs_bias = ctx.needs_input_grad
    shape = [int(extent) for extent in x.shape[1:]]
    return (
        linear_grad_input(g, weight, shape) if needs_x else None,
        linear_grad_weight(g, x) if needs_weight else None,
        batch_sum(g) if needs_bias else None,
    )


linear.register_autograd(_backward, setup_context=_setup)


# ---- definitions -------------------------------------------------------------------


def _features(shape: tuple[int, ...]) -> int:
    return torch.Size(shape[1:]).numel()


def _columns(position: int, x_shape: tuple[int, ...]) -> Mapping[int, WeightLayout]:
    height, width = (x_shape[2], x_shape[3]) if len(x_shape) == 4 else (1, 1)
    return {position: ChannelsLast(x_shape[1], height, width)}


def _linear_kernel(graph: Graph, op: Op) -> KernelCall:
    x, weight, bias = (present(value) for value in graph.inputs_of(op))
    return KernelCall(
        function="tl_linear_f32",
        source="tl_linear_f32.c",
        arguments=(
            Number(_features(x.shape)),
            Number(weight.shape[0]),
            Pointer(x.name, "float"),
            Pointer(weight.name, "float"),
            Pointer(bias.name, "float"),
            Pointer(op.outputs[0], "float"),
        ),
    )


def _grad_input_kernel(graph: Graph, op: Op) -> KernelCall:
    g, weight = (present(value) for value in graph.inputs_of(op))
    return KernelCall(
        function="tl_linear_grad_input_f32",
        source="tl_linear_grad.c",
        arguments=(
            Number(weight.shape[1]),
            Number(weight.shape[0]),
            Pointer(g.name, "float"),
            Pointer(weight.name, "float"),
            Pointer(op.outputs[0], "float"),
        ),
    )


def _grad_weight_kernel(graph: Graph, op: Op) -> KernelCall:
    g, x = (present(value) for value in graph.inputs_of(op)[:2])
    sizes = (Number(_features(x.shape)), Number(g.shape[1]))
    reads = (Pointer(g.name, "float"), Pointer(x.name, "float"))
    if op.kind == "linear_sgd":
        rate, weight = LearningRate(head=bool(op.integer("head"))), Pointer(op.inputs[2], "float")
        return KernelCall("tl_linear_sgd_f32", "tl_linear_grad.c", (*sizes, rate, *reads, weight))
    made = Pointer(op.outputs[0], "float")
    return KernelCall("tl_linear_grad_weight_f32", "tl_linear_grad.c", (*sizes, *reads, made))


def _weight_shape(graph: Graph, op: Op) -> tuple[tuple[int, ...], ...]:
    g, x = (present(value) for value in graph.inputs_of(op)[:2])
    return ((g.shape[1], _features(x.shape)),)


def _weight_macs(graph: Graph, op: Op) -> int:
    return torch.Size(graph.values[op.outputs[0]].shape).numel()


def _sgd_reference(state: RunState, op: Op, g: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    rate = state.head_learning_rate if op.integer("head") else state.learning_rate
    return weight - linear_grad_weight(g, x) * torch.tensor(rate, dtype=torch.float32)


register(
    OpDef(
        kind="linear",
        inputs=(DType.F32, DType.F32, DType.F32),
        outputs=(DType.F32,),
        shapes=lambda graph, op: ((1, present(graph.inputs_of(op)[1]).shape[0]),),
        reference=lambda _, __, x, weight, bias: linear(x, weight, bias),
        kernel=_linear_kernel,
        macs=lambda graph, op: present(graph.inputs_of(op)[1]).elements,
        layouts=lambda graph, op: _columns(1, present(graph.inputs_of(op)[0]).shape),
    )
)
register(
    OpDef(
        kind="linear_grad_input",
        inputs=(DType.F32, DType.F32),
        outputs=(DType.F32,),
        shapes=lambda _, op: ((1, *op.integers("shape")),),
        reference=lambda _, op, g, weight: linear_grad_input(g, weight, list(op.integers("shape"))),
        kernel=_grad_input_kernel,
        macs=lambda graph, op: present(graph.inputs_of(op)[1]).elements,
        layouts=lambda graph, op: _columns(1, graph.values[op.outputs[0]].shape),
        backward=True,
    )
)
register(
    OpDef(
        kind="linear_grad_weight",
        inputs=(DType.F32, DType.F32),
        outputs=(DType.F32,),
        shapes=_weight_shape,
        reference=lambda _, __, g, x: linear_grad_weight(g, x),
        kernel=_grad_weight_kernel,
        macs=_weight_macs,
        backward=True,
    )
)
register(
    OpDef(
        kind="linear_sgd",
        inputs=(DType.F32, DType.F32, DType.F32),
        outputs=(DType.F32,),
        shapes=_weight_shape,
        reference=_sgd_reference,
        kernel=_grad_weight_kernel,
        macs=_weight_macs,
        layouts=lambda graph, op: _columns(2, present(graph.inputs_of(op)[1]).shape),
        backward=True,
    )
)


def _batch_sum_kernel(graph: Graph, op: Op) -> KernelCall:
    raise AssertionError(f"{op} is the identity on a batch of one and is removed before emission")


register(
    OpDef(
        kind="batch_sum",
        inputs=(DType.F32,),
        outputs=(DType.F32,),
        shapes=lambda graph, op: ((present(graph.inputs_of(op)[0]).shape[1],),),
        reference=lambda _, __, g: batch_sum(g),
        kernel=_batch_sum_kernel,
        backward=True,
    )
)
