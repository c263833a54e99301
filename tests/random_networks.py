# SPDX-License-Identifier: Apache-2.0
"""Random small int8 networks whose activations use their range, for property-based tests."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from trainlet.nn import (
    FloatHead,
    Int8Add,
    Int8AvgPool2d,
    Int8Clamp,
    Int8Conv2d,
    Int8Linear,
    Int8MaxPool2d,
    Int8Network,
    InvertedResidual,
    Quantization,
    apply_scheme,
    convolutions,
)
from trainlet.scheme import RATIOS, Scheme

KINDS = ["residual", "residual", "plain", "group", "max", "avg", "clamp", "linear"]


class Maker:
    """Draws layers whose output scale fits what they compute on a random image."""

    def __init__(self, seed: int, mode: str) -> None:
        self.draw = np.random.default_rng(seed)
        self.mode = mode

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> Tensor:
        return torch.from_numpy(self.draw.integers(low, high + 1, shape))

    def conv(
        self,
        x: Tensor,
        quantization: Quantization,
        out: int,
        kernel: tuple[int, int] = (1, 1),
        stride: tuple[int, int] = (1, 1),
        padding: tuple[int, int, int, int] = (0, 0, 0, 0),
        groups: int = 1,
        relu: bool = True,
    ) -> tuple[Int8Conv2d, Tensor]:
        """A convolution for the map x, and its output."""
        weight = self.integers(-127, 127, (out, x.shape[1] // groups, *kernel))
        scales = torch.from_numpy(self.draw.uniform(0.002, 0.01, out))
        if self.draw.random() < 0.3:
            scales[self.draw.integers(out)] = 4e-9  # a dead channel
        bias = self.integers(-2000, 2000, (out,))

        def layer(y: Quantization) -> Int8Conv2d:
            return Int8Conv2d(
                weight,
                bias,
                weight_scales=scales,
                x=quantization,
                y=y,
                stride=stride,
                padding=padding,
                groups=groups,
                clamp=(-128, 127),
                requantize=self.mode,
            )

        wide = layer(Quantization(1000.0, 0))
        real = (wide.weight.flatten(1).abs().sum(1) * scales).max() * quantization.scale * 40
        y = Quantization(float(real) / 128, -128 if relu else int(self.draw.integers(-20, 20)))
        made = layer(y)
        return made, made(x)

    def linear(
        self, x: Tensor, q: Quantization, out: int
    ) -> tuple[nn.Module, Tensor, Quantization]:
        """A fully connected layer for the map x, its output and its output's quantization."""
        conv, y = self.conv(x, q, out, (x.shape[2], x.shape[3]))
        layer = Int8Linear(
            conv.weight.flatten(1),
            conv.bias.detach(),
            weight_scales=conv.weight_scales,
            x=q,
            y=conv.y,
            shape=x.shape[1:],
            requantize=self.mode,
        )
        assert torch.equal(layer(x), y)
        return layer, y, conv.y


def _same(kernel: tuple[int, int]) -> tuple[int, int, int, int]:
    return ((kernel[0] - 1) // 2, (kernel[1] - 1) // 2, kernel[0] // 2, kernel[1] // 2)


@st.composite
def networks(draw: st.DrawFn) -> Int8Network:
    """A network of a stem, up to three blocks, a pool and a head."""
    maker = Maker(draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from(["fast", "tflite"])))
    channels, rows, columns = draw(st.integers(1, 3)), draw(st.integers(5, 10)), 8
    image = Quantization(1 / 127.5, draw(st.sampled_from([0, -3, 7])))
    x = maker.integers(-128, 127, (1, channels, rows, columns)).float()
    kernel = draw(st.sampled_from([(3, 3), (1, 1), (2, 3), (5, 5)]))
    stride = draw(st.sampled_from([(1, 1), (2, 2), (2, 1)]))
    stem, y = maker.conv(x, image, draw(st.integers(2, 9)), kernel, stride, _same(kernel))
    quantization, blocks = stem.y, []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(KINDS))
        block, y, quantization = _block(draw, maker, kind, y, quantization)
        blocks.append(block)
    pool = draw(st.sampled_from([None, nn.Identity()]))
    features = y.shape[1] if pool is None else y[0].numel()
    head = FloatHead(features, draw(st.integers(2, 6)), quantization, seed=1)
    return Int8Network(stem, blocks, head, input_shape=(channels, rows, columns), pool=pool)


def _block(
    draw: st.DrawFn, maker: Maker, kind: str, x: Tensor, q: Quantization
) -> tuple[nn.Module, Tensor, Quantization]:
    if kind == "max" and min(x.shape[2:]) >= 3:
        layer: nn.Module = Int8MaxPool2d((2, 2), (1, 2), (0, 0, 1, 0))
        return layer, layer(x), q
    if kind == "avg" and min(x.shape[2:]) >= 3:
        layer = Int8AvgPool2d((3, 3), (2, 2), (1, 1, 1, 1))
        return layer, layer(x), q
    if kind == "clamp":
        layer = Int8Clamp(max(q.zero, -100), 90)
        return layer, layer(x), q
    if kind == "linear":
        return maker.linear(x, q, draw(st.integers(2, 7)))
    if kind == "group":
        groups = 2 if x.shape[1] % 2 == 0 else 1
        conv, y = maker.conv(x, q, 2 * groups, (3, 3), (1, 1), (1, 1, 1, 1), groups)
        return conv, y, conv.y
    wide = draw(st.integers(3, 13))
    first, y = maker.conv(x, q, wide)
    size = draw(st.sampled_from([3, 5]))
    stride = (1, 1) if kind == "residual" else draw(st.sampled_from([(1, 1), (2, 2)]))
    depthwise, y = maker.conv(
        y, first.y, wide, (size, size), stride, _same((size, size)), groups=wide
    )
    out = x.shape[1] if kind == "residual" else draw(st.integers(2, 7))
    last, y = maker.conv(y, depthwise.y, out, relu=False)
    add = None
    if kind == "residual":
        total = Quantization(max(q.scale, last.y.scale) * 1.3, 5)
        add = Int8Add(q, last.y, total, requantize=maker.mode)
        y = add(x, y)
    block = InvertedResidual(first, depthwise, last, add)
    return block, y, last.y if add is None else add.y


@st.composite
def trained_networks(draw: st.DrawFn) -> Int8Network:
    """A random network with a random scheme set."""
    network = draw(networks())
    paths = list(convolutions(network))
    last = draw(st.integers(0, len(paths)))
    inside = paths[len(paths) - last :]
    weights = tuple((path, draw(st.sampled_from(RATIOS))) for path in inside if draw(st.booleans()))
    scheme = Scheme(
        "random",
        biases=last,
        weights=weights,
        channels=draw(st.sampled_from(["magnitude", "first", "random"])),
        seed=draw(st.integers(0, 99)),
    )
    apply_scheme(network, scheme)
    return network


def image_of(network: Int8Network, seed: int) -> np.ndarray:
    """A random int8 image, rows x columns x channels."""
    channels, rows, columns = network.input_shape
    return np.random.default_rng(seed).integers(-128, 128, (rows, columns, channels), dtype=np.int8)


def as_tensor(image: np.ndarray) -> Tensor:
    """The image as PyTorch wants it, [1, C, H, W]."""
    return torch.from_numpy(image).permute(2, 0, 1).unsqueeze(0).float()
