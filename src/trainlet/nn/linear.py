# SPDX-License-Identifier: Apache-2.0
"""The int8 fully connected layer: a convolution whose window is the whole map."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from trainlet.nn.conv import Int8Conv2d
from trainlet.nn.quantization import Quantization
from trainlet.ops.requantize import FAST


class Int8Linear(Int8Conv2d):
    """Every output sees every element of the map.

    Kernels, gradients and schemes are a convolution's; a scheme's share is of the
    map's channels.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor,
        *,
        weight_scales: Tensor,
        x: Quantization,
        y: Quantization,
        shape: Sequence[int],
        clamp: tuple[int, int] = (-128, 127),
        requantize: str = FAST,
    ) -> None:
        """``weight`` is [O, C * H * W] in PyTorch's order, ``shape`` the map's C, H, W."""
        channels, rows, columns = (int(extent) for extent in shape)
        super().__init__(
            weight.reshape(-1, channels, rows, columns),
            bias,
            weight_scales=weight_scales,
            x=x,
            y=y,
            clamp=clamp,
            requantize=requantize,
        )
