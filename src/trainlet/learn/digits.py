# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's handwritten digits, split for a network that learns upright and then on a device.

1797 grey images of 8 x 8 pixels with values 0..16 (the test set of the UCI data set "Optical
Recognition of Handwritten Digits"), here enlarged to 16 x 16 pixels of 0..255.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CLASSES = 10
SIDE = 16
_LARGEST = 16  # of a pixel in the package's images
_TRAINING, _DEVICE = 900, 497  # the rest, 400 images, is the test set
_SEED = 20220630


@dataclass(frozen=True, eq=False)
class Digits:
    """Images uint8 [N, 16, 16, 1] and labels int64 [N]."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.images)

    def turned(self) -> Digits:
        """The same digits as a sensor sees them that is mounted turned by 90 degrees."""
        return Digits(np.ascontiguousarray(np.rot90(self.images, axes=(1, 2))), self.labels)


@dataclass(frozen=True)
class DigitSplits:
    """Disjoint parts: what the network was made from, what the device meets, what is held out."""

    training: Digits
    device: Digits
    test: Digits


def load_digits() -> DigitSplits:
    """Read the package's images and split them; the same split everywhere."""
    from sklearn import datasets  # takes a second, which other commands need not wait for

    raw = datasets.load_digits()
    images = enlarge(np.asarray(raw.images).astype(np.int64))
    labels = np.asarray(raw.target).astype(np.int64)
    # Raw draws: numpy promises that a bit generator's stream never changes.
    draws = np.asarray(np.random.PCG64(_SEED).random_raw(len(images)), dtype=np.uint64)
    order = np.argsort(draws, kind="stable")
    parts = np.split(order, (_TRAINING, _TRAINING + _DEVICE))
    return DigitSplits(*(Digits(images[part], labels[part]) for part in parts))


def enlarge(images: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Double the sides of [N, H, W] of 0..16, bilinear; pixels of 0..255, [N, 2H, 2W, 1].

    With pixel centres at halves an output lies a quarter of the way from the nearest input to the
    next, so a side's weights are 3/4 and 1/4 and everything is an integer over 16.
    """
    for axis in (1, 2):
        pad = [(1, 1) if a == axis else (0, 0) for a in range(3)]
        size = images.shape[axis]
        wide = np.pad(images, pad, mode="edge")
        before, here, after = (np.take(wide, np.arange(size) + k, axis) for k in range(3))
        pair = np.stack([3 * here + before, 3 * here + after], axis=axis + 1)
        images = pair.reshape(*images.shape[:axis], 2 * size, *images.shape[axis + 1 :])
    most = 16 * _LARGEST
    return ((images * 255 + most // 2) // most).astype(np.uint8)[..., None]
