# SPDX-License-Identifier: Apache-2.0
"""SGD with quantization-aware scaling, on the integers themselves.

    delta = -(gradient * scale) * learning_rate        float32, in this order
    value = saturate(value + floor(delta + u))         u in [0, 1) from random.py

``scale`` is 1 / s_w^2 for a weight and 1 / (s_w s_x)^2 for a bias, one an
output channel (Lin et al. 2022, eq. 4), and 0 for a dead channel.  An int8
weight saturates at +-127, an int32 bias at its limit, which keeps the
accumulator of its convolution inside int32.  Float parameters of the head
take a plain step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trainlet.graph import DType, Graph, Op
from trainlet.ops.base import (
    KernelCall,
    LearningRate,
    Number,
    OpDef,
    Overwrite,
    Pointer,
    RunState,
    Sgd,
    present,
    register,
)
from trainlet.ops.random import key, stochastic_round, uniform
from trainlet.ops.torch_op import torch_op

WEIGHT_LIMIT = 127


@torch_op("channel_sum")
def channel_sum(g: Tensor) -> Tensor:
    """Sum of g [N, C, H, W] over all but the channels; [C] in float64, the bias's own type."""
    return g.double().sum(dim=(0, 2, 3)).to(torch.float32).double()


@channel_sum.register_fake
def _(g: Tensor) -> Tensor:
    return g.new_empty((g.shape[1],), dtype=torch.float64)


def sgd_weight_reference(
    state: RunState, tensor: int, gradient: Tensor, weight: Tensor, scale: Tensor
) -> Tensor:
    """One step of an int8 weight (integers in float32) with one scale an output channel."""
    wide = scale.view(-1, *[1] * (weight.dim() - 1))
    step = _rounded_step(state, tensor, gradient.float(), wide)
    return (weight.long() + step).clamp(-WEIGHT_LIMIT, WEIGHT_LIMIT).to(weight.dtype)


def sgd_bias_reference(
    state: RunState, tensor: int, gradient: Tensor, bias: Tensor, scale: Tensor, limit: Tensor
) -> Tensor:
    """One step of an int32 bias (integers in float64), kept within +-limit."""
    stepped = bias.long() + _rounded_step(state, tensor, gradient.float(), scale)
    return torch.maximum(torch.minimum(stepped, limit.long()), -limit.long()).to(bias.dtype)


def _rounded_step(state: RunState, tensor: int, gradient: Tensor, scale: Tensor) -> Tensor:
    rate = torch.tensor(state.learning_rate, dtype=torch.float32)
    delta = -(gradient * scale) * rate
    u = uniform(key(state.seed, state.step, tensor), delta.numel()).view(delta.shape)
    return stochastic_round(delta, u)


# ---- definitions --------------------------------------------------------------------


def _channels(graph: Graph, op: Op) -> tuple[tuple[int, ...], ...]:
    return ((present(graph.inputs_of(op)[0]).shape[1],),)


def _same_as(position: int) -> Any:
    return lambda graph, op: (present(graph.inputs_of(op)[position]).shape,)


def _sum_arguments(graph: Graph, op: Op) -> tuple[Number, Number]:
    g = present(graph.inputs_of(op)[0])
    return Number(g.elements // g.shape[1]), Number(g.shape[1])


def _sum_kernel(graph: Graph, op: Op) -> KernelCall:
    return KernelCall(
        function="tl_channel_sum_f32",
        source="tl_channel_sum.c",
        arguments=(
            *_sum_arguments(graph, op),
            Pointer(op.inputs[0], "float"),
            Pointer(op.outputs[0], "float"),
        ),
    )


def _sum_sgd_kernel(graph: Graph, op: Op) -> KernelCall:
    g, bias, scale, limit = op.inputs
    return KernelCall(
        function="tl_channel_sum_sgd_s32",
        source="tl_channel_sum.c",
        arguments=(
            *_sum_arguments(graph, op),
            Sgd(Pointer(scale, "float"), op.integer("tensor")),
            Pointer(limit, "int32_t"),
            Pointer(g, "float"),
            Pointer(bias, "int32_t"),
        ),
    )


def _sgd_f32_reference(state: RunState, op: Op, g: Tensor, value: Tensor) -> Tensor:
    rate = state.head_learning_rate if op.integer("head") else state.learning_rate
    return value - g.view_as(value) * torch.tensor(rate, dtype=torch.float32)


def _sgd_f32_kernel(graph: Graph, op: Op) -> KernelCall:
    g, value = op.inputs
    return KernelCall(
        function="tl_sgd_f32",
        source="tl_sgd_f32.c",
        arguments=(
            Number(graph.values[op.outputs[0]].elements),
            LearningRate(head=bool(op.integer("head"))),
            Pointer(g, "float"),
            Pointer(value, "float"),
        ),
    )


def _unfused(graph: Graph, op: Op) -> KernelCall:
    raise AssertionError(f"{op} must be fused into its gradient before it is emitted")


register(
    OpDef(
        kind="channel_sum",
        inputs=(DType.F32,),
        outputs=(DType.F32,),
        shapes=_channels,
        reference=lambda _, __, g: channel_sum(g),
        kernel=_sum_kernel,
        backward=True,
    )
)
register(
    OpDef(
        kind="channel_sum_sgd",
        inputs=(DType.F32, DType.I32, DType.F32, DType.I32),
        outputs=(DType.I32,),
        shapes=_same_as(1),
        reference=lambda state, op, g, *rest: sgd_bias_reference(
            state, op.integer("tensor"), channel_sum(g), *rest
        ),
        kernel=_sum_sgd_kernel,
        backward=True,
    )
)
register(
    OpDef(
        kind="sgd_weight",
        inputs=(DType.F32, DType.I8, DType.F32),
        outputs=(DType.I8,),
        shapes=_same_as(1),
        reference=lambda state, op, g, weight, scale: sgd_weight_reference(
            state, op.integer("tensor"), g, weight, _own(op, scale)
        ),
        kernel=_unfused,
        backward=True,
    )
)
register(
    OpDef(
        kind="sgd_bias",
        inputs=(DType.F32, DType.I32, DType.F32, DType.I32),
        outputs=(DType.I32,),
        shapes=_same_as(1),
        reference=lambda state, op, *tensors: sgd_bias_reference(
            state, op.integer("tensor"), *tensors
        ),
        kernel=_unfused,
        backward=True,
    )
)
register(
    OpDef(
        kind="sgd_f32",
        inputs=(DType.F32, DType.F32),
        outputs=(DType.F32,),
        shapes=_same_as(1),
        reference=_sgd_f32_reference,
        kernel=_sgd_f32_kernel,
        overwrites=lambda _, __: (Overwrite(output=0, input=0, lag=0),),
        backward=True,
    )
)


def _own(op: Op, scale: Tensor) -> Tensor:
    """The scales of the kept channels of a partly learning depthwise weight."""
    channels = op.integers("channels")
    return scale[list(channels)] if channels else scale
