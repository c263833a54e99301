# SPDX-License-Identifier: Apache-2.0
"""Build a firmware image around an emitted library, and read what the linker made of it."""

from trainlet.run.firmware.build import DoesNotFitError, build_firmware
from trainlet.run.firmware.image import Firmware, Sizes, Symbol, Symbols, read_firmware

__all__ = [
    "DoesNotFitError",
    "Firmware",
    "Sizes",
    "Symbol",
    "Symbols",
    "build_firmware",
    "read_firmware",
]
