# SPDX-License-Identifier: Apache-2.0
"""ResNet-18 and ResNet-50 (He et al., 2015), for 224-pixel images and in the CIFAR form.

The CIFAR form starts with a 3x3 convolution of stride 1 and no pool; all else is the same. The
stride of a bottleneck sits in its 3x3 convolution, as in later releases of the network.
"""

from __future__ import annotations

from torch import Tensor, nn

_WIDTHS = (64, 128, 256, 512)


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    padding = kernel // 2
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False), nn.BatchNorm2d(outputs)
    )


class _Block(nn.Module):
    """Two or three convolutions beside a short cut."""

    def __init__(self, inputs: int, width: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        outputs = width * 4 if bottleneck else width
        if bottleneck:
            shapes = [(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)]
        else:
            shapes = [(inputs, width, 3, stride), (width, outputs, 3, 1)]
        self.convolutions = nn.ModuleList(_conv(*shape) for shape in shapes)
        plain = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if plain else _conv(inputs, outputs, 1, stride)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """Feature maps in, feature maps out."""
        y = x
        for index, convolution in enumerate(self.convolutions):
            y = convolution(y if index == 0 else self.relu(y))
        y += self.shortcut(x)
        result: Tensor = self.relu(y)
        return result


class ResNet(nn.Module):
    """Four stages of ``depths`` blocks, an average pool and a linear head."""

    def __init__(
        self, depths: tuple[int, ...], *, bottleneck: bool, classes: int, cifar: bool
    ) -> None:
        super().__init__()
        self.stem = _conv(3, 64, 3) if cifar else _conv(3, 64, 7, 2)
        self.relu = nn.ReLU(inplace=True)
        self.pool = nn.Identity() if cifar else nn.MaxPool2d(3, 2, 1)
        channels, blocks = 64, []
        for stage, (depth, width) in enumerate(zip(depths, _WIDTHS, strict=True)):
            for index in range(depth):
                stride = 2 if stage and index == 0 else 1
                blocks.append(_Block(channels, width, stride, bottleneck))
                channels = width * 4 if bottleneck else width
        self.blocks = nn.Sequential(*blocks)
        self.average = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(channels, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Images (batch, 3, rows, columns) to logits (batch, classes)."""
        x = self.blocks(self.pool(self.relu(self.stem(images))))
        logits: Tensor = self.head(self.average(x).flatten(1))
        return logits


def resnet18(classes: int = 1000, *, cifar: bool = False) -> ResNet:
    """11.7 million parameters at 1000 classes."""
    return ResNet((2, 2, 2, 2), bottleneck=False, classes=classes, cifar=cifar)


def resnet50(classes: int = 1000, *, cifar: bool = False) -> ResNet:
    """25.6 million parameters at 1000 classes."""
    return ResNet((3, 4, 6, 3), bottleneck=True, classes=classes, cifar=cifar)
