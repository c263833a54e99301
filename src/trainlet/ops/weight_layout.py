# SPDX-License-Identifier: Apache-2.0
"""Where a kernel wants each weight of a tensor: the layout an operator declares for an input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trainlet.ops.layout import pairs_layout, pairs_size, taps_layout

Int8 = npt.NDArray[np.int8]
Float32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Pairs:
    """Two output channels interleaved, four inputs at a time (pointwise and general)."""

    groups: int

    def apply(self, weight: Int8) -> Int8:
        """The bytes in memory of weight [O, I, kh, kw]."""
        return pairs_layout(weight, self.groups)

    def bytes(self, shape: Sequence[int]) -> int:
        """Bytes in memory, padding included."""
        out, width, rows, columns = (int(extent) for extent in shape)
        return pairs_size(out, width, rows * columns, self.groups)


@dataclass(frozen=True)
class Taps:
    """All channels of a tap together (depthwise); ``places`` spreads them over ``total`` columns.

    The frozen part of a partly learning weight is spread to full width, with
    zeros where the learning channels stand; ``places`` None is no spreading.
    """

    total: int
    places: tuple[int, ...] | None = None

    def apply(self, weight: Int8) -> Int8:
        """The bytes in memory of weight [C, 1, kh, kw]."""
        if self.places is None:
            return taps_layout(weight)
        wide = np.zeros((self.total, *weight.shape[1:]), dtype=np.int8)
        wide[list(self.places)] = weight
        return taps_layout(wide)

    def bytes(self, shape: Sequence[int]) -> int:
        """Bytes in memory, the spread included."""
        columns = int(shape[0]) if self.places is None else self.total
        return columns * int(shape[2]) * int(shape[3])


@dataclass(frozen=True)
class ChannelsLast:
    """Columns of a dense weight reordered from (C, H, W) to the map's order in memory (H, W, C)."""

    channels: int
    height: int
    width: int

    def apply(self, weight: Float32) -> Float32:
        """The floats in memory of weight [O, C * H * W]."""
        split = weight.reshape(-1, self.channels, self.height, self.width)
        return np.ascontiguousarray(split.transpose(0, 2, 3, 1)).reshape(-1)

    def bytes(self, shape: Sequence[int]) -> int:
        """Bytes in memory."""
        return int(np.prod([int(extent) for extent in shape])) * 4


WeightLayout = Pairs | Taps | ChannelsLast


def apply_layout(layout: WeightLayout, data: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """The data in memory; int8 weights for ``Pairs`` and ``Taps``, float32 for ``ChannelsLast``."""
    if isinstance(layout, ChannelsLast):
        return layout.apply(data.astype(np.float32, copy=False))
    return layout.apply(data.astype(np.int8, copy=False))
