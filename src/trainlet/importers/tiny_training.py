# SPDX-License-Identifier: Apache-2.0
"""The networks of On-Device Training Under 256KB Memory (tiny-training's .pkl) as modules.

The input is int8 with scale 1/127.5 and zero 0: round(pixel - 127.5) of an RGB pixel in 0..255.
"""

from __future__ import annotations

from pathlib import Path

import torch

from trainlet.errors import TrainletError
from trainlet.importers.records import BlockRecord, ConvRecord, NetworkRecord
from trainlet.importers.resolution import check_resolution
from trainlet.importers.tiny_training_records import read_tiny_training
from trainlet.nn import FloatHead, Int8Add, Int8Conv2d, Int8Network, InvertedResidual
from trainlet.ops.requantize import FAST, MODES

_MOST_CLASSES = 1 << 16


def import_tiny_training(
    path: str | Path,
    classes: int | None = None,
    resolution: int = 128,
    requantize: str = FAST,
    seed: int = 0,
) -> Int8Network:
    """Read a tiny-training pickle and build the network it holds.

    Args:
        path: the pickle.
        classes: another number of classes than the file's gives a new head, drawn from `seed`;
            else the head is the file's int8 classifier, dequantized.
        resolution: height and width of the input image.
        requantize: "fast" or "tflite" (see ops/requantize.py).
        seed: for a new head.

    Raises:
        TrainletError: the file is not such a network, or the arguments do not suit it.
    """
    if requantize not in MODES:
        raise TrainletError(f"requantize is {requantize!r}; it must be one of {', '.join(MODES)}")
    if classes is not None and not 2 <= classes <= _MOST_CLASSES:
        raise TrainletError(f"classes is {classes}; it must lie in 2 .. {_MOST_CLASSES}")
    record = read_tiny_training(path)
    check_resolution(record, resolution, str(path))
    return build(record, classes, resolution, requantize, seed)


def build(
    record: NetworkRecord, classes: int | None, resolution: int, requantize: str, seed: int
) -> Int8Network:
    """Build the modules of a checked network; arguments as in `import_tiny_training`."""
    blocks = [
        _block(block, f"blocks.{index}", requantize) for index, block in enumerate(record.blocks)
    ]
    return Int8Network(
        _conv(record.first_conv, "first_conv", requantize),
        blocks,
        _head(record.classifier, classes, seed),
        input_shape=(record.first_conv.in_channels, resolution, resolution),
    )


def _block(record: BlockRecord, path: str, requantize: str) -> InvertedResidual:
    layers = {
        name: _conv(conv, f"{path}.{name}", requantize) for name, conv in record.convolutions()
    }
    add = None
    if record.residual is not None:
        _, first = next(record.convolutions())
        add = Int8Add(first.input, record.pointwise2.output, record.residual, requantize=requantize)
    return InvertedResidual(
        layers.get("pointwise1"), layers["depthwise"], layers["pointwise2"], add
    )


def _conv(record: ConvRecord, path: str, requantize: str) -> Int8Conv2d:
    """Build one convolution; the bias of a dead channel is clipped to what int32 sums allow."""
    limit = record.bias_limit
    try:
        return Int8Conv2d(
            torch.from_numpy(record.weight),
            torch.from_numpy(record.bias.clip(-limit, limit)),
            weight_scales=torch.from_numpy(record.weight_scales),
            x=record.input,
            y=record.output,
            stride=record.stride,
            padding=(*record.padding, *record.padding),
            groups=record.groups,
            requantize=requantize,
        )
    except TrainletError as error:
        raise TrainletError(f"{path}: {error}") from None


def _head(record: ConvRecord, classes: int | None, seed: int) -> FloatHead:
    """Build the float head: a new one, or the classifier with weight W * s_w, bias b * s_x * s_w.

    The file's rounding of the logits to int8 is left out.
    """
    kept = record.out_channels if classes is None else classes
    head = FloatHead(record.in_channels, kept, record.input, seed=seed)
    if kept == record.out_channels:
        scales = record.weight_scales
        weight = record.weight.reshape(kept, -1) * scales[:, None]
        with torch.no_grad():
            head.weight.copy_(torch.from_numpy(weight))
            head.bias.copy_(torch.from_numpy(record.bias * (record.input.scale * scales)))
    return head
