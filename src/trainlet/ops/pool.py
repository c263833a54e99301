# SPDX-License-Identifier: Apache-2.0
"""Average and maximum pooling of int8 maps and their float32 gradients.

Windows are clipped at the map's border: the average divides by the number of
real elements, rounded half away from zero as TFLite does.  Input and output
share scale and zero point, so nothing is requantized or clamped.  The maximum
keeps, for its gradient, the position of the first largest element in its
window (one byte an output).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from trainlet.graph import DType, Graph, Op
from trainlet.ops.base import (
    Argument,
    KernelCall,
    OpDef,
    Overwrite,
    Pointer,
    RunState,
    Struct,
    present,
    register,
)
from trainlet.ops.overlap import Window, window_lag
from trainlet.ops.torch_op import torch_op

_LOWEST = -1.0e9


def _extent(size: int, kernel: int, stride: int, before: int, after: int) -> int:
    return (size + before + after - kernel) // stride + 1


def _patches(
    x: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], fill: float
) -> Tensor:
    """Windows as [N, C, kh * kw, H' * W'], padded with ``fill``."""
    top, left, bottom, right = padding
    padded = F.pad(x, (left, right, top, bottom), value=fill)
    flat = F.unfold(padded, tuple(kernel), stride=tuple(stride))
    return flat.view(x.shape[0], x.shape[1], kernel[0] * kernel[1], -1)


def _counts(
    x: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> Tensor:
    return _patches(torch.ones_like(x), kernel, stride, padding, 0.0).sum(2)


@torch_op("avg_pool2d")
def avg_pool2d(
    x: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> Tensor:
    """Average of integers x [N, C, H, W] over windows; padding is top, left, bottom, right."""
    total = _patches(x, kernel, stride, padding, 0.0).sum(2).long()
    count = _counts(x, kernel, stride, padding).long()
    half = torch.where(total >= 0, count // 2, -(count // 2))
    mean = torch.div(total + half, count, rounding_mode="trunc")
    return mean.view(_shape_of(x, kernel, stride, padding)).to(torch.float32)


@torch_op("avg_pool2d_grad")
def avg_pool2d_grad(
    gy: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    shape: Sequence[int],
) -> Tensor:
    """Every element's share: the sum of gy / count over the windows that hold it."""
    like = gy.new_zeros((gy.shape[0], gy.shape[1], *shape))
    share = gy.flatten(2) / _counts(like, kernel, stride, padding)
    spread = share.unsqueeze(2).expand(-1, -1, kernel[0] * kernel[1], -1)
    return _fold(spread, like, kernel, stride, padding)


