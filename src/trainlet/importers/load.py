# SPDX-License-Identifier: Apache-2.0
"""One door for every kind of network file."""

from __future__ import annotations

from pathlib import Path

from trainlet.errors import TrainletError
from trainlet.importers.pickles import holds_pickle
from trainlet.importers.tiny_training import import_tiny_training
from trainlet.nn import Int8Network
from trainlet.ops.requantize import FAST
from trainlet.zoo import build, near_names, zoo_names

ACCEPTED = (
    "a tiny-training network (.pkl, a torch zip of NumPy arrays)"
    f" or a name of the zoo ({', '.join(zoo_names())})"
)

_TINY_TRAINING_RESOLUTION = 128
_ZIP = b"PK\x03\x04"


def load_network(
    path: str | Path,
    *,
    classes: int | None = None,
    resolution: int | None = None,
    requantize: str = FAST,
    seed: int = 0,
) -> Int8Network:
    """Load a network from a file, or from the zoo by name.

    Arguments as in `import_tiny_training` and `zoo.build`; without a resolution it is 128 for a
    file, and a zoo network's own. A name of the zoo goes before a folder of that name.

    Raises:
        TrainletError: the file is not there or not of an accepted kind, or does not suit the
            arguments.
    """
    if str(path) in zoo_names() and not Path(path).is_file():
        return build(str(path), classes, resolution, seed, requantize)
    if holds_pickle(path):
        side = _TINY_TRAINING_RESOLUTION if resolution is None else resolution
        return import_tiny_training(path, classes, side, requantize, seed)
    hint = "" if Path(path).exists() else near_names(str(path))
    raise TrainletError(f"{path} {_what_is_wrong(Path(path))}; {hint}accepted is {ACCEPTED}")


def _what_is_wrong(path: Path) -> str:
    """Say what the file is, from its first bytes."""
    try:
        with path.open("rb") as file:
            start = file.read(8)
    except FileNotFoundError:
        return "does not exist"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if not start:
        return "is empty"
    if start[4:8] == b"TFL3":
        return "is a TensorFlow Lite model, which cannot be imported"
    if start.startswith(_ZIP):
        return "is a zip that is cut short or holds no data.pkl"
    if start[0] == 0x80 and start[1:2] <= b"\x05":
        return "is a bare pickle, which is not read"
    if path.suffix == ".onnx":
        return "is an ONNX model, which cannot be imported"
    return "is not a network"
