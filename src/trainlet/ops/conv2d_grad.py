# SPDX-License-Identifier: Apache-2.0
"""Gradients of the int8 convolution in float32: for its input and for the weights that learn.

Both take g, the gradient before the requantization (see clamp_grad).  The
references sum in float64 and round once; the kernels sum in float32 in a
written-out order, so the two agree to rounding, and kernels among themselves
to the bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.grad import conv2d_input, conv2d_weight

from trainlet.graph import DType, Graph, Op
from trainlet.ops.base import (
    KernelCall,
    OpDef,
    Overwrite,
    Pointer,
    Scratch,
    Sgd,
    present,
    register,
)
from trainlet.ops.geometry import ConvGeometry, assemble_weight, is_depthwise
from trainlet.ops.torch_op import torch_op
from trainlet.ops.update import sgd_weight_reference
from trainlet.ops.weight_layout import WeightLayout


@torch_op("conv2d_grad_input")
def conv2d_grad_input(
    g: Tensor,
    kept: Tensor | None,
    rest: Tensor | None,
    channels: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    groups: int,
    shape: Sequence[int],
) -> Tensor:
    """Gradient [N, C, H, W] for the input of rows and columns ``shape``; g [N, O, H', W']."""
    part = kept if kept is not None else rest
    assert part is not None
    in_c = _input_channels(part, kept, rest, groups, g.shape[1])
    weight = assemble_weight(kept, rest, channels, groups, in_c)
    top, left, bottom, right = padding
    padded = (g.shape[0], in_c, shape[0] + top + bottom, shape[1] + left + right)
    whole: Tensor = conv2d_input(
        padded, weight.double(), g.double(), stride=tuple(stride), groups=groups
    )
    return whole[:, :, top : top + shape[0], left : left + shape[1]].to(torch.float32)


def _input_channels(
    part: Tensor, kept: Tensor | None, rest: Tensor | None, groups: int, out_c: int
) -> int:
    split = kept is not None and rest is not None
    total = sum(p.shape[1] for p in (kept, rest) if p is not None)
    if split and groups > 1 and part.shape[1] == 1:
        rows = sum(p.shape[0] for p in (kept, rest) if p is not None)
        if rows == out_c and groups == out_c:
            return out_c
    return total * groups


@conv2d_grad_input.register_fake
def _(
    g: Tensor,
    kept: Tensor | None,
    rest: Tensor | None,
    channels: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    groups: int,
    shape: Sequence[int],
) -> Tensor:
    part = kept if kept is not None else rest
    assert part is not None
    in_c = _input_channels(part, kept, rest, groups, int(g.shape[1]))
    return g.new_empty((g.shape[0], in_c, *shape))


@torch_op("conv2d_grad_weight")
def conv2d_grad_weight(
    g: Tensor,
    x: Tensor,
    channels: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    groups: int,
    kernel: Sequence[int],
    in_zero: int,
) -> Tensor:
    """Gradient of the kept weights; x holds their input channels alone (see select_channels)."""
    top, left, bottom, right = padding
    centred = F.pad((x - in_zero).double(), (left, right, top, bottom))
    wide = g.double()
    if _selects_depthwise(x, channels, groups):
        wide, groups = wide.index_select(1, torch.tensor(list(channels))), len(channels)
    size = (wide.shape[1], centred.shape[1] // groups, *kernel)
    rows, columns = ((wide.shape[2 + axis] - 1) * stride[axis] + kernel[axis] for axis in (0, 1))
    gw: Tensor = conv2d_weight(
        centred[:, :, :rows, :columns], size, wide, stride=tuple(stride), groups=groups
    )
    return gw.to(torch.float32)


@conv2d_grad_weight.register_fake
def _(
    g: Tensor,
    x: Tensor,
    channels: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    groups: int,
    kernel: Sequence[int],
    in_zero: int,
) -> Tensor:
    if _selects_depthwise(x, channels, groups):
        return g.new_empty((len(channels), 1, *kernel))
    return g.new_empty((g.shape[1], x.shape[1] // groups, *kernel))


def _selects_depthwise(x: Tensor, channels: Sequence[int], groups: int) -> bool:
    """Whether x holds some channels of a depthwise map (a general one has groups times as many)."""
    return groups > 1 and len(channels) > 0 and x.shape[1] == len(channels)


# ---- definitions -----------------------------------------------------------------


def _input_geometry(graph: Graph, op: Op) -> ConvGeometry:
    g, kept, rest = graph.inputs_of(op)
    g, part = present(g), present(kept if kept is not None else rest)
    gx = graph.values[op.outputs[0]]
    stride, padding = op.integers("stride"), op.integers("padding")
    groups = op.integer("groups")
    axis = 0 if is_depthwise(groups, gx.shape[1], g.shape[1]) else 1
    return ConvGeometry(
        in_h=gx.shape[2],
        in_w=gx.shape[3],
        in_c=gx.shape[1],
        out_h=g.shape[2],
        out_w=g.shape[3],
        out_c=g.shape[1],
        kernel=(part.shape[2], part.shape[3]),
        stride=(stride[0], stride[1]),
        padding=(padding[0], padding[1], padding[2], padding[3]),
        groups=groups,
        in_zero=0,
        kept=0 if kept is None else kept.shape[axis],
        channels=op.integers("channels"),
    )


def _input_shapes(graph: Graph, op: Op) -> tuple[tuple[int, ...], ...]:
    conv = _input_geometry(graph, op)
    return ((1, conv.in_c, *op.integers("shape")),)


def _input_kernel(graph: Graph, op: Op) -> KernelCall:
    conv = _input_geometry(graph, op)
    g, kept, rest = op.inputs
    function = f"tl_conv2d_{conv.family}_grad_input_f32"
    return KernelCall(
        function=function,
        source=f"{function}.c",
        arguments=(
            conv.struct(),
            Pointer(g, "float"),
            Pointer(kept, "int8_t"),
            Pointer(rest, "int8_t"),
            Pointer(op.outputs[0], "float"),
            Scratch("float"),
        ),
        scratch_bytes=conv.grad_input_scratch_bytes(),
    )


def _input_overwrites(graph: Graph, op: Op) -> tuple[Overwrite, ...]:
    conv = _input_geometry(graph, op)
    same = (conv.in_h, conv.in_w) == (conv.out_h, conv.out_w)
    if conv.depthwise and conv.stride == (1, 1) and same:
        return (Overwrite(output=0, input=0, lag=0),)
    return ()


def _weight_geometry(graph: Graph, op: Op) -> ConvGeometry:
    g, x = (present(value) for value in graph.inputs_of(op)[:2])
    channels, groups = op.integers("channels"), op.integer("groups")
    stride, padding = op.integers("stride"), op.integers("padding")
    kernel = op.integers("kernel")
    some_of_depthwise = groups > 1 and len(channels) > 0 and x.shape[1] == len(channels)
    depthwise = some_of_depthwise or is_depthwise(groups, x.shape[1], g.shape[1])
    return ConvGeometry(
        in_h=x.shape[2],
        in_w=x.shape[3],
        in_c=g.shape[1] if depthwise else x.shape[1],
        out_h=g.shape[2],
        out_w=g.shape[3],
        out_c=g.shape[1],
        kernel=(kernel[0], kernel[1]),
        stride=(stride[0], stride[1]),
        padding=(padding[0], padding[1], padding[2], padding[3]),
        groups=groups,
        in_zero=op.integer("in_zero"),
        kept=x.shape[1] if depthwise else x.shape[1] // groups,
        channels=channels if depthwise else (),
    )


def _weight_shapes(graph: Graph, op: Op) -> tuple[tuple[int, ...], ...]:
    conv = _weight_geometry(graph, op)
    first = conv.kept if conv.depthwise else conv.out_c
    return ((first, 1 if conv.depthwise else conv.kept, *conv.kernel),)


def _weight_kernel(graph: Graph, op: Op) -> KernelCall:
    conv = _weight_geometry(graph, op)
    g, x = op.inputs
    return KernelCall(
        function=f"tl_conv2d_{conv.family}_grad_weight_f32",
        source=f"tl_conv2d_{conv.family}_grad_weight.c",
        arguments=(
            conv.struct(),
            Pointer(g, "float"),
            Pointer(x, "int8_t"),
            Pointer(op.outputs[0], "float"),
            Scratch("float"),
        ),
        scratch_bytes=conv.grad_weight_scratch_bytes(),
    )


def _weight_macs(graph: Graph, op: Op) -> int:
    conv = _weight_geometry(graph, op)
    taps = conv.kernel[0] * conv.kernel[1]
    columns = conv.kept if conv.depthwise else conv.out_c * conv.kept
    return conv.out_h * conv.out_w * taps * columns


def _weight_reference(_: Any, op: Op, g: Tensor, x: Tensor) -> Tensor:
    names = ("channels", "stride", "padding", "groups", "kernel", "in_zero")
    values: dict[str, Any] = {
        n: list(v) if isinstance(v := op.attributes[n], tuple) else v for n in names
    }
    return conv2d_grad_weight(g, x, **values)


def _input_reference(_: Any, op: Op, g: Tensor, kept: Tensor | None, rest: Tensor | None) -> Tensor:
    names = ("channels", "stride", "padding", "groups", "shape")
    values: dict[str, Any] = {
        n: list(v) if isinstance(v := op.attributes[n], tuple) else v for n in names
    }
    return conv2d_grad_input(g, kept, rest, **values)


def _sgd_kernel(graph: Graph, op: Op) -> KernelCall:
    conv = _weight_geometry(graph, op)
    g, x, weight, scale = op.inputs
    return KernelCall(
        function=f"tl_conv2d_{conv.family}_sgd_s8",
        source=f"tl_conv2d_{conv.family}_grad_weight.c",
        arguments=(
            conv.struct(),
            Sgd(Pointer(scale, "float"), op.integer("tensor")),
            Pointer(g, "float"),
            Pointer(x, "int8_t"),
            Pointer(weight, "int8_t"),
            Scratch("float"),
        ),
        scratch_bytes=conv.grad_weight_scratch_bytes(),
    )


def _sgd_reference(
    state: Any, op: Op, g: Tensor, x: Tensor, weight: Tensor, scale: Tensor
) -> Tensor:
    gradient = _weight_reference(state, op, g, x)
    depthwise = _selects_depthwise(x, op.integers("channels"), op.integer("groups"))
    own = scale[list(op.integers("channels"))] if depthwise else scale
    return sgd_weight_reference(state, op.integer("tensor"), gradient, weight, own)


def _sgd_layouts(graph: Graph, op: Op) -> Mapping[int, WeightLayout]:
    conv = _weight_geometry(graph, op)
    return {2: replace(conv, channels=()).layouts(kept=2, rest=-1)[2]}


register(
    OpDef(
        kind="conv2d_grad_input",
        inputs=(DType.F32, DType.I8, DType.I8),
        outputs=(DType.F32,),
        optional=frozenset({1, 2}),
        shapes=_input_shapes,
        reference=_input_reference,
        kernel=_input_kernel,
        macs=lambda graph, op: _input_geometry(graph, op).macs,
        overwrites=_input_overwrites,
        layouts=lambda graph, op: _input_geometry(graph, op).layouts(kept=1, rest=2),
        backward=True,
    )
)
register(
    OpDef(
        kind="conv2d_grad_weight",
        inputs=(DType.F32, DType.I8),
        outputs=(DType.F32,),
        shapes=_weight_shapes,
        reference=_weight_reference,
        kernel=_weight_kernel,
        macs=_weight_macs,
        backward=True,
    )
)
register(
    OpDef(
        kind="conv2d_sgd",
        inputs=(DType.F32, DType.I8, DType.I8, DType.F32),
        outputs=(DType.I8,),
        shapes=_weight_shapes,
        reference=_sgd_reference,
        kernel=_sgd_kernel,
        macs=_weight_macs,
        layouts=_sgd_layouts,
        backward=True,
    )
)
