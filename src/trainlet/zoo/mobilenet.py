# SPDX-License-Identifier: Apache-2.0
"""A small network of MobileNetV2's shape with random weights, for tests and examples.

It has what the project's kernels have to master: strides, residual additions, 3x3 and 5x5
depthwise convolutions, odd channel counts, a maximum pool, a clamp that stands by itself and a
pointwise convolution before the average pool.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from trainlet.nn import (
    FloatHead,
    Int8Add,
    Int8Clamp,
    Int8Conv2d,
    Int8MaxPool2d,
    Int8Network,
    InvertedResidual,
    Quantization,
)
from trainlet.zoo.architecture import BlockShape, ConvShape

_Layer = TypeVar("_Layer", bound=nn.Module)

CLASSES = 10
SIDE = 32
FIRST_CONV = ConvShape(3, 8, kernel=3, stride=2)
FIRST_BLOCKS = (BlockShape(8, 8, expansion=1), BlockShape(8, 12, expansion=3))
LAST_BLOCKS = (
    BlockShape(12, 12, expansion=3, kernel=5),
    BlockShape(12, 18, expansion=3, kernel=5, stride=2),
    BlockShape(18, 18, expansion=3),
)
LAST_CONV = ConvShape(18, 45)

_INPUT = Quantization(1 / 127.5, 0)
_CALIBRATION_IMAGES = 4
_BIAS_RANGE = 300  # in steps of the accumulator
_MARGIN = 1.05  # room between the largest value met and the end of the int8 range


def build_mobilenet(classes: int, side: int, seed: int, requantize: str) -> Int8Network:
    """Draw the network from ``seed``; each layer's output scale suits random images."""
    maker = _Maker(seed, side, requantize)
    first = maker.conv(FIRST_CONV)
    blocks: list[nn.Module] = [maker.block(shape) for shape in FIRST_BLOCKS]
    blocks.append(maker.then(Int8MaxPool2d((2, 2))))
    blocks += [maker.block(shape) for shape in LAST_BLOCKS]
    blocks.append(maker.then(Int8Clamp.relu(maker.y)))
    blocks.append(maker.conv(LAST_CONV))
    head = FloatHead(LAST_CONV.outputs, classes, maker.y, seed=seed)
    return Int8Network(first, blocks, head, input_shape=(FIRST_CONV.inputs, side, side))


@dataclass
class _Maker:
    """Makes layers in running order; ``x`` is what random images have become so far."""

    seed: int
    side: int
    requantize: str

    def __post_init__(self) -> None:
        self._draw = np.random.default_rng(self.seed)
        shape = (_CALIBRATION_IMAGES, FIRST_CONV.inputs, self.side, self.side)
        self.x = self._integers(128, shape).float()
        self.y = _INPUT

    def conv(self, shape: ConvShape) -> Int8Conv2d:
        """A convolution with random weights whose output fills the int8 range."""
        weight = self._integers(127, shape.weight_shape)
        bias = self._integers(_BIAS_RANGE, (shape.outputs,))
        scales = torch.from_numpy(self._draw.uniform(0.002, 0.006, shape.outputs))
        y = self._output(shape, weight, bias, scales)
        layer = Int8Conv2d(
            weight,
            bias,
            weight_scales=scales,
            x=self.y,
            y=y,
            stride=(shape.stride, shape.stride),
            padding=(shape.padding,) * 4,
            groups=shape.groups,
            requantize=self.requantize,
        )
        self.y = y
        return self.then(layer)

    def block(self, shape: BlockShape) -> InvertedResidual:
        """An inverted residual, with the addition where the shape has one."""
        x, before = self.x, self.y
        layers = {name: self.conv(conv) for name, conv in shape.convolutions()}
        add = None
        if shape.residual:
            total = Quantization(before.scale + self.y.scale, 0)
            add = Int8Add(before, self.y, total, requantize=self.requantize)
            self.x, self.y = add(x, self.x), total
        return InvertedResidual(
            layers.get("pointwise1"), layers["depthwise"], layers["pointwise2"], add
        )

    def then(self, layer: _Layer) -> _Layer:
        """The layer, after what the images became has gone through it."""
        self.x = layer(self.x)
        return layer

    def _output(
        self, shape: ConvShape, weight: Tensor, bias: Tensor, scales: Tensor
    ) -> Quantization:
        """The range of the real output: from 0 after a ReLU, else symmetric."""
        sums = torch.nn.functional.conv2d(
            self.x.double() - self.y.zero,
            weight.double(),
            bias.double(),
            shape.stride,
            shape.padding,
            groups=shape.groups,
        )
        real = sums * (scales * self.y.scale).view(1, -1, 1, 1)
        if shape.relu:
            return Quantization(float(real.max()) * _MARGIN / 255, -128)
        return Quantization(float(real.abs().max()) * _MARGIN / 127, 0)

    def _integers(self, limit: int, shape: tuple[int, ...]) -> Tensor:
        """Integers in [-limit, limit), which is symmetric enough."""
        return torch.from_numpy(self._draw.integers(-limit, limit, shape))
