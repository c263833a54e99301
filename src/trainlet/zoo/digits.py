# SPDX-License-Identifier: Apache-2.0
"""A small network for handwritten digits of 16 x 16 pixels, learned upright.

Its numbers are in data/digits.npz, which scripts/train_digits.py makes.
"""

from __future__ import annotations

from importlib import resources

import numpy as np
import torch
from numpy.typing import NDArray

from trainlet.nn import (
    FloatHead,
    Int8Add,
    Int8Conv2d,
    Int8Network,
    InvertedResidual,
    Quantization,
)
from trainlet.zoo.architecture import BlockShape, ConvShape

SIDE = 16
CLASSES = 10
FIRST_CONV = ConvShape(1, 16, kernel=3, stride=2)
BLOCKS = (
    BlockShape(16, 16, expansion=3),
    BlockShape(16, 24, expansion=3, stride=2),
    BlockShape(24, 24, expansion=4),
    BlockShape(24, 24, expansion=4),
    BlockShape(24, 48, expansion=4),
)
FEATURES = BLOCKS[-1].outputs

Arrays = dict[str, NDArray[np.generic]]


def build_digits(classes: int, side: int, seed: int, requantize: str) -> Int8Network:
    """The network as it was learned; another number of classes gets a new head from ``seed``."""
    return assemble(stored_arrays(), classes, side, seed, requantize)


def stored_arrays() -> Arrays:
    """Everything in data/digits.npz."""
    file = resources.files("trainlet.zoo") / "data" / "digits.npz"
    with file.open("rb") as opened, np.load(opened, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def assemble(arrays: Arrays, classes: int, side: int, seed: int, requantize: str) -> Int8Network:
    """Modules from arrays.

    For each convolution there are ``<path>.weight`` int8 OIHW, ``.bias`` int32 [O],
    ``.weight_scales`` float64 [O] and ``.output`` float64 [2], the scale and zero point of what
    it gives; ``<block>.add.output`` and ``input`` are such pairs too; ``head.weight`` and
    ``head.bias`` are float32.
    """
    x = _quantization(arrays["input"])
    first = _conv(arrays, "first_conv", FIRST_CONV, x, requantize)
    blocks = []
    x = first.y
    for index, shape in enumerate(BLOCKS):
        block, x = _block(arrays, f"blocks.{index}", shape, x, requantize)
        blocks.append(block)
    head = FloatHead(FEATURES, classes, x, seed=seed)
    if classes == CLASSES:
        with torch.no_grad():
            head.weight.copy_(torch.from_numpy(arrays["head.weight"]))
            head.bias.copy_(torch.from_numpy(arrays["head.bias"]))
    return Int8Network(first, blocks, head, input_shape=(FIRST_CONV.inputs, side, side))


def _block(
    arrays: Arrays, path: str, shape: BlockShape, x: Quantization, requantize: str
) -> tuple[InvertedResidual, Quantization]:
    layers: dict[str, Int8Conv2d] = {}
    y = x
    for name, conv in shape.convolutions():
        layers[name] = _conv(arrays, f"{path}.{name}", conv, y, requantize)
        y = layers[name].y
    add = None
    if shape.residual:
        add = Int8Add(x, y, _quantization(arrays[f"{path}.add.output"]), requantize=requantize)
        y = add.y
    block = InvertedResidual(
        layers.get("pointwise1"), layers["depthwise"], layers["pointwise2"], add
    )
    return block, y


def _conv(
    arrays: Arrays, path: str, shape: ConvShape, x: Quantization, requantize: str
) -> Int8Conv2d:
    return Int8Conv2d(
        torch.from_numpy(arrays[f"{path}.weight"]),
        torch.from_numpy(arrays[f"{path}.bias"]),
        weight_scales=torch.from_numpy(arrays[f"{path}.weight_scales"]),
        x=x,
        y=_quantization(arrays[f"{path}.output"]),
        stride=(shape.stride, shape.stride),
        padding=(shape.padding,) * 4,
        groups=shape.groups,
        requantize=requantize,
    )


def _quantization(pair: NDArray[np.generic]) -> Quantization:
    scale, zero = pair.tolist()
    return Quantization(scale, int(zero))
