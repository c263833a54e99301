# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_library import INPUT_BYTES, Boot, Build, write_library

from trainlet.devices import load_device
from trainlet.run import EmulatedDevice, Firmware, build_firmware

BOARDS = {"cortex-m7": "stm32f746", "cortex-m4": "nrf52840", "cortex-m0plus": "mkr1000"}


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("objects")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_library(tmp_path_factory.mktemp("fake"))


@pytest.fixture
def images() -> np.ndarray:
    return np.random.default_rng(5).integers(-128, 128, (20, INPUT_BYTES)).astype(np.int8)


@pytest.fixture
def build(tmp_path: Path, cache: Path) -> Build:
    """Build firmware whose `predict` first runs the C in `extra`."""

    def build(extra: str = "", core: str = "cortex-m7", **changes: Any) -> Firmware:
        options = {key: changes.pop(key) for key in ("stack_bytes", "cc") if key in changes}
        memory = load_device(BOARDS[core]).memory_map
        assert memory is not None
        return build_firmware(
            write_library(tmp_path / "library", extra=extra),
            "fake",
            core=core,
            memory=replace(memory, **changes),
            target=tmp_path / "fake.elf",
            cache=cache,
            **options,
        )

    return build


@pytest.fixture
def boot(build: Build, cache: Path) -> Boot:
    """The same, booted and initialized."""

    def boot(extra: str = "", core: str = "cortex-m7", **changes: Any) -> EmulatedDevice:
        device = EmulatedDevice(build(extra, core, **changes), cache=cache)
        device.init()
        return device

    return boot
