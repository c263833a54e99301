# SPDX-License-Identifier: Apache-2.0
"""From an int32 accumulator to an int8 activation, exactly, in both modes.

``fast``     y = zero + floor((acc * m + 2^31) / 2^32), m = round(scale * 2^32):
             one rounding high multiply (SMMLAR) on a Cortex-M.
``tflite``   TFLite's MultiplyByQuantizedMultiplier with double rounding, as its
             reference kernels and gemmlowp define it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from trainlet.errors import TrainletError

FAST = "fast"
TFLITE = "tflite"
MODES = (FAST, TFLITE)

_TWO_31 = 1 << 31


def fast_multiplier(scale: float) -> int:
    """``round(scale * 2^32)`` for a real scale in [0, 0.5)."""
    multiplier = round(float(scale) * (1 << 32))
    if not 0 <= multiplier < _TWO_31:
        raise TrainletError(
            f"requantization scale {scale:g} is outside [0, 0.5), which mode 'fast' cannot "
            "express; use mode 'tflite' for this layer"
        )
    return multiplier


def tflite_multiplier(scale: float) -> tuple[int, int]:
    """``(multiplier, shift)`` with scale = multiplier * 2^(shift - 31), multiplier in [2^30, 2^31).

    TFLite's QuantizeMultiplier: a scale below 2^-32 becomes zero.
    """
    if scale == 0.0:
        return 0, 0
    fraction, shift = math.frexp(float(scale))
    multiplier = _round_half_away(fraction * _TWO_31)
    if multiplier == _TWO_31:
        multiplier, shift = multiplier // 2, shift + 1
    return (0, 0) if shift < -31 else (multiplier, shift)


def multipliers(scales: Sequence[float], mode: str) -> tuple[list[int], list[int] | None]:
    """Multiplier and shift of every channel; the shifts are ``None`` in mode ``fast``."""
    if mode == FAST:
        return [fast_multiplier(scale) for scale in scales], None
    if mode == TFLITE:
        pairs = [tflite_multiplier(scale) for scale in scales]
        return [m for m, _ in pairs], [s for _, s in pairs]
    raise TrainletError(f"requantization mode '{mode}' is unknown; use one of {', '.join(MODES)}")


def requantize(acc: Tensor, multiplier: Tensor, shift: Tensor | None, zero: int) -> Tensor:
    """Requantize int64 accumulators; the clamp is the caller's.

    ``multiplier`` and ``shift`` are int64 and broadcast against ``acc``.
    """
    if shift is None:
        return ((acc * multiplier + _TWO_31) >> 32) + zero
    return _divide_by_power(_high_multiply(acc << shift.clamp(min=0), multiplier), -shift) + zero


def _high_multiply(a: Tensor, b: Tensor) -> Tensor:
    """SaturatingRoundingDoublingHighMul: (2ab + sign-aware half) / 2^32, truncated."""
    product = a * b
    nudge = torch.where(product >= 0, 1 << 30, 1 - (1 << 30))
    return torch.div(product + nudge, _TWO_31, rounding_mode="trunc")


def _divide_by_power(x: Tensor, exponent: Tensor) -> Tensor:
    """RoundingDivideByPOT: round half away from zero of x / 2^exponent (exponent <= 0: x)."""
    exponent = exponent.clamp(min=0)
    mask = (1 << exponent) - 1
    threshold = (mask >> 1) + (x < 0).to(torch.int64)
    return (x >> exponent) + ((x & mask) > threshold).to(torch.int64)


def _round_half_away(value: float) -> int:
    return math.floor(value + 0.5) if value >= 0 else math.ceil(value - 0.5)
