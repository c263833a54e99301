# SPDX-License-Identifier: Apache-2.0
"""MobileNetV2 (Sandler et al., 2018) in float32, for 224-pixel images and for CIFAR.

The CIFAR form keeps the resolution in the stem and in the first stage that would halve it.
"""

from __future__ import annotations

from torch import Tensor, nn

# Expansion, output channels, repeats, stride: table 2 of the paper.
_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
_LAST = 1280


def _conv(
    inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(outputs)]


class _InvertedResidual(nn.Module):
    def __init__(self, inputs: int, outputs: int, expansion: int, stride: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        layers: list[nn.Module] = []
        if expansion != 1:
            layers += [*_conv(inputs, hidden), nn.ReLU6(inplace=True)]
        layers += [*_conv(hidden, hidden, 3, stride, hidden), nn.ReLU6(inplace=True)]
        layers += _conv(hidden, outputs)
        self.layers = nn.Sequential(*layers)
        self.has_shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """Feature maps in, feature maps out."""
        y: Tensor = self.layers(x)
        return x + y if self.has_shortcut else y


class MobileNetV2(nn.Module):
    """Seventeen inverted residuals, an average pool, dropout and a linear head."""

    def __init__(self, classes: int, *, cifar: bool, dropout: float = 0.2) -> None:
        super().__init__()
        layers: list[nn.Module] = [*_conv(3, 32, 3, 1 if cifar else 2), nn.ReLU6(inplace=True)]
        channels = 32
        for stage, (expansion, width, repeats, stride) in enumerate(_STAGES):
            for index in range(repeats):
                step = stride if index == 0 and not (cifar and stage == 1) else 1
                layers.append(_InvertedResidual(channels, width, expansion, step))
                channels = width
        layers += [*_conv(channels, _LAST), nn.ReLU6(inplace=True)]
        self.features = nn.Sequential(*layers)
        self.average = nn.AdaptiveAvgPool2d(1)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(_LAST, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Images (batch, 3, rows, columns) to logits (batch, classes)."""
        x = self.average(self.features(images)).flatten(1)
        logits: Tensor = self.head(self.dropout(x))
        return logits


def mobilenet_v2(classes: int = 1000, *, cifar: bool = False) -> MobileNetV2:
    """3.5 million parameters at 1000 classes."""
    return MobileNetV2(classes, cifar=cifar)