@torch_op("max_pool2d")
def max_pool2d(
    x: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Maximum over windows, and the position of the first largest inside each window."""
    windows = _patches(x, kernel, stride, padding, _LOWEST)
    largest = windows.max(dim=2).values
    positions = torch.arange(windows.shape[2]).view(1, 1, -1, 1)
    first = torch.where(windows == largest.unsqueeze(2), positions, windows.shape[2]).amin(2)
    shape = _shape_of(x, kernel, stride, padding)
    return largest.view(shape), first.view(shape).to(torch.uint8)


@torch_op("max_pool2d_grad")
def max_pool2d_grad(
    gy: Tensor,
    index: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    shape: Sequence[int],
) -> Tensor:
    """gy goes to the element that was largest."""
    like = gy.new_zeros((gy.shape[0], gy.shape[1], *shape))
    positions = torch.arange(kernel[0] * kernel[1]).view(1, 1, -1, 1)
    chosen = index.flatten(2).unsqueeze(2) == positions
    spread = torch.where(chosen, gy.flatten(2).unsqueeze(2), torch.zeros(()))
    return _fold(spread, like, kernel, stride, padding)


def _fold(
    spread: Tensor,
    like: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
) -> Tensor:
    top, left, bottom, right = padding
    size = (like.shape[2] + top + bottom, like.shape[3] + left + right)
    columns = spread.double().reshape(like.shape[0], -1, spread.shape[3])
    folded = F.fold(columns, size, tuple(kernel), stride=tuple(stride))
    inner = folded[:, :, top : top + like.shape[2], left : left + like.shape[3]]
    return inner.to(torch.float32).clone()


def _shape_of(
    x: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> tuple[int, int, int, int]:
    rows, columns = (
        _extent(x.shape[2 + a], kernel[a], stride[a], padding[a], padding[2 + a]) for a in (0, 1)
    )
    return x.shape[0], x.shape[1], rows, columns


@avg_pool2d.register_fake
def _(x: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]) -> Tensor:
    return x.new_empty(_shape_of(x, kernel, stride, padding))


@max_pool2d.register_fake
def _(
    x: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> tuple[Tensor, Tensor]:
    y = x.new_empty(_shape_of(x, kernel, stride, padding))
    return y, torch.empty_like(y, dtype=torch.uint8)


@avg_pool2d_grad.register_fake
def _(gy: Tensor, kernel: Any, stride: Any, padding: Any, shape: Sequence[int]) -> Tensor:
    return gy.new_empty((gy.shape[0], gy.shape[1], *shape))


@max_pool2d_grad.register_fake
def _(
    gy: Tensor, index: Tensor, kernel: Any, stride: Any, padding: Any, shape: Sequence[int]
) -> Tensor:
    return gy.new_empty((gy.shape[0], gy.shape[1], *shape))


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.set_materialize_grads(False)
    x, *attributes = inputs
    ctx.attributes = [list(attribute) for attribute in attributes]
    ctx.shape = [int(extent) for extent in x.shape[2:]]
    if isinstance(output, tuple):
        ctx.save_for_backward(output[1])


def _avg_backward(ctx: Any, gy: Tensor) -> tuple[Tensor, None, None, None]:
    kernel, stride, padding = ctx.attributes
    return avg_pool2d_grad(gy, kernel, stride, padding, ctx.shape), None, None, None


def _max_backward(ctx: Any, gy: Tensor, _: Tensor | None) -> tuple[Tensor, None, None, None]:
    (index,) = ctx.saved_tensors
    kernel, stride, padding = ctx.attributes
    return max_pool2d_grad(gy, index, kernel, stride, padding, ctx.shape), None, None, None


avg_pool2d.register_autograd(_avg_backward, setup_context=_setup)
max_pool2d.register_autograd(_max_backward, setup_context=_setup)


# ---- definitions -----------------------------------------------------------------------


def _lists(op: Op, *names: str) -> list[list[int]]:
    return [list(op.integers(name)) for name in names]


_WINDOW = ("kernel", "stride", "padding")


def _forward_shapes(graph: Graph, op: Op) -> tuple[tuple[int, ...], ...]:
    x = present(graph.inputs_of(op)[0]).shape
    kernel, stride, padding = _lists(op, *_WINDOW)
    rows, columns = (
        _extent(x[2 + a], kernel[a], stride[a], padding[a], padding[2 + a]) for a in (0, 1)
    )
    return ((x[0], x[1], rows, columns),) * len(op.outputs)


def _backward_shapes(graph: Graph, op: Op) -> tuple[tuple[int, ...], ...]:
    gy = present(graph.inputs_of(op)[0]).shape
    return ((gy[0], gy[1], *op.integers("shape")),)


def _struct(op: Op, big: Sequence[int], small: Sequence[int]) -> Struct:
    kernel, stride, padding = _lists(op, *_WINDOW)
    sizes = (big[2], big[3], big[1], small[2], small[3], *kernel, *stride, *padding[:2])
    names = (
        *("in_h", "in_w", "channels", "out_h", "out_w", "kernel_h", "kernel_w"),
        *("stride_h", "stride_w", "pad_top", "pad_left"),
    )
    return Struct("tl_pool", dict(zip(names, sizes, strict=True)))


def _forward_kernel(graph: Graph, op: Op) -> KernelCall:
    x, y = present(graph.inputs_of(op)[0]), graph.values[op.outputs[0]]
    function = f"tl_{op.kind}_s8"
    pointers = [Pointer(x.name, "int8_t"), Pointer(y.name, "int8_t")]
    if op.kind == "max_pool2d":
        index = op.outputs[1]
        wanted = index if graph.consumers[index] or index in graph.outputs else None
        pointers.append(Pointer(wanted, "uint8_t"))
    return KernelCall(function, f"{function}.c", (_struct(op, x.shape, y.shape), *pointers))


def _backward_kernel(graph: Graph, op: Op) -> KernelCall:
    gy, gx = present(graph.inputs_of(op)[0]), graph.values[op.outputs[0]]
    function = f"tl_{op.kind}_f32"
    index = [Pointer(name, "uint8_t") for name in op.inputs[1:]]
    arguments: tuple[Argument, ...] = (
        _struct(op, gx.shape, gy.shape),
        Pointer(gy.name, "float"),
        *index,
        Pointer(gx.name, "float"),
    )
    return KernelCall(function, f"{function}.c", arguments)


def _overwrites(graph: Graph, op: Op) -> tuple[Overwrite, ...]:
    x, y = present(graph.inputs_of(op)[0]).shape, graph.values[op.outputs[0]].shape
    _, stride, padding = _lists(op, *_WINDOW)
    window = Window(x[2], x[3], y[2], y[3], (stride[0], stride[1]), padding[0], padding[1])
    return (Overwrite(output=0, input=0, lag=window_lag(window, x[1], y[1], tile=0)),)


def _avg_reference(_: RunState, op: Op, x: Tensor) -> Tensor:
    return avg_pool2d(x, *_lists(op, *_WINDOW))


def _max_reference(_: RunState, op: Op, x: Tensor) -> tuple[Tensor, Tensor]:
    return max_pool2d(x, *_lists(op, *_WINDOW))


register(
    OpDef(
        kind="avg_pool2d",
        inputs=(DType.I8,),
        outputs=(DType.I8,),
        shapes=_forward_shapes,
        reference=_avg_reference,
        kernel=_forward_kernel,
        overwrites=_overwrites,
    )
)
register(
    OpDef(
        kind="max_pool2d",
        inputs=(DType.I8,),
        outputs=(DType.I8, DType.U8),
        shapes=_forward_shapes,
        reference=_max_reference,
        kernel=_forward_kernel,
        overwrites=_overwrites,
    )
)
register(
    OpDef(
        kind="avg_pool2d_grad",
        inputs=(DType.F32,),
        outputs=(DType.F32,),
        shapes=_backward_shapes,
        reference=lambda _, op, gy: avg_pool2d_grad(gy, *_lists(op, *_WINDOW, "shape")),
        kernel=_backward_kernel,
        backward=True,
    )
)
register(
    OpDef(
        kind="max_pool2d_grad",
        inputs=(DType.F32, DType.U8),
        outputs=(DType.F32,),
        shapes=_backward_shapes,
        reference=lambda _, op, gy, index: max_pool2d_grad(
            gy, index, *_lists(op, *_WINDOW, "shape")
        ),
        kernel=_backward_kernel,
        backward=True,
    )
)
