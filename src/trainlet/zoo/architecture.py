# SPDX-License-Identifier: Apache-2.0
"""The shape of a network of inverted residuals, before any number is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class ConvShape:
    """One convolution; padding is (kernel - 1) // 2 on every side."""

    inputs: int
    outputs: int
    kernel: int = 1
    stride: int = 1
    groups: int = 1
    relu: bool = True

    @property
    def padding(self) -> int:
        """Pixels added on each side."""
        return (self.kernel - 1) // 2

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        """O, I / groups, rows, columns."""
        return self.outputs, self.inputs // self.groups, self.kernel, self.kernel


@dataclass(frozen=True)
class BlockShape:
    """An inverted residual: widen, convolve each channel, narrow; no widening at expansion 1."""

    inputs: int
    outputs: int
    expansion: int
    kernel: int = 3
    stride: int = 1

    @property
    def residual(self) -> bool:
        """Whether the block's input is added to its output, as in MobileNetV2."""
        return self.stride == 1 and self.inputs == self.outputs

    def convolutions(self) -> Iterator[tuple[str, ConvShape]]:
        """Yield the block's convolutions by name, in the order in which they run."""
        wide = self.inputs * self.expansion
        if self.expansion > 1:
            yield "pointwise1", ConvShape(self.inputs, wide)
        yield "depthwise", ConvShape(wide, wide, self.kernel, self.stride, groups=wide)
        yield "pointwise2", ConvShape(wide, self.outputs, relu=False)
