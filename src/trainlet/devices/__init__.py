# SPDX-License-Identifier: Apache-2.0
"""What a step may cost: bytes, seconds, joules and the instruction set, with a source each."""

from trainlet.devices.device import CORES, Compute, Device, MemoryMap, Paging
from trainlet.devices.load import device_names, load_device

__all__ = [
    "CORES",
    "Compute",
    "Device",
    "MemoryMap",
    "Paging",
    "device_names",
    "load_device",
]
