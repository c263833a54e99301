# SPDX-License-Identifier: Apache-2.0
"""Where labelled images come from: a folder or a zip of `split/class/image`, or an .npz."""

from __future__ import annotations

import io
import warnings
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from trainlet.errors import TrainletError

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
_LARGEST_FILE = 64 << 20
_SHOWN = 12

Shape = tuple[int, int, int]
"""Rows, columns, channels."""


class BadImageError(Exception):
    """One image cannot be decoded; the others may."""


class ImageSource(ABC):
    """The names of a data set's images by split and class, and their pixels."""

    splits: tuple[str, ...]
    classes: tuple[str, ...]
    layout: str

    @abstractmethod
    def names(self, split: str, class_name: str) -> Sequence[str]:
        """Return the images of a class, sorted; empty where a split lacks the class."""

    @abstractmethod
    def decode(self, name: str, shape: Shape) -> NDArray[np.uint8]:
        """Return one image cropped and resized to `shape`; raises BadImageError."""


@contextmanager
def open_source(path: Path) -> Iterator[ImageSource]:
    """Open a data set and tell its kind by its content.

    Raises:
        TrainletError: there is nothing, or nothing that is a data set.
    """
    if path.is_dir():
        yield _open_folder(path)
        return
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if names and all(name.endswith(".npy") for name in names):
                yield _Arrays(path)
            else:
                yield _Tree(names, lambda name: _read_member(archive, name), f"zip '{path}'")
    except FileNotFoundError:
        raise TrainletError(f"there are no images at '{path}': it does not exist") from None
    except zipfile.BadZipFile:
        raise TrainletError(
            f"'{path}' is neither a folder nor an intact zip or .npz of images"
        ) from None
    except OSError as error:
        raise TrainletError(f"'{path}' cannot be read: {error.strerror or error}") from None


def _open_folder(path: Path) -> ImageSource:
    names = (found.relative_to(path).as_posix() for found in path.glob("*/*/*"))
    return _Tree(names, lambda name: _read_file(path / name), f"folder '{path}'")


class _Tree(ImageSource):
    """Files at `split/class/image`; a zip may hold them all in one more folder."""

    layout = "a data set is laid out split/class/image.jpg"

    def __init__(self, names: Iterable[str], read: Callable[[str], bytes], where: str) -> None:
        self._read = read
        self._names: dict[tuple[str, str], list[str]] = {}
        files = [(_parts(name), name) for name in names]
        deepest = max((len(parts) for parts, _ in files), default=0)
        tops = {parts[0] for parts, _ in files if len(parts) == deepest}
        start = 1 if deepest == 4 and len(tops) == 1 else 0
        for parts, name in files:
            if len(parts) == start + 3 and PurePosixPath(name).suffix.lower() in SUFFIXES:
                self._names.setdefault((parts[start], parts[start + 1]), []).append(name)
        if not self._names:
            raise TrainletError(f"{where} holds no image: {self.layout} ({', '.join(SUFFIXES)})")
        self.splits = tuple(sorted({split for split, _ in self._names}))
        self.classes = tuple(sorted({class_name for _, class_name in self._names}))

    def names(self, split: str, class_name: str) -> Sequence[str]:
        """Return the paths of a class's images, sorted."""
        return sorted(self._names.get((split, class_name), ()))

    def decode(self, name: str, shape: Shape) -> NDArray[np.uint8]:
        """Read, decode and fit one file."""
        try:
            with warnings.catch_warnings():
                # An image far larger than any camera's is taken for a hostile one.
                warnings.simplefilter("error", Image.DecompressionBombWarning)
                with Image.open(io.BytesIO(self._read(name))) as image:
                    return fit(ImageOps.exif_transpose(image), shape)
        except Exception as error:
            # Pillow's and zipfile's readers raise nearly anything on damaged bytes.
            raise BadImageError(f"{name}: {error}") from error


def _parts(name: str) -> tuple[str, ...]:
    """Split a path; hidden files and the resource forks of a Mac's zip have no parts."""
    parts = PurePosixPath(name).parts
    hidden = any(part.startswith(".") or part == "__MACOSX" for part in parts)
    return () if hidden else parts


