# SPDX-License-Identifier: Apache-2.0
"""A network, a scheme and a device, found by what a person typed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trainlet.build import DEFAULT_STACK_BYTES
from trainlet.devices import Device, load_device
from trainlet.errors import TrainletError
from trainlet.importers import load_network
from trainlet.nn import Int8Network
from trainlet.ops.requantize import FAST
from trainlet.scheme import Scheme, load_scheme


@dataclass(frozen=True)
class Request:
    """What to compile for what; `device_file` is the TOML file of a device with no known name."""

    model: str
    network: Int8Network
    scheme: Scheme
    device: Device
    device_file: Path | None
    stack_bytes: int

    @classmethod
    def of(
        cls,
        model: str,
        classes: int | None,
        resolution: int | None,
        scheme: str,
        device: str,
        stack_bytes: int | None,
        requantize: str = FAST,
    ) -> Request:
        """Load all three, the cheap ones first; raises TrainletError for what cannot be."""
        stack = DEFAULT_STACK_BYTES if stack_bytes is None else stack_bytes
        if stack <= 0 or stack % 8:
            raise TrainletError(f"--stack is {stack}; give a positive multiple of 8")
        found_scheme, found_device = load_scheme(scheme), load_device(device)
        network = load_network(model, classes=classes, resolution=resolution, requantize=requantize)
        file = Path(device) if found_device.name != device and Path(device).is_file() else None
        return cls(Path(model).stem, network, found_scheme, found_device, file, stack)
