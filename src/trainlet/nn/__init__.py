# SPDX-License-Identifier: Apache-2.0
"""int8 layers and networks as PyTorch modules over the operator set."""

from trainlet.nn.conv import Int8Conv2d
from trainlet.nn.layers import (
    FloatHead,
    Int8Add,
    Int8AvgPool2d,
    Int8Clamp,
    Int8GlobalAvgPool2d,
    Int8MaxPool2d,
)
from trainlet.nn.learning import apply_scheme, convolutions
from trainlet.nn.linear import Int8Linear
from trainlet.nn.network import Int8Network, InvertedResidual
from trainlet.nn.quantization import Quantization
from trainlet.nn.update_rule import UpdateRule

__all__ = [
    "FloatHead",
    "Int8Add",
    "Int8AvgPool2d",
    "Int8Clamp",
    "Int8Conv2d",
    "Int8GlobalAvgPool2d",
    "Int8Linear",
    "Int8MaxPool2d",
    "Int8Network",
    "InvertedResidual",
    "Quantization",
    "UpdateRule",
    "apply_scheme",
    "convolutions",
]
