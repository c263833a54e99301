# SPDX-License-Identifier: Apache-2.0
"""int8 convolution: any kernel, stride, padding and groups, with weights that partly learn.

    acc = bias[o] + sum (x - in_zero) * w            exact, int32 on the device
    y   = clamp(requantize(acc) + out_zero)          see requantize.py
    mask = 1 where the value before the clamp was inside its range

The weight is split along the input channels of a group (depthwise: along the
channels): ``kept`` are those listed in ``channels`` and learn, ``rest`` are
frozen; either may be absent.  Gradients are those of the real-valued layer
with a straight-through estimate of rounding (Lin et al. 2022, eq. 1): with
g = gy * mask * s_x s_w / s_y,  db = sum g,  dx = W^T g,  dW = (x - in_zero) * g.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from trainlet.graph import DType, Graph, Op
from trainlet.ops.base import (
    KernelCall,
    OpDef,
    Overwrite,
    Pointer,
    RunState,
    Scratch,
    register,
)
from trainlet.ops.clamp import clamp_grad
from trainlet.ops.conv2d_grad import conv2d_grad_input, conv2d_grad_weight
from trainlet.ops.geometry import ConvGeometry, assemble_weight
from trainlet.ops.overlap import window_lag
from trainlet.ops.requantize import requantize
from trainlet.ops.select_channels import select_channels
from trainlet.ops.torch_op import torch_op
from trainlet.ops.update import channel_sum
from trainlet.ops.weight_layout import WeightLayout

_EXACT_IN_FLOAT32 = 1 << 24


@torch_op("conv2d")
def conv2d(
    x: Tensor,
    kept: Tensor | None,
    rest: Tensor | None,
    bias: Tensor,
    multiplier: Tensor,
    shift: Tensor | None,
    grad_scale: Tensor,
    channels: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    groups: int,
    in_zero: int,
    out_zero: int,
    clamp_min: int,
    clamp_max: int,
) -> tuple[Tensor, Tensor]:
    """Convolve x [N, C, H, W]; returns y [N, O, H', W'] and its clamp mask (bool).

    ``padding`` is top, left, bottom, right.  ``multiplier`` (and ``shift`` in
    mode tflite) hold one integer an output channel; ``grad_scale`` is
    s_x s_w / s_y, used by the gradient alone.
    """
    weight = assemble_weight(kept, rest, channels, groups, x.shape[1])
    acc = accumulate(x - in_zero, weight, padding, stride, groups) + _per_channel(bias)
    wide = requantize(
        acc, _per_channel(multiplier), None if shift is None else _per_channel(shift), out_zero
    )
    y = wide.clamp(clamp_min, clamp_max)
    return y.to(torch.float32), y == wide


def accumulate(
    centred: Tensor, weight: Tensor, padding: Sequence[int], stride: Sequence[int], groups: int
) -> Tensor:
    """Exact int64 sums of products of integers held in floats.

    float32 is exact while no partial sum can pass 2^24, whatever the order;
    beyond that the sum runs in float64.
    """
    top, left, bottom, right = padding
    centred = F.pad(centred, (left, right, top, bottom)) if any(padding) else centred
    largest = centred.abs().max() * weight.abs().flatten(1).sum(1).max()
    if largest >= _EXACT_IN_FLOAT32:
        centred, weight = centred.double(), weight.double()
    return F.conv2d(centred, weight, stride=list(stride), groups=groups).to(torch.int64)


def _per_channel(values: Tensor) -> Tensor:
    return values.to(torch.int64).view(1, -1, 1, 1)


@conv2d.register_fake
def _(
    x: Tensor, kept: Tensor | None, rest: Tensor | None, bias: Tensor, *args: Any
) -> tuple[Tensor, Tensor]:
    _, _, _, _, stride, padding = args[:6]
    present_weight = kept if kept is not None else rest
    assert present_weight is not None
    rows, columns = (
        (x.shape[2 + axis] + padding[axis] + padding[2 + axis] - present_weight.shape[2 + axis])
        // stride[axis]
        + 1
        for axis in (0, 1)
    )
    y = x.new_empty((x.shape[0], bias.shape[0], rows, columns))
    return y, torch.empty_like(y, dtype=torch.bool)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, kept, rest, _, _, _, grad_scale, channels, stride, padding, groups, in_zero, *_ = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(x, kept, rest, grad_scale, output[1])
    ctx.shape = [int(extent) for extent in x.shape[2:]]
    ctx.attributes = list(channels), list(stride), list(padding), int(groups), int(in_zero)


def _backward(ctx: Any, gy: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    x, kept, rest, grad_scale, mask = ctx.saved_tensors
    channels, stride, padding, groups, in_zero = ctx.attributes
    needs_x, needs_kept, _, needs_bias = ctx.needs_input_grad[:4]
    g = clamp_grad(gy, mask, grad_scale)
    gx = gw = gb = None
    if needs_x:
        gx = conv2d_grad_input(g, kept, rest, channels, stride, padding, groups, ctx.shape)
    if needs_kept:
        depthwise = groups == x.shape[1] == g.shape[1]
        read = select_channels(x, channels, 1 if depthwise else groups) if channels else x
        gw = conv2d_grad_weight(
            g, read, channels, stride, padding, groups, list(kept.shape[2:]), in_zero
        )
    if needs_bias:
        gb = channel_sum(g)
    return gx, gw, None, gb, *[None] * 11


conv2d.register_autograd(_backward, setup_context=_setup)


# ---- definition --------------------------------------------------------------


def _shapes(graph: Graph, op: Op) -> tuple[tuple[int, ...], ...]:
    out = ConvGeometry.of(graph, op).out_shape
    return out, out


def _reference(_: RunState, op: Op, *tensors: Any) -> tuple[Tensor, Tensor]:
    return conv2d(*tensors, **_keywords(op))


def _keywords(op: Op) -> dict[str, Any]:
    names = ("channels", "stride", "padding")
    scalars = ("groups", "in_zero", "out_zero", "clamp_min", "clamp_max")
    return {n: list(op.integers(n)) for n in names} | {n: op.integer(n) for n in scalars}


def _overwrites(graph: Graph, op: Op) -> tuple[Overwrite, ...]:
    conv = ConvGeometry.of(graph, op)
    tile = 0 if conv.depthwise else 4
    lag = window_lag(conv.window, conv.in_c, conv.out_c, tile=tile)
    return (Overwrite(output=0, input=0, lag=lag),)


def _kernel(graph: Graph, op: Op) -> KernelCall:
    conv = ConvGeometry.of(graph, op)
    x, kept, rest, bias, multiplier, shift, _ = op.inputs
    y, mask = op.outputs
    function = f"tl_conv2d_{conv.family}_s8"
    wanted = mask if graph.consumers[mask] or mask in graph.outputs else None
    return KernelCall(
        function=function,
        source=f"{function}.c",
        arguments=(
            conv.struct(
                multiplier=Pointer(multiplier, "int32_t"),
                shift=Pointer(shift, "int8_t"),
                clamp=(op.integer("clamp_min"), op.integer("clamp_max")),
                out_zero=op.integer("out_zero"),
            ),
            Pointer(x, "int8_t"),
            Pointer(kept, "int8_t"),
            Pointer(rest, "int8_t"),
            Pointer(bias, "int32_t"),
            Pointer(y, "int8_t"),
            Pointer(wanted, "uint8_t"),
            Scratch("int16_t"),
        ),
        scratch_bytes=conv.forward_scratch_bytes(),
    )


def _layouts(graph: Graph, op: Op) -> Mapping[int, WeightLayout]:
    return ConvGeometry.of(graph, op).layouts(kept=1, rest=2)


register(
    OpDef(
        kind="conv2d",
        inputs=(DType.I8, DType.I8, DType.I8, DType.I32, DType.I32, DType.I8, DType.F32),
        outputs=(DType.I8, DType.BIT),
        optional=frozenset({1, 2, 5}),
        shapes=_shapes,
        reference=_reference,
        kernel=_kernel,
        macs=lambda graph, op: ConvGeometry.of(graph, op).macs,
        overwrites=_overwrites,
        layouts=_layouts,
    )
)
