# SPDX-License-Identifier: Apache-2.0
"""The geometry that a convolution and its gradients share, and its C struct."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainlet.graph import Graph, Op
from trainlet.ops import gradient_scratch as scratch
from trainlet.ops import layout
from trainlet.ops.base import Pointer, Struct, Table, present
from trainlet.ops.overlap import Window
from trainlet.ops.weight_layout import Pairs, Taps, WeightLayout


def split_channels(channels: Sequence[int], total: int) -> tuple[list[int], list[int]]:
    """The kept channels and the others, in ascending order."""
    kept = set(channels)
    return sorted(kept), [c for c in range(total) if c not in kept]


def is_depthwise(groups: int, in_c: int, out_c: int) -> bool:
    """Whether every channel is convolved with itself alone."""
    return groups > 1 and groups == in_c == out_c


def assemble_weight(
    kept: Tensor | None, rest: Tensor | None, channels: Sequence[int], groups: int, in_c: int
) -> Tensor:
    """The whole weight [O, I / groups, kh, kw] from its learning and its frozen part."""
    if kept is None or rest is None:
        whole = kept if kept is not None else rest
        assert whole is not None
        return whole
    axis = 0 if is_depthwise(groups, in_c, in_c) and kept.shape[1] == 1 else 1
    total = kept.shape[axis] + rest.shape[axis]
    order = [c for part in split_channels(channels, total) for c in part]
    index = torch.empty(total, dtype=torch.int64)
    index[torch.tensor(order)] = torch.arange(total)
    return torch.cat([kept, rest], dim=axis).index_select(axis, index)


@dataclass(frozen=True)
class ConvGeometry:
    """Sizes of one convolution; ``channels`` are the kept ones if both parts are present."""

    in_h: int
    in_w: int
    in_c: int
    out_h: int
    out_w: int
    out_c: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    groups: int
    in_zero: int
    kept: int
    channels: tuple[int, ...]

    @classmethod
    def of(cls, graph: Graph, op: Op) -> ConvGeometry:
        """The geometry of a ``conv2d`` operator."""
        x, kept, rest, bias = graph.inputs_of(op)[:4]
        x, bias = present(x), present(bias)
        weight = present(kept if kept is not None else rest)
        kernel = (weight.shape[2], weight.shape[3])
        stride, padding = op.integers("stride"), op.integers("padding")
        rows, columns = (
            (x.shape[2 + a] + padding[a] + padding[2 + a] - kernel[a]) // stride[a] + 1
            for a in (0, 1)
        )
        groups, out_c = op.integer("groups"), bias.elements
        axis = 0 if is_depthwise(groups, x.shape[1], out_c) else 1
        return cls(
            in_h=x.shape[2],
            in_w=x.shape[3],
            in_c=x.shape[1],
            out_h=rows,
            out_w=columns,
            out_c=out_c,
            kernel=kernel,
            stride=(stride[0], stride[1]),
            padding=(padding[0], padding[1], padding[2], padding[3]),
            groups=groups,
            in_zero=op.integer("in_zero"),
            kept=0 if kept is None else kept.shape[axis],
            channels=op.integers("channels"),
        )

    @property
    def depthwise(self) -> bool:
        """Every channel with itself alone."""
        return is_depthwise(self.groups, self.in_c, self.out_c)

    @property
    def family(self) -> str:
        """Which kernel family computes it: pointwise, depthwise or general."""
        if self.depthwise:
            return "depthwise"
        plain = self.kernel == self.stride == (1, 1) and not any(self.padding)
        return "pointwise" if plain and self.groups == 1 else "general"

    @property
    def width(self) -> int:
        """Channels along the axis that is split: of a group, or of the map if depthwise."""
        return self.in_c if self.depthwise else self.in_c // self.groups

    @property
    def out_shape(self) -> tuple[int, int, int, int]:
        """Shape of the output map."""
        return (1, self.out_c, self.out_h, self.out_w)

    @property
    def macs(self) -> int:
        """Multiply-accumulates, taps on the padding included."""
        taps = self.kernel[0] * self.kernel[1]
        return self.out_h * self.out_w * self.out_c * taps * (self.in_c // self.groups)

    @property
    def window(self) -> Window:
        """The sliding window, for the overlap rule."""
        return Window(
            self.in_h,
            self.in_w,
            self.out_h,
            self.out_w,
            self.stride,
            self.padding[0],
            self.padding[1],
        )

    def forward_scratch_bytes(self) -> int:
        """Scratch of the forward kernel (each kernel's file says why)."""
        taps = self.kernel[0] * self.kernel[1]
        rest = self.width - self.kept
        match self.family:
            case "pointwise":
                return layout.pointwise_scratch(self.kept, rest)
            case "depthwise":
                ordered = self.order().data is not None
                return layout.depthwise_scratch(self.kept, self.in_c, ordered)
            case _:
                return layout.general_scratch(self.kept, rest, taps, self.groups)

    def grad_input_scratch_bytes(self) -> int:
        """Scratch of the input gradient's kernel."""
        if self.depthwise:
            return scratch.depthwise_grad_input_scratch(
                self.in_w, (self.out_h, self.out_w), self.kernel, self.stride[1], self.padding[1]
            )
        return scratch.dense_grad_input_scratch(self.out_c // self.groups)

    def grad_weight_scratch_bytes(self) -> int:
        """Scratch of the weight gradient's kernel."""
        if self.depthwise:
            return scratch.depthwise_grad_weight_scratch(
                self.in_h, self.out_w, self.kernel[1], self.stride[1]
            )
        pixels = self.out_h * self.out_w
        return scratch.dense_grad_weight_scratch(pixels, self.out_c // self.groups)

    def layouts(self, *, kept: int, rest: int) -> Mapping[int, WeightLayout]:
        """The layout of the weight inputs at these positions."""
        if not self.depthwise:
            return {kept: Pairs(self.groups), rest: Pairs(self.groups)}
        places = tuple(split_channels(self.channels, self.in_c)[1]) if self.channels else None
        return {kept: Taps(self.in_c), rest: Taps(self.in_c, places)}

    def order(self) -> Table:
        """The kernel's channel order, NULL where it is 0, 1, 2, ..."""
        kept, rest = split_channels(self.channels, self.width)
        order = [*kept, *rest]
        identity = not self.channels or order == list(range(self.width))
        return Table("uint16_t", None if identity else order)

    def struct(
        self,
        *,
        multiplier: Pointer | None = None,
        shift: Pointer | None = None,
        clamp: tuple[int, int] = (-128, 127),
        out_zero: int = 0,
    ) -> Struct:
        """The ``tl_conv`` that describes it; gradients leave the requantization NULL."""
        return Struct(
            "tl_conv",
            {
                "in_h": self.in_h,
                "in_w": self.in_w,
                "in_c": self.in_c,
                "out_h": self.out_h,
                "out_w": self.out_w,
                "out_c": self.out_c,
                "kernel_h": self.kernel[0],
                "kernel_w": self.kernel[1],
                "stride_h": self.stride[0],
                "stride_w": self.stride[1],
                "pad_top": self.padding[0],
                "pad_left": self.padding[1],
                "groups": self.groups,
                "kept": self.kept,
                "in_zero": self.in_zero,
                "out_zero": out_zero,
                "clamp_min": clamp[0],
                "clamp_max": clamp[1],
                "order": self.order(),
                "multiplier": multiplier or Pointer(None, "int32_t"),
                "shift": shift or Pointer(None, "int8_t"),
            },
        )
