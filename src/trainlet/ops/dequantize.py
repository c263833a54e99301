# SPDX-License-Identifier: Apache-2.0
"""From int8 features to the float32 that the head reads: (x - zero) * scale."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trainlet.graph import DType, Graph, Op
from trainlet.ops.base import KernelCall, Number, OpDef, Pointer, present, register
from trainlet.ops.clamp import scale_grad
from trainlet.ops.torch_op import torch_op


@torch_op("dequantize")
def dequantize(x: Tensor, scale: float, zero: int) -> Tensor:
    """Real values of integers x; one rounding, that of the float32 product."""
    return (x - zero) * torch.tensor(scale, dtype=torch.float32)


@dequantize.register_fake
def _(x: Tensor, scale: float, zero: int) -> Tensor:
    return torch.empty_like(x)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.scale = float(inputs[1])


def _backward(ctx: Any, gy: Tensor) -> tuple[Tensor, None, None]:
    return scale_grad(gy, None, ctx.scale), None, None


dequantize.register_autograd(_backward, setup_context=_setup)


def _kernel(graph: Graph, op: Op) -> KernelCall:
    return KernelCall(
        function="tl_dequantize_f32",
        source="tl_dequantize_f32.c",
        arguments=(
            Number(graph.values[op.outputs[0]].elements),
            Number(float(op.number("scale"))),
            Number(op.integer("zero")),
            Pointer(op.inputs[0], "int8_t"),
            Pointer(op.outputs[0], "float"),
        ),
    )


register(
    OpDef(
        kind="dequantize",
        inputs=(DType.I8,),
        outputs=(DType.F32,),
        shapes=lambda graph, op: (present(graph.inputs_of(op)[0]).shape,),
        reference=lambda _, op, x: dequantize(x, op.number("scale"), op.integer("zero")),
        kernel=_kernel,
    )
)
