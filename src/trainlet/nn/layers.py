# SPDX-License-Identifier: Apache-2.0
"""The other int8 layers as modules, and the float32 head."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from trainlet.errors import TrainletError
from trainlet.nn.quantization import Quantization
from trainlet.nn.update_rule import UpdateRule
from trainlet.ops.add import AddConstants, add
from trainlet.ops.clamp import clamp
from trainlet.ops.dequantize import dequantize
from trainlet.ops.linear import linear
from trainlet.ops.pool import avg_pool2d, max_pool2d
from trainlet.ops.requantize import FAST

_MAX_POOL_WINDOW = 256


class Int8Add(nn.Module):
    """Residual addition of two quantized maps."""

    def __init__(
        self,
        a: Quantization,
        b: Quantization,
        y: Quantization,
        *,
        clamp: tuple[int, int] = (-128, 127),
        requantize: str = FAST,
    ) -> None:
        super().__init__()
        self.clamp = clamp
        self.y = y
        scales, zeros = (a.scale, b.scale, y.scale), (a.zero, b.zero, y.zero)
        self.constants = AddConstants.of(requantize, scales, zeros)
        self.grad_scales = (a.scale / y.scale, b.scale / y.scale)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Integers of the same shape to integers."""
        y, _ = add(a, b, list(self.constants.values), *self.grad_scales, *self.clamp)
        return y


class _Pool(nn.Module):
    def __init__(
        self,
        kernel: Sequence[int],
        stride: Sequence[int] | None = None,
        padding: Sequence[int] = (0, 0, 0, 0),
    ) -> None:
        super().__init__()
        self.kernel = [int(k) for k in kernel]
        self.stride = [int(s) for s in (stride or kernel)]
        self.padding = [int(p) for p in padding]


class Int8AvgPool2d(_Pool):
    """Average pooling; scale and zero point pass through."""

    def forward(self, x: Tensor) -> Tensor:
        """Integers [N, C, H, W] to integers."""
        return avg_pool2d(x, self.kernel, self.stride, self.padding)


class Int8GlobalAvgPool2d(nn.Module):
    """Average over the whole map, whatever its size."""

    def forward(self, x: Tensor) -> Tensor:
        """Integers [N, C, H, W] to integers [N, C, 1, 1]."""
        size = [int(x.shape[2]), int(x.shape[3])]
        return avg_pool2d(x, size, size, [0, 0, 0, 0])


class Int8MaxPool2d(_Pool):
    """Maximum pooling; scale and zero point pass through.

    The gradient keeps a position inside the window in one byte, so a window
    has at most 256 elements.
    """

    def __init__(
        self,
        kernel: Sequence[int],
        stride: Sequence[int] | None = None,
        padding: Sequence[int] = (0, 0, 0, 0),
    ) -> None:
        super().__init__(kernel, stride, padding)
        if math.prod(self.kernel) > _MAX_POOL_WINDOW:
            raise TrainletError(
                f"a maximum over {self.kernel[0]} x {self.kernel[1]} elements has no kernel: "
                f"take a window of at most {_MAX_POOL_WINDOW}, or two pools one after the other"
            )

    def forward(self, x: Tensor) -> Tensor:
        """Integers [N, C, H, W] to integers."""
        return max_pool2d(x, self.kernel, self.stride, self.padding)[0]


class Int8Clamp(nn.Module):
    """A ReLU or ReLU6 that could not be folded into the layer before it."""

    def __init__(self, low: int, high: int) -> None:
        super().__init__()
        self.low, self.high = int(low), int(high)

    @classmethod
    def relu(cls, x: Quantization) -> Int8Clamp:
        """max(real, 0)."""
        return cls(max(x.zero, -128), 127)

    @classmethod
    def relu6(cls, x: Quantization) -> Int8Clamp:
        """min(max(real, 0), 6)."""
        return cls(max(x.zero, -128), min(127, x.zero + round(6.0 / x.scale)))

    def forward(self, x: Tensor) -> Tensor:
        """Integers to integers of the same shape."""
        return clamp(x, self.low, self.high)[0]


class FloatHead(nn.Module):
    """Dequantized features into a float32 linear classifier, which learns by plain SGD."""

    def __init__(self, features: int, classes: int, x: Quantization, *, seed: int = 0) -> None:
        """``features`` is C * H * W of the map it reads; weights are drawn from ``seed``."""
        super().__init__()
        self.x = x
        generator = torch.Generator().manual_seed(int(seed))
        bound = 1.0 / math.sqrt(features)
        weight = (torch.rand(classes, features, generator=generator) * 2 - 1) * bound
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(classes), requires_grad=False)

    def set_learning(self, learning: bool) -> None:
        """Let the head learn or freeze it."""
        self.weight.requires_grad_(learning)
        self.bias.requires_grad_(learning)

    def update_rules(self) -> dict[str, UpdateRule]:
        """How each parameter is stepped."""
        rule = UpdateRule("sgd_f32", (), {"head": True})
        return {"weight": rule, "bias": rule}

    def forward(self, x: Tensor) -> Tensor:
        """Integers [N, C, H, W] to logits [N, classes]."""
        return linear(dequantize(x, self.x.scale, self.x.zero), self.weight, self.bias)