def _read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).file_size > _LARGEST_FILE:
        raise ValueError(f"more than {_LARGEST_FILE} bytes")
    return archive.read(name)


def _read_file(path: Path) -> bytes:
    if path.stat().st_size > _LARGEST_FILE:
        raise ValueError(f"more than {_LARGEST_FILE} bytes")
    return path.read_bytes()


class _Arrays(ImageSource):
    """An .npz with x_<split>, y_<split> and, if it likes, the classes' names in `classes`."""

    layout = "an .npz holds x_<split> and y_<split>, such as x_train and y_train"

    def __init__(self, path: Path) -> None:
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays: dict[str, NDArray[np.generic]] = {key: file[key] for key in file.files}
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
            raise TrainletError(f"'{path}' cannot be read as an .npz: {error}") from None
        self.splits = tuple(
            sorted(key[2:] for key in arrays if key.startswith("x_") and f"y_{key[2:]}" in arrays)
        )
        if not self.splits:
            there = ", ".join(sorted(arrays)[:_SHOWN])
            raise TrainletError(f"'{path}' holds no images ({self.layout}); it has {there}")
        self._images: dict[str, NDArray[np.uint8]] = {}
        self._labels: dict[str, NDArray[np.int64]] = {}
        for split in self.splits:
            images, labels = arrays[f"x_{split}"], arrays[f"y_{split}"]
            _check_arrays(images, labels, split, path)
            self._images[split] = images.astype(np.uint8)
            self._labels[split] = labels.astype(np.int64)
        most = max(int(labels.max(initial=-1)) for labels in self._labels.values())
        named = tuple(str(name) for name in arrays.get("classes", np.zeros(0, str)).ravel())
        self.classes = (*named, *(str(number) for number in range(len(named), most + 1)))

    def names(self, split: str, class_name: str) -> Sequence[str]:
        """Return `split/index` of a class's images."""
        chosen = np.flatnonzero(self._labels[split] == self.classes.index(class_name))
        return [f"{split}/{index}" for index in chosen.tolist()]

    def decode(self, name: str, shape: Shape) -> NDArray[np.uint8]:
        """Fit one image of the array."""
        split, _, index = name.rpartition("/")
        pixels = self._images[split][int(index)]
        if pixels.ndim == 3 and pixels.shape[2] == 1:
            pixels = pixels[:, :, 0]
        return fit(Image.fromarray(pixels), shape)


def _check_arrays(
    images: NDArray[np.generic], labels: NDArray[np.generic], split: str, path: Path
) -> None:
    grey = images.ndim == 3
    colour = images.ndim == 4 and images.shape[3] in (1, 3)
    if images.dtype != np.uint8 or not (grey or colour) or 0 in images.shape[1:]:
        raise TrainletError(
            f"x_{split} of '{path}' is {images.dtype} {images.shape}; images are uint8"
            " [N, H, W], [N, H, W, 1] or [N, H, W, 3]"
        )
    fits = labels.shape == images.shape[:1] and np.issubdtype(labels.dtype, np.integer)
    if not fits or (labels.size and not 0 <= int(labels.min()) <= int(labels.max()) < 1 << 16):
        raise TrainletError(
            f"y_{split} of '{path}' is {labels.dtype} {labels.shape}; it must hold one class"
            f" number in 0 .. 65535 for each of the {len(images)} images"
        )


def fit(image: Image.Image, shape: Shape) -> NDArray[np.uint8]:
    """Crop to the ratio of rows to columns about the centre and resize; uint8 [H, W, C]."""
    rows, columns, channels = shape
    if image.mode.startswith("I"):
        # 16 bits a pixel; Pillow's own conversion would clip and not scale.
        image = Image.fromarray((np.asarray(image).clip(0, 65535) >> 8).astype(np.uint8))
    image = image.convert("RGB" if channels == 3 else "L")
    width, height = image.size
    scale = min(width / columns, height / rows)
    left, top = (width - columns * scale) / 2, (height - rows * scale) / 2
    box = (left, top, min(left + columns * scale, width), min(top + rows * scale, height))
    resized = image.resize((columns, rows), Image.Resampling.BILINEAR, box=box)
    return np.asarray(resized, dtype=np.uint8).reshape(shape)
