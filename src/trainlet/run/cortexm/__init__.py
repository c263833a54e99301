# SPDX-License-Identifier: Apache-2.0
"""Run a firmware image on an emulated Cortex-M."""

from trainlet.run.cortexm.device import EmulatedDevice

__all__ = ["EmulatedDevice"]
