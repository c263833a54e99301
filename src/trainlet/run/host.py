# SPDX-License-Identifier: Apache-2.0
"""The emitted library on this machine, called through ctypes."""

from __future__ import annotations

import ctypes
import sys
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trainlet.errors import TrainletError
from trainlet.run.library import (
    EmittedLibrary,
    Progress,
    checked_label,
    image_bytes,
    read_library,
    trainable_block,
)
from trainlet.run.objects import Source, compile_objects, first_message, run_compiler
from trainlet.run.toolchain import HOST, Toolchain, find_toolchain


def link_shared(toolchain: Toolchain, objects: Sequence[Path], target: Path) -> None:
    """Link a shared library that needs nothing but what the process already has."""
    # zig would bring its libc's stubs along, seconds of work at the first link; the library
    # wants at most memcpy and memset, which the process that loads it has.
    lean = ["-nostdlib"] if toolchain.is_zig and sys.platform == "linux" else []
    command = [*toolchain.command, *toolchain.target_flags, "-shared", *lean]
    result = run_compiler([*command, *map(str, objects), "-o", str(target)])
    if result.returncode != 0:
        raise TrainletError(f"the host library does not link: {first_message(result.stderr)}")


class HostLibrary:
    """One loaded copy of an emitted library; copies share no state. See `Machine`."""

    def __init__(
        self,
        folder: Path | str,
        prefix: str,
        *,
        cc: str | None = None,
        cache: Path | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Compile (or take from the cache), link and load; the weights wait for `init`."""
        self._library = read_library(folder, prefix)
        toolchain = find_toolchain(HOST, cc)
        sources = [Source(path, (self._library.folder,)) for path in self._library.sources]
        objects = compile_objects(toolchain, sources, cache=cache, progress=progress)
        # A path of its own for every instance: the loader hands out one copy for one file.
        with tempfile.TemporaryDirectory(prefix="trainlet-") as scratch:
            shared = Path(scratch) / f"{prefix}.so"
            link_shared(toolchain, objects, shared)
            self._code = ctypes.CDLL(str(shared))
        self._close = weakref.finalize(self, _unload, self._code._handle)
        self._declare()

    @property
    def library(self) -> EmittedLibrary:
        """The library that runs."""
        return self._library

    def close(self) -> None:
        """Unload the code; nothing may be called afterwards, and `input` views are dead."""
        self._close()

    def __enter__(self) -> HostLibrary:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def init(self, seed: int = 0) -> None:
        """Put the weights back to those the library was built with; `seed` starts the generator."""
        self._function("init")(seed)

    def input(self) -> NDArray[np.int8]:
        """Return a view of where the image is written, [input_bytes]; a call consumes it."""
        return np.ctypeslib.as_array(self._function("input")(), (self._library.input_bytes,))

    def predict(self, image: ArrayLike) -> int:
        """Run forward on one image; return the status."""
        self.input()[:] = image_bytes(image, self._library)
        return int(self._function("predict")())

    def train_step(self, image: ArrayLike, label: int) -> int:
        """Learn from one image; return the status."""
        self.input()[:] = image_bytes(image, self._library)
        return int(self._function("train_step")(checked_label(label)))

    def logits(self) -> NDArray[np.float32]:
        """Return a copy of the logits of the last call, [classes]."""
        return np.ctypeslib.as_array(self._function("logits")(), (self._library.classes,)).copy()

    def loss(self) -> float:
        """Return the loss of the last training step."""
        return float(self._function("loss")())

    def set_learning_rate(self, backbone: float, head: float) -> None:
        """Set the rates of the int8 layers and of the float32 head."""
        self._function("set_learning_rate")(backbone, head)

    def trainables(self) -> NDArray[np.uint8]:
        """Return a copy of everything that learns, [trainable_bytes]."""
        return self._trainables().copy()

    def set_trainables(self, block: ArrayLike) -> None:
        """Overwrite everything that learns with a block that `trainables` returned."""
        self._trainables()[:] = trainable_block(block, self._library)

    def _trainables(self) -> NDArray[np.uint8]:
        size = self._library.trainable_bytes
        if size == 0:
            return np.zeros(0, np.uint8)
        return np.ctypeslib.as_array(self._function("trainables")(), (size,))

    def _function(self, name: str) -> ctypes._NamedFuncPointer:
        if not self._close.alive:
            raise TrainletError(f"the host library {self._library.prefix} was closed")
        function: ctypes._NamedFuncPointer = getattr(self._code, f"{self._library.prefix}_{name}")
        return function

    def _declare(self) -> None:
        pointer = ctypes.POINTER
        signatures: dict[str, tuple[list[object], object]] = {
            "init": ([ctypes.c_uint32], None),
            "input": ([], pointer(ctypes.c_int8)),
            "predict": ([], ctypes.c_int),
            "logits": ([], pointer(ctypes.c_float)),
            "train_step": ([ctypes.c_uint32], ctypes.c_int),
            "loss": ([], ctypes.c_float),
            "set_learning_rate": ([ctypes.c_float, ctypes.c_float], None),
            "trainables": ([], pointer(ctypes.c_uint8)),
        }
        for name, (arguments, result) in signatures.items():
            try:
                function = self._function(name)
            except AttributeError as error:
                raise TrainletError(
                    f"{self._library.folder}: the library lacks {self._library.prefix}_{name};"
                    f" compile the network again"
                ) from error
            function.argtypes = arguments  # type: ignore[assignment] # a list of ctypes types
            function.restype = result  # type: ignore[assignment] # a ctypes type or None


def _unload(handle: int) -> None:
    if sys.platform != "win32":
        import _ctypes

        _ctypes.dlclose(handle)
