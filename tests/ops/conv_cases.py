# SPDX-License-Identifier: Apache-2.0
"""Random convolutions with split weights, and their meaning in plain loops and in float64."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import Tensor

from trainlet.ops.requantize import multipliers


@dataclass(frozen=True)
class ConvCase:
    """One convolution; `channels` are the kept ones of a group (depthwise: of the map)."""

    batch: int
    groups: int
    width: int  # input channels of a group
    per_group: int  # output channels of a group
    size: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    channels: tuple[int, ...]
    zeros: tuple[int, int]
    clamp: tuple[int, int]
    mode: str
    seed: int

    @property
    def depthwise(self) -> bool:
        return self.groups > 1 and self.width == self.per_group == 1

    @property
    def split_width(self) -> int:
        return self.groups if self.depthwise else self.width

    @cached_property
    def draw(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)

    @cached_property
    def x(self) -> Tensor:
        shape = (self.batch, self.groups * self.width, *self.size)
        return torch.from_numpy(self.draw.integers(-128, 128, shape)).float()

    @cached_property
    def weight(self) -> Tensor:
        shape = (self.groups * self.per_group, self.width, *self.kernel)
        return torch.from_numpy(self.draw.integers(-127, 128, shape)).float()

    @cached_property
    def bias(self) -> Tensor:
        out = self.groups * self.per_group
        return torch.from_numpy(self.draw.integers(-20_000, 20_001, out)).double()

    @cached_property
    def scales(self) -> Tensor:
        """s_x s_w / s_y, such that some outputs are clamped and some are not."""
        terms = self.width * self.kernel[0] * self.kernel[1]
        base = 100.0 / (128 * 64 * terms**0.5)
        spread = self.draw.uniform(0.5, 2.0, self.groups * self.per_group)
        return torch.from_numpy(np.minimum(base * spread, 0.49))

    def parts(self) -> tuple[Tensor | None, Tensor | None]:
        """kept and rest."""
        axis = 0 if self.depthwise else 1
        rest = [c for c in range(self.split_width) if c not in self.channels]
        pick = [list(self.channels), rest]
        kept, frozen = (
            self.weight.index_select(axis, torch.tensor(p)) if p else None for p in pick
        )
        return kept, frozen

    def attributes(self) -> dict[str, Any]:
        """Keyword arguments of the operator after its tensors."""
        partly = 0 < len(self.channels) < self.split_width
        return {
            "channels": list(self.channels) if partly else [],
            "stride": list(self.stride),
            "padding": list(self.padding),
            "groups": self.groups,
            "in_zero": self.zeros[0],
            "out_zero": self.zeros[1],
            "clamp_min": self.clamp[0],
            "clamp_max": self.clamp[1],
        }

    def constants(self) -> tuple[Tensor, Tensor | None, Tensor]:
        """multiplier, shift, grad_scale."""
        m, s = multipliers([float(v) for v in self.scales], self.mode)
        shift = None if s is None else torch.tensor(s)
        return torch.tensor(m), shift, self.scales.float()


@st.composite
def conv_cases(draw: st.DrawFn, depthwise: bool | None = None) -> ConvCase:
    deep = draw(st.booleans()) if depthwise is None else depthwise
    groups = draw(st.integers(2, 6)) if deep else draw(st.sampled_from([1, 1, 2, 3]))
    width, per_group = (1, 1) if deep else (draw(st.integers(1, 5)), draw(st.integers(1, 4)))
    kernel = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    padding = tuple(draw(st.integers(0, kernel[a % 2] - 1)) for a in range(4))
    size = tuple(
        draw(st.integers(max(1, kernel[a] - padding[a] - padding[2 + a]), 7)) for a in (0, 1)
    )
    split = groups if deep else width
    kept = draw(st.sets(st.integers(0, split - 1), max_size=split))
    low = draw(st.integers(-128, 0))
    return ConvCase(
        batch=draw(st.integers(1, 2)),
        groups=groups,
        width=width,
        per_group=per_group,
        size=(size[0], size[1]),
        kernel=kernel,
        stride=(draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        padding=(padding[0], padding[1], padding[2], padding[3]),
        channels=tuple(sorted(kept)),
        zeros=(draw(st.integers(-128, 127)), draw(st.integers(-128, 127))),
        clamp=(low, draw(st.integers(low + 1, 127))),
        mode=draw(st.sampled_from(["fast", "tflite"])),
        seed=draw(st.integers(0, 2**32 - 1)),
    )


def loops(case: ConvCase) -> np.ndarray:
    """Accumulators [N, O, H', W'] in int64, by definition: padding is the zero point."""
    x = case.x.numpy().astype(np.int64) - case.zeros[0]
    weight, bias = case.weight.numpy().astype(np.int64), case.bias.numpy().astype(np.int64)
    top, left, bottom, right = case.padding
    rows = (case.size[0] + top + bottom - case.kernel[0]) // case.stride[0] + 1
    columns = (case.size[1] + left + right - case.kernel[1]) // case.stride[1] + 1
    acc = np.zeros((case.batch, len(bias), rows, columns), np.int64)
    for n, o, i, j in np.ndindex(*acc.shape):
        total, group = int(bias[o]), o // case.per_group
        for c, a, b in np.ndindex(case.width, *case.kernel):
            y, z = i * case.stride[0] - top + a, j * case.stride[1] - left + b
            if 0 <= y < case.size[0] and 0 <= z < case.size[1]:
                total += int(x[n, group * case.width + c, y, z]) * int(weight[o, c, a, b])
        acc[n, o, i, j] = total
    return acc


def requantized(acc: int, multiplier: int, shift: int | None) -> int:
    """One accumulator in exact arithmetic, by the words of docs/arithmetic and of gemmlowp."""
    if shift is None:
        return (Fraction(acc * multiplier, 2**32) + Fraction(1, 2)).__floor__()
    product = (acc << max(shift, 0)) * multiplier
    nudged = product + (2**30 if product >= 0 else 1 - 2**30)
    high = abs(nudged) // 2**31 * (1 if nudged >= 0 else -1)
    exponent = max(-shift, 0)
    half = Fraction(abs(high), 2**exponent) + Fraction(1, 2)
    return half.__floor__() * (1 if high >= 0 else -1)


def real_layer(case: ConvCase, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The layer without rounding or clamp, in float64."""
    top, left, bottom, right = case.padding
    centred = F.pad(x - case.zeros[0], (left, right, top, bottom))
    acc = F.conv2d(centred, weight, bias, stride=case.stride, groups=case.groups)
    return acc * case.scales.view(1, -1, 1, 1) + case.zeros[1]


def assembled(case: ConvCase, kept: Tensor | None, rest: Tensor | None) -> Tensor:
    """The whole weight of its parts, by plain indexing."""
    whole = torch.zeros_like(case.weight, dtype=torch.float64)
    others = [c for c in range(case.split_width) if c not in case.channels]
    for part, where in ((kept, list(case.channels)), (rest, others)):
        if part is not None:
            index = torch.tensor(where)
            whole = whole.index_copy(0 if case.depthwise else 1, index, part.double())
    return whole
