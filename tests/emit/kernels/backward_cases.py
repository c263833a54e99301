# SPDX-License-Identifier: Apache-2.0
"""Convolutions with random sizes, channel splits and values, and the gradients' references."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from harness import SOURCES, Conv
from hypothesis import strategies as st
from torch.nn.grad import conv2d_input, conv2d_weight

from trainlet.ops import gradient_scratch as size
from trainlet.ops.layout import pairs_inverse, pairs_layout, taps_inverse, taps_layout

Array = np.ndarray[Any, Any]

NAMES = (
    *("tl_add_f32", "tl_avg_pool2d_grad_f32", "tl_channel_sum", "tl_clamp_grad_f32"),
    *(f"tl_conv2d_{family}_grad_input_f32" for family in ("pointwise", "depthwise", "general")),
    *(f"tl_conv2d_{family}_grad_weight" for family in ("pointwise", "depthwise", "general")),
    *("tl_linear_f32", "tl_linear_grad", "tl_max_pool2d_grad_f32", "tl_scale_grad_f32"),
    *("tl_sgd_f32", "tl_softmax_cross_entropy_f32"),
)
assert all((SOURCES / f"{name}.c").exists() for name in NAMES)


def floats(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def bytes8(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).integers(-127, 128, shape).astype(np.int8)


@dataclass
class Case:
    """One convolution: its family, its structure, and the padding below and to the right."""

    family: str
    conv: Conv
    bottom: int
    right: int
    seed: int

    @property
    def width(self) -> int:
        """Channels along the axis that is split into kept and rest."""
        return self.conv.in_c // (1 if self.family == "depthwise" else self.conv.groups)

    @property
    def order(self) -> list[int]:
        return list(range(self.width) if self.conv.order is None else map(int, self.conv.order))

    @property
    def g(self) -> Array:
        return floats(self.seed + 1, self.conv.out_h, self.conv.out_w, self.conv.out_c)

    @property
    def x(self) -> Array:
        """The kept channels of the input, as the kernels want them."""
        groups = 1 if self.family == "depthwise" else self.conv.groups
        return bytes8(self.seed + 2, self.conv.in_h, self.conv.in_w, groups * self.conv.kept)

    @property
    def weight(self) -> Array:
        c = self.conv
        return bytes8(self.seed + 3, c.out_c, c.in_c // c.groups, c.kernel_h, c.kernel_w)

    def segments(self) -> tuple[Array | None, Array | None]:
        """The kept and the other weights in canonical form (depthwise: rest at full width)."""
        kept, rest = self.order[: self.conv.kept], self.order[self.conv.kept :]
        if self.family == "depthwise":
            wide = self.weight
            wide[kept] = 0
            parts = self.weight[kept], wide
        else:
            parts = self.weight[:, kept], self.weight[:, rest]
        return parts[0] if kept else None, parts[1] if rest else None

    def laid_out(self, segment: Array | None) -> Array | None:
        if segment is None:
            return None
        if self.family == "depthwise":
            return taps_layout(segment)
        return pairs_layout(np.ascontiguousarray(segment), self.conv.groups)

    def canonical(self, kept: Array) -> Array:
        """The kept weights [out, kept, kernel_h, kernel_w] back from their layout."""
        c = self.conv
        if self.family == "depthwise":
            return taps_inverse(kept, (c.kept, 1, c.kernel_h, c.kernel_w))
        shape = (c.out_c, c.kept, c.kernel_h, c.kernel_w)
        return pairs_inverse(kept, shape, c.groups)

    def gradient_shape(self) -> tuple[int, ...]:
        c = self.conv
        rows = (c.kept, 1) if self.family == "depthwise" else (c.out_c, c.kept)
        return (*rows, c.kernel_h, c.kernel_w)

    def input_scratch(self) -> int:
        c = self.conv
        if self.family == "depthwise":
            kernel = (c.kernel_h, c.kernel_w)
            return size.depthwise_grad_input_scratch(
                c.in_w, (c.out_h, c.out_w), kernel, c.stride_w, c.pad_left
            )
        return size.dense_grad_input_scratch(c.out_c // c.groups)

    def weight_scratch(self) -> int:
        c = self.conv
        if self.family == "depthwise":
            return size.depthwise_grad_weight_scratch(c.in_h, c.out_w, c.kernel_w, c.stride_w)
        return size.dense_grad_weight_scratch(c.out_h * c.out_w, c.out_c // c.groups)

    def input_reference(self, magnitude: bool = False) -> Array:
        """gx [in_h, in_w, in_c] in float64; with `magnitude`, the sum of absolute products."""
        c = self.conv
        weight, g = torch.from_numpy(self.weight).double(), _to_map(self.g)
        if magnitude:
            weight, g = weight.abs(), g.abs()
        high, wide = c.in_h + c.pad_top + self.bottom, c.in_w + c.pad_left + self.right
        stride = (c.stride_h, c.stride_w)
        gx = conv2d_input((1, c.in_c, high, wide), weight, g, stride, groups=c.groups)
        rows, columns = (
            slice(c.pad_top, c.pad_top + c.in_h),
            slice(c.pad_left, c.pad_left + c.in_w),
        )
        return gx[0, :, rows, columns].permute(1, 2, 0).numpy()

    def weight_reference(self, magnitude: bool = False) -> Array:
        """The weight gradient in float64; with `magnitude`, the sum of absolute products."""
        c = self.conv
        x, g, groups = _to_map(self.x.astype(np.int32) - c.in_zero), _to_map(self.g), c.groups
        if self.family == "depthwise":
            g, groups = g[:, self.order[: c.kept]], c.kept
        if magnitude:
            x, g = x.abs(), g.abs()
        border = (c.pad_left, self.right, c.pad_top, self.bottom)
        padded = torch.nn.functional.pad(x, border)
        rows = (c.out_h - 1) * c.stride_h + c.kernel_h
        columns = (c.out_w - 1) * c.stride_w + c.kernel_w
        stride = (c.stride_h, c.stride_w)
        met = padded[:, :, :rows, :columns]
        return conv2d_weight(met, self.gradient_shape(), g, stride, groups=groups).numpy()


def _to_map(values: Array) -> torch.Tensor:
    return torch.from_numpy(values).double().permute(2, 0, 1).unsqueeze(0)


@st.composite
def cases(draw: Callable[..., Any], family: str, learning: bool = False, most: int = 11) -> Case:
    """A convolution of the family; `learning`: at least one channel is kept.

    `most` bounds channels, the kernel's sides (to about 2 / 3 of it) and the map.
    """

    def number(low: int, high: int) -> int:
        return int(draw(st.integers(low, high)))

    groups, width, per_group = 1, number(1, most), number(1, most)
    kernel = stride = (1, 1)
    before = after = (0, 0)
    if family == "depthwise":
        groups, per_group = width, 1
    elif family == "general":
        groups = number(1, 3)
    if family != "pointwise":
        kernel = (number(1, 1 + 2 * most // 3), number(1, 1 + 2 * most // 3))
        stride = (number(1, 3), number(1, 3))
        before = tuple(number(0, k) for k in kernel)
        after = tuple(number(0, k - 1) for k in kernel)
    least = [max(1, k - a - b) for k, a, b in zip(kernel, before, after, strict=True)]
    rows, columns = (number(low, low + 2 * most // 3 + 1) for low in least)
    out = [
        (extent + before[axis] + after[axis] - kernel[axis]) // stride[axis] + 1
        for axis, extent in enumerate((rows, columns))
    ]
    in_c = width if family == "depthwise" else groups * width
    kept = number(1 if learning else 0, width)
    seed = number(0, 10**6)
    order = None
    if draw(st.booleans()):
        order = np.random.default_rng(seed).permutation(width).astype(np.uint16)
    conv = Conv(rows, columns, in_c, *out, groups * per_group, *kernel, *stride, *before)
    conv.groups, conv.kept, conv.order = groups, kept, order
    conv.in_zero = number(-128, 127)
    return Case(family, conv, *after, seed)
