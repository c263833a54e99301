# SPDX-License-Identifier: Apache-2.0
"""The images that a library learns from and is judged by, quantized for its input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainlet.errors import TrainletError
from trainlet.learn.images import LabelledImages, load_images, split_names, to_int8

_JUDGES = ("val", "test")
_RANDOM_IMAGES = 16

Limits = tuple[int | None, int | None]
"""Of classes and of images."""


@dataclass(frozen=True, eq=False)
class Part:
    """int8 images [N, H, W, C] and labels [N]."""

    images: NDArray[np.int8]
    labels: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Examples:
    """What to learn from, and perhaps what to judge by; `source` says where they come from."""

    source: str
    learn: Part
    judge: Part | None
    judge_split: str | None
    skipped: tuple[str, ...]


def choose_examples(
    manifest: Mapping[str, Any],
    path: Path | None,
    split: str,
    limits: Limits,
    evaluate: int | None,
    seed: int,
) -> Examples:
    """Load a data set's split and, to judge by, `evaluate` images of val or test.

    Without a path the images are random.

    Raises:
        TrainletError: the data cannot be had, or have more classes than the library.
    """
    if path is None:
        if evaluate is not None:
            raise TrainletError("--evaluate needs real images: give --images too")
        return _random_examples(manifest, limits[1], seed)
    learn = _load(manifest, path, split, limits)
    skipped = learn.skipped
    judge, judge_split = None, None
    if evaluate is not None:
        judge_split = _judging_split(path, split)
        found = _load(manifest, path, judge_split, (limits[0], evaluate))
        judge = _quantized(manifest, found)
        skipped += found.skipped
    return Examples(f"{path} ({split})", _quantized(manifest, learn), judge, judge_split, skipped)


def _load(manifest: Mapping[str, Any], path: Path, split: str, limits: Limits) -> LabelledImages:
    shape = manifest["input"]
    found = load_images(
        path,
        rows=shape["rows"],
        columns=shape["columns"],
        channels=shape["channels"],
        split=split,
        classes_limit=limits[0],
        images_limit=limits[1],
    )
    there, known = len(found.class_names), manifest["classes"]
    if there > known:
        raise TrainletError(
            f"'{path}' has {there} classes, but the library has {known}:"
            f" add --classes-limit {known}, or compile with --classes {there}"
        )
    return found


def _judging_split(path: Path, split: str) -> str:
    there = split_names(path)
    for name in _JUDGES:
        if name in there and name != split:
            return name
    raise TrainletError(
        f"--evaluate needs a split val or test beside '{split}'; '{path}' has {', '.join(there)}"
    )


def _quantized(manifest: Mapping[str, Any], found: LabelledImages) -> Part:
    quantization = manifest["input"]
    images = to_int8(found.images, quantization["scale"], quantization["zero"])
    return Part(images, found.labels)


def _random_examples(manifest: Mapping[str, Any], limit: int | None, seed: int) -> Examples:
    count = _RANDOM_IMAGES if limit is None else limit
    shape = [manifest["input"][axis] for axis in ("rows", "columns", "channels")]
    rng = np.random.default_rng(seed)
    images = rng.integers(-128, 128, (count, *shape), dtype=np.int8)
    labels = rng.integers(0, manifest["classes"], count)
    return Examples(f"{count} random images (seed {seed})", Part(images, labels), None, None, ())
