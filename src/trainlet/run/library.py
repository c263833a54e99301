# SPDX-License-Identifier: Apache-2.0
"""An emitted C library as the runners see it: its files, its sizes, and what a machine can do."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trainlet.errors import TrainletError

Progress = Callable[[str, int, int], None]
"""Called with (what, done, total) while long work goes on."""

STATUS_OK = 0
STATUS_LABEL = 1
STATUS_NOT_INITIALIZED = 2


@dataclass(frozen=True)
class EmittedLibrary:
    """A folder of C whose names carry `prefix`; sizes are those its header states."""

    folder: Path
    prefix: str
    input_bytes: int
    classes: int
    trainable_bytes: int

    @property
    def header(self) -> str:
        """The name of the public header."""
        return f"{self.prefix}.h"

    @property
    def sources(self) -> list[Path]:
        """Every C file of the library, sorted."""
        return sorted(self.folder.glob("*.c"))


def read_library(folder: Path | str, prefix: str) -> EmittedLibrary:
    """Read the sizes from `<prefix>.h`; raises TrainletError where it is no emitted library."""
    folder = Path(folder)
    header = folder / f"{prefix}.h"
    try:
        text = header.read_text(encoding="utf-8")
    except OSError as error:
        raise TrainletError(
            f"{header}: cannot be read ({error.strerror}); give a folder that was written by"
            f" `trainlet compile` and the prefix it was compiled with"
        ) from error
    library = EmittedLibrary(
        folder,
        prefix,
        input_bytes=_macro(text, header, prefix, "INPUT_BYTES"),
        classes=_macro(text, header, prefix, "CLASSES"),
        trainable_bytes=_macro(text, header, prefix, "TRAINABLE_BYTES"),
    )
    if not library.sources:
        raise TrainletError(f"{folder}: holds no C file; compile the network again")
    return library


def _macro(text: str, header: Path, prefix: str, name: str) -> int:
    """Return the integer that `#define <PREFIX>_<name>` stands for."""
    pattern = rf"^\s*#\s*define\s+{re.escape(prefix)}_{name}\s+\(?\s*(\w+?)[uUlL]*\s*\)?\s*(?:/|$)"
    found = re.search(pattern, text, re.MULTILINE | re.IGNORECASE)
    if found is None:
        raise TrainletError(
            f"{header}: does not define {prefix.upper()}_{name}; compile the network again"
        )
    return int(found.group(1), 0)


class Machine(Protocol):
    """What the host library and the emulated device both do, with the same bits.

    An image is int8, height x width x channels, `library.input_bytes` values. Statuses are the
    library's own: 0 is success, 1 a label out of range, 2 a call before `init`.
    """

    @property
    def library(self) -> EmittedLibrary:
        """The library that runs."""

    def init(self, seed: int = 0) -> None:
        """Put the weights back to those the library was built with; `seed` starts the generator."""

    def set_learning_rate(self, backbone: float, head: float) -> None:
        """Set the rates of the int8 layers and of the float32 head."""

    def predict(self, image: ArrayLike) -> int:
        """Run forward on one image; return the status."""

    def train_step(self, image: ArrayLike, label: int) -> int:
        """Learn from one image; return the status."""

    def logits(self) -> NDArray[np.float32]:
        """Return a copy of the logits of the last call, [classes]."""

    def loss(self) -> float:
        """Return the loss of the last training step."""

    def trainables(self) -> NDArray[np.uint8]:
        """Return a copy of everything that learns, [trainable_bytes]."""

    def set_trainables(self, block: ArrayLike) -> None:
        """Overwrite everything that learns with a block that `trainables` returned."""


def image_bytes(image: ArrayLike, library: EmittedLibrary) -> NDArray[np.int8]:
    """Return the image as flat int8; raises TrainletError for another size or type."""
    array = np.asarray(image)
    if array.dtype != np.int8 or array.size != library.input_bytes:
        raise TrainletError(
            f"an image of {array.size} values of type {array.dtype} was given;"
            f" {library.prefix} takes {library.input_bytes} values of type int8"
        )
    return np.ascontiguousarray(array).reshape(-1)


def trainable_block(block: ArrayLike, library: EmittedLibrary) -> NDArray[np.uint8]:
    """Return the block as flat uint8; raises TrainletError for another size or type."""
    array = np.asarray(block)
    if array.dtype != np.uint8 or array.size != library.trainable_bytes:
        raise TrainletError(
            f"a block of {array.size} values of type {array.dtype} was given; what learns in"
            f" {library.prefix} is {library.trainable_bytes} bytes"
        )
    return np.ascontiguousarray(array).reshape(-1)


def checked_label(label: int) -> int:
    """Return the label if it can be passed as uint32; the library judges its range."""
    label = int(label)
    if not 0 <= label < 2**32:
        raise TrainletError(f"label {label} is not an unsigned 32-bit number")
    return label
