# SPDX-License-Identifier: Apache-2.0
"""Builds small tiny-training pickles: a torch zip with a data.pkl of dicts and arrays."""

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

INPUT = (1 / 127.5, 0)
RELU6 = (6 / 255, -128)
LINEAR = (0.05, 3)
SUM = (0.0613, -2)


def conv(
    inputs: int,
    outputs: int,
    kernel: int,
    x: tuple[float, int],
    y: tuple[float, int],
    *,
    stride: int = 1,
    groups: int = 1,
    rng: np.random.Generator,
) -> dict[str, Any]:
    shape = (outputs, inputs // groups, kernel, kernel)
    terms = shape[1] * kernel * kernel
    scales = rng.uniform(0.5, 1.0, outputs) * y[0] / x[0] / (12 * terms**0.5)
    return {
        "in_channel": inputs,
        "out_channel": outputs,
        "kernel_size": (kernel, kernel),
        "stride": stride,
        "groups": groups,
        "depthwise": groups > 1,
        "act": None,
        "params": {
            "weight": rng.integers(-127, 128, shape).astype(np.int8),
            "bias": rng.integers(-3000, 3000, outputs).astype(np.int32),
            "w_scales": scales.astype(np.float32),
            "x_scale": x[0],
            "x_zero": x[1],
            "y_scale": y[0],
            "y_zero": y[1],
        },
    }


def network(classes: int = 5, seed: int = 0) -> dict[str, Any]:
    """A first convolution, a block without and one with a residual, and a classifier."""
    rng = np.random.default_rng(seed)
    first = {
        "pointwise1": None,
        "depthwise": conv(8, 8, 3, RELU6, RELU6, groups=8, rng=rng),
        "pointwise2": conv(8, 6, 1, RELU6, LINEAR, rng=rng),
        "residual": None,
        "se": None,
    }
    second = {
        "pointwise1": conv(6, 12, 1, LINEAR, RELU6, rng=rng),
        "depthwise": conv(12, 12, 5, RELU6, RELU6, groups=12, rng=rng),
        "pointwise2": conv(12, 6, 1, RELU6, (0.04, 5), rng=rng),
        "residual": {
            "in_channel": 6,
            "in_shape": 8,
            "params": {
                "x_scale": LINEAR[0],
                "x_zero": LINEAR[1],
                "y_scale": SUM[0],
                "y_zero": SUM[1],
            },
        },
        "se": None,
    }
    return {
        "first_conv": conv(3, 8, 3, INPUT, RELU6, stride=2, rng=rng),
        "blocks": [first, second],
        "feature_mix": None,
        "classifier": conv(6, classes, 1, SUM, (0.1, 0), rng=rng),
    }


def write(path: Path, data: Any) -> Path:
    return write_bytes(path, pickle.dumps(data, protocol=2))


def write_bytes(path: Path, data: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", data)
        archive.writestr("archive/version", "3\n")
    return path
