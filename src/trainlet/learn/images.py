# SPDX-License-Identifier: Apache-2.0
"""Labelled images of one size, from a folder, a zip or an .npz, and their int8 form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainlet.errors import TrainletError
from trainlet.learn.image_files import BadImageError, ImageSource, open_source

_MOST_SKIPPED = 5
# Two reals that differ by float32 rounding alone round to the same step.
_TIE_DECIMALS = 4


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Images uint8 [N, H, W, C] and labels int64 [N], indices into ``class_names``.

    ``class_names`` are those of the whole data set (cut to the limit), so that the splits of one
    data set agree; ``skipped`` names the images that could not be decoded.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    skipped: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.images)


def load_images(
    path: Path | str,
    *,
    rows: int,
    columns: int,
    channels: int,
    split: str,
    classes_limit: int | None = None,
    images_limit: int | None = None,
) -> LabelledImages:
    """Read one split of a data set.

    An image is turned as its EXIF says, cropped about its centre to the shape's ratio (so that
    its short side stays whole), and resized with Pillow's BILINEAR, which is deterministic.

    Args:
        path: a folder or a zip of `split/class/image`, or an .npz with `x_<split>` uint8
            [N, H, W] or [N, H, W, C] and `y_<split>` [N]. A zip is read without unpacking it.
        rows: height of the result.
        columns: width of the result.
        channels: 1 (grey) or 3 (RGB).
        split: such as "train".
        classes_limit: keep the first so many classes; sorted by name, an .npz's by number.
        images_limit: keep so many images, dealt out evenly over the classes, by name.

    Raises:
        TrainletError: no such data, split or class, or not a single image could be read.
    """
    for name, value in (("classes", classes_limit), ("images", images_limit)):
        if value is not None and value < 1:
            raise TrainletError(f"a limit of {value} {name} leaves nothing; give 1 or more")
    if channels not in (1, 3):
        raise TrainletError(f"images have 1 or 3 channels, but the network takes {channels}")
    with open_source(Path(path)) as source:
        _require_split(source, split, path)
        classes = source.classes[:classes_limit]
        found = _read(source, split, classes, (rows, columns, channels), images_limit)
    if not found.images.size:
        raise TrainletError(_nothing_found(path, split, classes, found.skipped))
    return found


def split_names(path: Path | str) -> tuple[str, ...]:
    """Return the splits of a data set, sorted; errors as in `load_images`."""
    with open_source(Path(path)) as source:
        return source.splits


def to_int8(images: NDArray[np.uint8], scale: float, zero: int) -> NDArray[np.int8]:
    """Quantize pixels for a network's input.

    A pixel stands for the real number pixel / 127.5 - 1, in [-1, 1]. It becomes the nearest
    integer q of real = scale * (q - zero), the lower one of a tie, in [-128, 127]. With the usual
    scale 1/127.5 and zero 0 every pixel is a tie, and q = pixel - 128.
    """
    pixels = np.arange(256, dtype=np.float64)
    steps = (pixels / 127.5 - 1.0) / scale + zero
    table = np.ceil(np.round(steps - 0.5, _TIE_DECIMALS)).clip(-128, 127).astype(np.int8)
    return table[images]


def _require_split(source: ImageSource, split: str, path: Path | str) -> None:
    if split not in source.splits:
        there = f"it has {', '.join(source.splits)}" if source.splits else "it has none"
        raise TrainletError(f"'{path}' has no split '{split}': {there} ({source.layout})")


def _read(
    source: ImageSource,
    split: str,
    classes: Sequence[str],
    shape: tuple[int, int, int],
    limit: int | None,
) -> LabelledImages:
    """Decode images until the limit is reached; they end up sorted by class and name."""
    found: list[tuple[int, int, NDArray[np.uint8]]] = []
    skipped: list[str] = []
    for label, position, name in _dealt([source.names(split, c) for c in classes]):
        if len(found) == limit:
            break
        try:
            found.append((label, position, source.decode(name, shape)))
        except BadImageError:
            skipped.append(name)
    found.sort(key=lambda entry: entry[:2])
    images = np.stack([image for _, _, image in found]) if found else np.zeros((0, *shape))
    labels = np.array([label for label, _, _ in found], dtype=np.int64)
    return LabelledImages(images.astype(np.uint8), labels, tuple(classes), tuple(skipped))


def _dealt(names: list[Sequence[str]]) -> Iterator[tuple[int, int, str]]:
    """Yield (label, position, name): the first of each class, then the second of each, ..."""
    for position, row in enumerate(zip_longest(*names)):
        for label, name in enumerate(row):
            if name is not None:
                yield label, position, name


def _nothing_found(
    path: Path | str, split: str, classes: Sequence[str], skipped: Sequence[str]
) -> str:
    if not skipped:
        return f"split '{split}' of '{path}' has no image in the classes {', '.join(classes)}"
    some = ", ".join(skipped[:_MOST_SKIPPED])
    more = f" and {len(skipped) - _MOST_SKIPPED} more" if len(skipped) > _MOST_SKIPPED else ""
    return f"not one image of split '{split}' of '{path}' can be decoded: {some}{more}"
