# SPDX-License-Identifier: Apache-2.0
"""An int8 network: integer layers and a float32 head, and what a scheme needs to know of it."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from trainlet.nn.conv import Int8Conv2d
from trainlet.nn.layers import FloatHead, Int8Add, Int8GlobalAvgPool2d
from trainlet.nn.quantization import Quantization


class InvertedResidual(nn.Module):
    """pointwise1 → depthwise → pointwise2, with the block's input added if ``add`` is given.

    ``pointwise1`` may be absent (MobileNetV2's first block).
    """

    def __init__(
        self,
        pointwise1: Int8Conv2d | None,
        depthwise: Int8Conv2d,
        pointwise2: Int8Conv2d,
        add: Int8Add | None = None,
    ) -> None:
        super().__init__()
        self.pointwise1 = pointwise1
        self.depthwise = depthwise
        self.pointwise2 = pointwise2
        self.add = add

    def forward(self, x: Tensor) -> Tensor:
        """Integers [N, C, H, W] to integers."""
        y: Tensor = x if self.pointwise1 is None else self.pointwise1(x)
        y = self.pointwise2(self.depthwise(y))
        if self.add is not None:
            y = self.add(x, y)
        return y


class Int8Network(nn.Module):
    """first_conv → blocks → pool → head on integers [N, C, H, W] of quantization ``x``."""

    def __init__(
        self,
        first_conv: Int8Conv2d,
        blocks: Sequence[nn.Module],
        head: FloatHead,
        *,
        input_shape: Sequence[int],
        pool: nn.Module | None = None,
    ) -> None:
        """``input_shape`` is channels, rows, columns."""
        super().__init__()
        self.first_conv = first_conv
        self.blocks = nn.ModuleList(blocks)
        self.pool = pool if pool is not None else Int8GlobalAvgPool2d()
        self.head = head
        channels, rows, columns = (int(extent) for extent in input_shape)
        self.input_shape = (channels, rows, columns)

    @property
    def x(self) -> Quantization:
        """Quantization of the input image."""
        return self.first_conv.x

    @property
    def classes(self) -> int:
        """Number of classes of the head."""
        return int(self.head.weight.shape[0])

    def features(self, x: Tensor) -> Tensor:
        """Integers before the head."""
        x = self.first_conv(x)
        for block in self.blocks:
            x = block(x)
        pooled: Tensor = self.pool(x)
        return pooled

    def forward(self, x: Tensor) -> Tensor:
        """Integers [N, C, H, W] to logits [N, classes]."""
        logits: Tensor = self.head(self.features(x))
        return logits
