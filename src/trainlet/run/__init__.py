# SPDX-License-Identifier: Apache-2.0
"""Run an emitted library: on the host, as firmware on an emulated Cortex-M, under sanitizers."""

from trainlet.run.cortexm import EmulatedDevice
from trainlet.run.firmware import DoesNotFitError, Firmware, Sizes, build_firmware
from trainlet.run.host import HostLibrary
from trainlet.run.library import (
    STATUS_LABEL,
    STATUS_NOT_INITIALIZED,
    STATUS_OK,
    EmittedLibrary,
    Machine,
    Progress,
    read_library,
)

__all__ = [
    "STATUS_LABEL",
    "STATUS_NOT_INITIALIZED",
    "STATUS_OK",
    "DoesNotFitError",
    "EmittedLibrary",
    "EmulatedDevice",
    "Firmware",
    "HostLibrary",
    "Machine",
    "Progress",
    "Sizes",
    "build_firmware",
    "read_library",
]
