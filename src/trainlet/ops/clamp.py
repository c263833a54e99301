# SPDX-License-Identifier: Apache-2.0
"""Clamp (ReLU, ReLU6) on int8, and the gradient of every clamp: a mask of one bit an element."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trainlet.graph import DType, Graph, Op
from trainlet.ops.base import (
    KernelCall,
    Number,
    OpDef,
    Overwrite,
    Pointer,
    RunState,
    present,
    register,
)
from trainlet.ops.torch_op import torch_op


@torch_op("clamp")
def clamp(x: Tensor, clamp_min: int, clamp_max: int) -> tuple[Tensor, Tensor]:
    """Clamp integers to [clamp_min, clamp_max]; returns y and the mask (bool) of those inside."""
    y = x.clamp(clamp_min, clamp_max)
    return y, y == x


@clamp.register_fake
def _(x: Tensor, clamp_min: int, clamp_max: int) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), torch.empty_like(x, dtype=torch.bool)


@torch_op("clamp_grad")
def clamp_grad(gy: Tensor, mask: Tensor, scale: Tensor) -> Tensor:
    """``gy * scale[channel]`` where the mask is set, else 0; gy [N, C, H, W], scale [C]."""
    return torch.where(mask, gy * scale.view(1, -1, 1, 1), torch.zeros((), dtype=gy.dtype))


@clamp_grad.register_fake
def _(gy: Tensor, mask: Tensor, scale: Tensor) -> Tensor:
    return torch.empty_like(gy)


@torch_op("scale_grad")
def scale_grad(gy: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """``gy * scale`` (in float32) where the mask is set, else 0; no mask passes everything."""
    scaled = gy * torch.tensor(scale, dtype=torch.float32)
    return scaled if mask is None else torch.where(mask, scaled, torch.zeros((), dtype=gy.dtype))


@scale_grad.register_fake
def _(gy: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    return torch.empty_like(gy)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(output[1])


def _backward(ctx: Any, gy: Tensor, _: Tensor | None) -> tuple[Tensor, None, None]:
    return scale_grad(gy, ctx.saved_tensors[0], 1.0), None, None


clamp.register_autograd(_backward, setup_context=_setup)


# ---- definitions ---------------------------------------------------------------


def _same_shape(graph: Graph, op: Op) -> tuple[tuple[int, ...], ...]:
    shape = present(graph.inputs_of(op)[0]).shape
    return (shape,) * len(op.outputs)


def _in_place(_: Graph, __: Op) -> tuple[Overwrite, ...]:
    return (Overwrite(output=0, input=0, lag=0),)


def _clamp_reference(_: RunState, op: Op, x: Tensor) -> tuple[Tensor, Tensor]:
    return clamp(x, op.integer("clamp_min"), op.integer("clamp_max"))


def _clamp_kernel(graph: Graph, op: Op) -> KernelCall:
    y, mask = op.outputs
    wanted = mask if graph.consumers[mask] or mask in graph.outputs else None
    return KernelCall(
        function="tl_clamp_s8",
        source="tl_clamp_s8.c",
        arguments=(
            Number(graph.values[y].elements),
            Number(op.integer("clamp_min")),
            Number(op.integer("clamp_max")),
            Pointer(op.inputs[0], "int8_t"),
            Pointer(y, "int8_t"),
            Pointer(wanted, "uint8_t"),
        ),
    )


def _clamp_grad_kernel(graph: Graph, op: Op) -> KernelCall:
    gy, mask, scale = op.inputs
    value = graph.values[op.outputs[0]]
    channels = value.shape[1]
    return KernelCall(
        function="tl_clamp_grad_f32",
        source="tl_clamp_grad_f32.c",
        arguments=(
            Number(value.elements // channels),
            Number(channels),
            Pointer(scale, "float"),
            Pointer(mask, "uint8_t"),
            Pointer(gy, "float"),
            Pointer(value.name, "float"),
        ),
    )


def _scale_grad_kernel(graph: Graph, op: Op) -> KernelCall:
    gy, mask = op.inputs
    value = graph.values[op.outputs[0]]
    return KernelCall(
        function="tl_scale_grad_f32",
        source="tl_scale_grad_f32.c",
        arguments=(
            Number(value.elements),
            Number(float(op.number("scale"))),
            Pointer(mask, "uint8_t"),
            Pointer(gy, "float"),
            Pointer(value.name, "float"),
        ),
    )


register(
    OpDef(
        kind="clamp",
        inputs=(DType.I8,),
        outputs=(DType.I8, DType.BIT),
        shapes=_same_shape,
        reference=_clamp_reference,
        kernel=_clamp_kernel,
        overwrites=_in_place,
    )
)
register(
    OpDef(
        kind="clamp_grad",
        inputs=(DType.F32, DType.BIT, DType.F32),
        outputs=(DType.F32,),
        shapes=_same_shape,
        reference=lambda _, __, gy, mask, scale: clamp_grad(gy, mask, scale),
        kernel=_clamp_grad_kernel,
        overwrites=_in_place,
        backward=True,
    )
)
register(
    OpDef(
        kind="scale_grad",
        inputs=(DType.F32, DType.BIT),
        outputs=(DType.F32,),
        optional=frozenset({1}),
        shapes=_same_shape,
        reference=lambda _, op, gy, mask: scale_grad(gy, mask, op.number("scale")),
        kernel=_scale_grad_kernel,
        overwrites=_in_place,
        backward=True,
    )
)
