# SPDX-License-Identifier: Apache-2.0
"""An int8 network of inverted-residual blocks as plain numbers, before it becomes modules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trainlet.nn import Quantization


@dataclass(frozen=True, eq=False)
class ConvRecord:
    """One int8 convolution.

    `weight` is OIHW in [-127, 127], symmetric with one of `weight_scales` (O,) for each output
    channel; `bias` (O,) has the scale input.scale * weight_scales. The clamp of the output's
    range is its activation.
    """

    in_channels: int
    out_channels: int
    kernel_size: tuple[int, int]
    stride: tuple[int, int]
    groups: int
    weight: npt.NDArray[np.int8]
    bias: npt.NDArray[np.int64]
    weight_scales: npt.NDArray[np.float64]
    input: Quantization
    output: Quantization

    @property
    def padding(self) -> tuple[int, int]:
        """Zeros added at each side, (vertical, horizontal): (k - 1) // 2."""
        return ((self.kernel_size[0] - 1) // 2, (self.kernel_size[1] - 1) // 2)

    @property
    def effective_scales(self) -> npt.NDArray[np.float64]:
        """What one step of the accumulator is in steps of the output; shape (O,)."""
        return self.input.scale * self.weight_scales / self.output.scale

    @property
    def bias_limit(self) -> int:
        """The largest |bias| with which no int32 accumulator can overflow."""
        terms = self.in_channels // self.groups * self.kernel_size[0] * self.kernel_size[1]
        return 2**31 - 1 - terms * 127 * 255

    def out_size(self, size: tuple[int, int]) -> tuple[int, int]:
        """Return the output's (height, width) for an input's; not positive if too small."""
        rows, columns = (
            (size[axis] + 2 * self.padding[axis] - self.kernel_size[axis]) // self.stride[axis] + 1
            for axis in (0, 1)
        )
        return rows, columns


@dataclass(frozen=True, eq=False)
class BlockRecord:
    """An inverted residual; `residual` is the sum's quantization where the input is added."""

    pointwise1: ConvRecord | None
    depthwise: ConvRecord
    pointwise2: ConvRecord
    residual: Quantization | None

    def convolutions(self) -> Iterator[tuple[str, ConvRecord]]:
        """Yield the block's convolutions with their names, in execution order."""
        if self.pointwise1 is not None:
            yield "pointwise1", self.pointwise1
        yield "depthwise", self.depthwise
        yield "pointwise2", self.pointwise2


@dataclass(frozen=True, eq=False)
class NetworkRecord:
    """A whole network: features, average pool, and a classifier with int8 weights."""

    first_conv: ConvRecord
    blocks: tuple[BlockRecord, ...]
    classifier: ConvRecord

    def convolutions(self) -> Iterator[tuple[str, ConvRecord]]:
        """Yield every convolution but the classifier with its module path, in execution order."""
        yield "first_conv", self.first_conv
        for index, block in enumerate(self.blocks):
            for name, conv in block.convolutions():
                yield f"blocks.{index}.{name}", conv
