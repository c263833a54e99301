# SPDX-License-Identifier: Apache-2.0
"""VGG-16 (Simonyan and Zisserman, 2014, configuration D), for 224-pixel images and for CIFAR.

The CIFAR form ends at 512 channels of one pixel and has classifier layers of 512.
"""

from __future__ import annotations

from torch import Tensor, nn

_STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))


class VGG16(nn.Module):
    """Thirteen 3x3 convolutions with five pools, then three linear layers with dropout."""

    def __init__(self, classes: int, *, cifar: bool) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for width, depth in _STAGES:
            for _ in range(depth):
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
                channels = width
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        wide, inputs = (512, 512) if cifar else (4096, 512 * 7 * 7)
        self.classifier = nn.Sequential(
            nn.Linear(inputs, wide),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(wide, wide),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(wide, classes),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Images (batch, 3, rows, columns) to logits (batch, classes)."""
        logits: Tensor = self.classifier(self.features(images).flatten(1))
        return logits


def vgg16(classes: int = 1000, *, cifar: bool = False) -> VGG16:
    """138 million parameters at 1000 classes; 15 million in the CIFAR form."""
    return VGG16(classes, cifar=cifar)
