# SPDX-License-Identifier: Apache-2.0
"""Reading a torch zip that holds plain data and NumPy arrays, without trusting it.

The unpickler knows stand-ins for the five globals that such a file needs and refuses any other by
name. The stand-ins only collect fields: neither NumPy's nor anybody's unpickling code runs, and
arrays are built afterwards from bytes whose length has been checked.
"""

from __future__ import annotations

import io
import math
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from trainlet.errors import TrainletError

_LARGEST = 256 << 20  # bytes of data.pkl; the published networks take 1 MB
_DTYPES = ("b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")


class _RefusedError(Exception):
    """The pickle asks for something that is not an array; carries the line for the person."""


class _Dtype:
    """Stand-in for a NumPy dtype: a type code and a byte order."""

    __slots__ = ("code", "order")

    def __init__(self, code: str) -> None:
        if code not in _DTYPES:
            raise _RefusedError(f"it holds an array of type {code!r}, which is not a number")
        self.code = code
        self.order = "<"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if state[1] not in ("<", ">", "|", "="):
            raise _RefusedError(f"it holds an array of byte order {state[1]!r}")
        self.order = state[1]

    def numpy(self) -> np.dtype[Any]:
        return np.dtype(self.order + self.code)


class _Array:
    """Stand-in for a NumPy array: what `__setstate__` of a real one would be given."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def numpy(self) -> npt.NDArray[Any]:
        _, shape, dtype, fortran, raw = self.state
        if not isinstance(dtype, _Dtype) or not isinstance(raw, bytes):
            raise _RefusedError("it holds an array of objects")
        if not all(isinstance(size, int) and 0 <= size < 1 << 31 for size in shape):
            raise _RefusedError(f"it holds an array of shape {shape!r}")
        kind = dtype.numpy()
        if math.prod(shape) * kind.itemsize != len(raw):
            raise _RefusedError(f"it holds an array of shape {shape!r} with {len(raw)} bytes")
        return np.frombuffer(raw, kind).reshape(shape, order="F" if fortran else "C").copy()


class _Global:
    """A callable that a pickle can call and cannot alter."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[..., object]) -> None:
        self._call = call

    def __call__(self, *arguments: object) -> object:
        return self._call(*arguments)

    def __setstate__(self, state: object) -> NoReturn:
        raise _RefusedError("it tries to alter a function")


def _reconstruct(*_: object) -> _Array:
    return _Array()


def _dtype(code: str, *_: object) -> _Dtype:
    return _Dtype(code)


def _scalar(dtype: _Dtype, raw: bytes) -> object:
    values = np.frombuffer(raw, dtype.numpy())
    if values.size != 1:
        raise _RefusedError("it holds a number of a wrong size")
    return values[0].item()


def _encode(text: str, encoding: str = "latin1") -> bytes:
    if encoding not in ("latin1", "latin-1"):
        raise _RefusedError(f"it asks for the text encoding {encoding!r}")
    return text.encode("latin1")


def _not_callable(*_: object) -> NoReturn:
    raise _RefusedError("it makes an array in an unusual way")


_GLOBALS: dict[tuple[str, str], Callable[..., object]] = {
    ("numpy", "ndarray"): _not_callable,
    ("numpy", "dtype"): _dtype,
    ("_codecs", "encode"): _encode,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy._core.multiarray", "scalar"): _scalar,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> _Global:
        found = _GLOBALS.get((module, name))
        if found is None:
            raise _RefusedError(
                f"it asks for {module}.{name}, and only NumPy arrays and plain data are accepted; "
                "nothing of it was run"
            )
        return _Global(found)

    def persistent_load(self, pid: object) -> NoReturn:
        raise _RefusedError("it holds torch tensors, and only NumPy arrays are accepted")


def read_arrays(path: str | Path) -> object:
    """Return what the torch zip at `path` holds: dicts, lists, tuples, scalars, NumPy arrays.

    Raises:
        TrainletError: not such a file, damaged, or it asks for anything else.
    """
    data = _data_pkl(Path(path))
    try:
        return _Builder(_LARGEST).plain(_Unpickler(io.BytesIO(data)).load())
    except _RefusedError as refused:
        raise TrainletError(f"{path} is refused: {refused}") from None
    except Exception as error:  # a damaged or hostile pickle can raise anything at all
        kind = type(error).__name__
        raise TrainletError(f"{path} is damaged: its data.pkl does not unpickle ({kind})") from None


def holds_pickle(path: str | Path) -> bool:
    """Whether the file is a zip with a data.pkl inside, as torch.save writes it."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(_is_data(name) for name in archive.namelist())
    except (zipfile.BadZipFile, OSError):
        return False


def _is_data(name: str) -> bool:
    return name.split("/")[-1] == "data.pkl"


def _data_pkl(path: Path) -> bytes:
    """Return the bytes of the archive's data.pkl."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = [info for info in archive.infolist() if _is_data(info.filename)]
            if len(found) != 1:
                raise TrainletError(
                    f"{path} is a zip with {len(found)} data.pkl inside; a tiny-training network "
                    "has one"
                )
            if found[0].file_size > _LARGEST:
                raise TrainletError(
                    f"{path} holds {found[0].file_size} bytes of data.pkl; "
                    f"at most {_LARGEST} are read"
                )
            return archive.read(found[0])
    except FileNotFoundError:
        raise TrainletError(f"{path} does not exist") from None
    except zipfile.BadZipFile:
        raise TrainletError(
            f"{path} is no torch zip, or is cut short: fetch the file again"
        ) from None
    except (EOFError, NotImplementedError, RuntimeError, ValueError):
        raise TrainletError(f"{path} is a damaged zip: fetch the file again") from None
    except OSError as error:
        raise TrainletError(f"{path} cannot be read: {error.strerror}") from None


class _Builder:
    """Makes plain data of what was unpickled.

    A few bytes of pickle can share one list a billion times over, so all that is built counts.
    """

    def __init__(self, budget: int) -> None:
        self._left = budget

    def plain(self, value: object) -> object:
        """Return `value` with every stand-in made a NumPy array, and only plain data beside them.

        A container may not hold itself; that ends in a RecursionError.
        """
        self._spend(1)
        if isinstance(value, _Array):
            array = value.numpy()
            self._spend(array.nbytes)
            return array
        if isinstance(value, dict):
            return {_key(key): self.plain(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.plain(item) for item in value]
        if isinstance(value, tuple):
            return tuple(self.plain(item) for item in value)
        if value is None or isinstance(value, (bool, int, float, str, bytes)):
            return value
        kind = type(value).__name__.strip("_")
        raise _RefusedError(f"it holds a {kind} where data is expected")

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise _RefusedError(f"it unfolds to more than {_LARGEST} bytes")


def _key(key: object) -> str | int:
    if isinstance(key, (str, int)):
        return key
    raise _RefusedError("it holds a dict whose keys are no texts")
