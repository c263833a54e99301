# SPDX-License-Identifier: Apache-2.0
"""One small network with every kind of layer, and what tests of its library need."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from random_networks import Maker
from trainlet.build import build_program
from trainlet.emit import Program, Rates, emit_library
from trainlet.nn import (
    FloatHead,
    Int8Add,
    Int8Clamp,
    Int8MaxPool2d,
    Int8Network,
    InvertedResidual,
    Quantization,
    apply_scheme,
)
from trainlet.scheme import Scheme

RATES = Rates(backbone=0.02, head=0.05)
SCHEME = Scheme(
    "sample",
    biases=4,
    weights=(("blocks.0.pointwise1", 1.0), ("blocks.0.depthwise", 0.5), ("blocks.2", 0.25)),
)


def sample_network(mode: str = "fast", classes: int = 4) -> Int8Network:
    """Stem, residual block, clamp, grouped convolution, overlapping max pool, average, head.

    The whole weight of the block's first convolution can learn: its input then outlives the
    residual addition in a training step, but not in inference.
    """
    maker = Maker(11, mode)
    image = Quantization(1 / 127.5, -3)
    x = maker.integers(-128, 127, (1, 2, 9, 8)).float()
    stem, y = maker.conv(x, image, 6, (3, 3), (2, 2), (1, 1, 1, 1))
    first, inner = maker.conv(y, stem.y, 7)
    depthwise, inner = maker.conv(inner, first.y, 7, (3, 3), (1, 1), (1, 1, 1, 1), groups=7)
    last, inner = maker.conv(inner, depthwise.y, 6, relu=False)
    total = Quantization(max(stem.y.scale, last.y.scale) * 1.3, 5)
    block = InvertedResidual(
        first, depthwise, last, Int8Add(stem.y, last.y, total, requantize=mode)
    )
    y = block(y)
    clamp = Int8Clamp(-90, 100)
    group, y = maker.conv(clamp(y), total, 8, (3, 3), (1, 1), (1, 1, 1, 1), groups=2)
    pool = Int8MaxPool2d((2, 2), (1, 1))
    head = FloatHead(8, classes, group.y, seed=3)
    return Int8Network(stem, [block, clamp, group, pool], head, input_shape=(2, 9, 8))


def sample_program(mode: str = "fast", scheme: Scheme = SCHEME) -> Program:
    """The program that trains the sample."""
    network = sample_network(mode)
    apply_scheme(network, scheme)
    return build_program(network, "sample")


def sample_image(seed: int = 0) -> np.ndarray:
    """Rows x columns x channels of int8."""
    return np.random.default_rng(seed).integers(-128, 128, (9, 8, 2), dtype=np.int8)


def write_emitted(
    program: Program, folder: Path, prefix: str = "net", rates: Rates = RATES
) -> Path:
    """The library's files in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in emit_library(program, prefix, rates).items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder
