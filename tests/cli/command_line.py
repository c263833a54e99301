# SPDX-License-Identifier: Apache-2.0
"""How a command line ended, and the device that tests make too small."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Ended:
    """How a command line ended."""

    status: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., Ended]
Fails = Callable[..., str]


def small_device(folder: Path, ram: int, flash: int = 1 << 20) -> Path:
    """The stm32f746 with other sizes."""
    data = resources.files("trainlet.devices") / "data" / "stm32f746.toml"
    text = data.read_text(encoding="utf-8").replace('"stm32f746"', '"small"')
    text = text.replace("value = 327680", f"value = {ram}").replace("1048576", str(flash))
    (folder / "small.toml").write_text(text, encoding="utf-8")
    return folder / "small.toml"
