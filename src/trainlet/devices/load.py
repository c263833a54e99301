# SPDX-License-Identifier: Apache-2.0
"""Finding a device: by the name of one that comes with Trainlet, or by the path of a TOML file."""

from __future__ import annotations

import difflib
import tomllib
from importlib import resources
from pathlib import Path

from trainlet.devices.device import Device
from trainlet.devices.read import read_device
from trainlet.errors import TrainletError

_DATA = resources.files("trainlet.devices") / "data"


def device_names() -> tuple[str, ...]:
    """Return the names of the devices that come with Trainlet, sorted."""
    return tuple(
        sorted(
            entry.name.removesuffix(".toml")
            for entry in _DATA.iterdir()
            if entry.name.endswith(".toml")
        )
    )


def load_device(name_or_path: str | Path) -> Device:
    """Return the device of that name, or the one a TOML file describes.

    Raises:
        TrainletError: no such device or file, or a file with missing or wrong fields.
    """
    text = str(name_or_path)
    if text in device_names():
        return _parse((_DATA / f"{text}.toml").read_text(encoding="utf-8"), text)
    path = Path(text)
    if path.suffix != ".toml" and not path.is_file():
        raise TrainletError(_unknown(text))
    try:
        content = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise TrainletError(f"device file {text} does not exist") from None
    except UnicodeDecodeError:
        raise TrainletError(f"device file {text} is not UTF-8 text, so not TOML") from None
    except OSError as error:
        raise TrainletError(f"device file {text} cannot be read: {error.strerror}") from None
    return _parse(content, text)


def _parse(content: str, where: str) -> Device:
    try:
        table = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise TrainletError(f"device {where} is not valid TOML: {error}") from None
    return read_device(table, where)


def _unknown(name: str) -> str:
    names = device_names()
    near = difflib.get_close_matches(name.lower(), names, n=2, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return (
        f"there is no device {name!r}: {hint}Trainlet knows {', '.join(names)}; "
        "the path of a TOML file works too"
    )
