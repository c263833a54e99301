# SPDX-License-Identifier: Apache-2.0
"""The affine quantization of an activation: real = scale * (integer - zero)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Quantization:
    """Scale and zero point of a per-tensor int8 activation."""

    scale: float
    zero: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", float(self.scale))
        object.__setattr__(self, "zero", int(self.zero))

    def quantize(self, real: np.ndarray) -> np.ndarray:
        """Nearest integers in [-128, 127] of an array of reals."""
        return np.clip(np.round(real / self.scale) + self.zero, -128, 127).astype(np.int8)
