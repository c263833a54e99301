# SPDX-License-Identifier: Apache-2.0
"""Values on disk: one preallocated file, a checksum for each page, nothing left behind.

The file loses its name as soon as it is open, so that it is gone whatever ends the process.
All space is taken before the first operator runs: a full disk shows before any work is done.
"""

from __future__ import annotations

import os
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from trainlet.errors import TrainletError

_SECTOR = 4096  # pages start on the disk's own blocks
_ZEROS = 1 << 20  # bytes a write


@dataclass(frozen=True)
class _Page:
    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    bytes: int
    checksum: int


class PageFile:
    """Room for the named values, in bytes each, in a file without a name in ``folder``.

    Raises:
        TrainletError: the folder is not there or cannot be written, or the disk is full.
    """

    def __init__(self, folder: Path, sizes: Mapping[str, int]) -> None:
        self._folder = folder
        self._sizes = dict(sizes)
        self._places: dict[str, int] = {}
        self._pages: dict[str, _Page] = {}
        self.bytes_out = self.bytes_in = 0
        end = 0
        for name, size in sizes.items():
            self._places[name] = end
            end += -(-size // _SECTOR) * _SECTOR
        self._file = self._open(end)

    def _open(self, total: int) -> int:
        try:
            file, path = tempfile.mkstemp(prefix="trainlet-", suffix=".pages", dir=self._folder)
        except OSError as error:
            raise TrainletError(
                f"cannot page to {self._folder}: {error.strerror}; name a folder on disk"
            ) from error
        try:
            os.unlink(path)
            _reserve(file, total)
        except OSError as error:
            os.close(file)
            raise TrainletError(
                f"cannot reserve {total} bytes for pages in {self._folder}: {error.strerror}; "
                "make room or plan with less paging"
            ) from error
        return file

    def __enter__(self) -> PageFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._file)

    def write(self, name: str, tensor: Tensor) -> None:
        """Copy a value's block to its place.

        Raises:
            TrainletError: the disk does not take it.
        """
        data = _bytes_of(tensor)
        if len(data) > self._sizes[name]:
            raise TrainletError(
                f"value '{name}' has {len(data)} bytes; its page has {self._sizes[name]}"
            )
        try:
            _write_all(self._file, data, self._places[name])
        except OSError as error:
            raise TrainletError(
                f"cannot write the page of '{name}' in {self._folder}: {error.strerror}"
            ) from error
        self.bytes_out += len(data)
        self._pages[name] = _Page(
            tensor.dtype,
            tuple(tensor.shape),
            tensor.stride(),
            int(tensor.storage_offset()),
            len(data),
            zlib.crc32(data),
        )

    def read(self, name: str) -> Tensor:
        """A value as it was written: same bytes, shape and strides.

        Raises:
            TrainletError: the page cannot be read, or its bytes have changed.
        """
        page = self._pages[name]
        block = torch.empty(page.bytes, dtype=torch.uint8)
        data = _view_of(block)
        try:
            _read_all(self._file, data, self._places[name])
        except OSError as error:
            raise TrainletError(
                f"cannot read the page of '{name}' in {self._folder}: {error.strerror}"
            ) from error
        if zlib.crc32(data) != page.checksum:
            raise TrainletError(
                f"the page of '{name}' in {self._folder} is damaged: its checksum has changed"
            )
        self.bytes_in += len(data)
        tensor = torch.empty(0, dtype=page.dtype)
        return tensor.set_(block.untyped_storage(), page.offset, page.size, page.stride)


def _reserve(file: int, total: int) -> None:
    """Take the space now; where the system cannot promise it, by writing."""
    if total and hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, total)
        return
    zeros = memoryview(bytes(min(total, _ZEROS)))
    for place in range(0, total, _ZEROS):
        _write_all(file, zeros[: total - place], place)


def _bytes_of(tensor: Tensor) -> memoryview:
    """The whole block behind a tensor, uncopied."""
    block = torch.empty(0, dtype=torch.uint8)
    return _view_of(block.set_(tensor.untyped_storage()))


def _view_of(block: Tensor) -> memoryview:
    array: Any = block.numpy()
    return memoryview(array)


def _write_all(file: int, data: memoryview, place: int) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(file, data[done:], place + done)


def _read_all(file: int, data: memoryview, place: int) -> None:
    done = 0
    while done < len(data):
        count = os.preadv(file, [data[done:]], place + done)
        if count == 0:
            raise OSError(0, "the file ends early")
        done += count
