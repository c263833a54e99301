# SPDX-License-Identifier: Apache-2.0
"""Requantization against Python integers and fractions, over the whole int32 range."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainlet.errors import TrainletError
from trainlet.ops.requantize import fast_multiplier, multipliers, requantize, tflite_multiplier

accumulators = st.integers(-(2**31) + 1, 2**31 - 1)


def _one(acc: int, multiplier: int, shift: int | None, zero: int = 0) -> int:
    wide = None if shift is None else torch.tensor([shift])
    return int(requantize(torch.tensor([acc]), torch.tensor([multiplier]), wide, zero)[0])


@given(accumulators, st.floats(0, 0.4999), st.integers(-128, 127))
def test_fast_rounds_half_up(acc: int, scale: float, zero: int) -> None:
    multiplier = fast_multiplier(scale)
    exact = Fraction(acc * multiplier, 2**32) + Fraction(1, 2)
    assert _one(acc, multiplier, None, zero) == exact.__floor__() + zero


@given(accumulators, st.floats(2.0**-31, 0.999))
def test_tflite_is_within_one_of_the_real_product(acc: int, scale: float) -> None:
    multiplier, shift = tflite_multiplier(scale)
    assert 2**30 <= multiplier < 2**31
    assert abs(_one(acc, multiplier, shift) - acc * scale) <= 1.001


@pytest.mark.parametrize(
    ("acc", "multiplier", "shift", "expected"),
    [
        # gemmlowp's own rounding: half away from zero in each of the two steps
        (1, 1 << 30, 0, 1),
        (-1, 1 << 30, 0, 0),
        (3, 1 << 30, 0, 2),
        (-3, 1 << 30, 0, -1),
        (5, 1 << 30, -1, 2),
        (-6, 1 << 30, -1, -2),
        (7, 1 << 30, 2, 14),
    ],
)
def test_tflite_at_its_ties(acc: int, multiplier: int, shift: int, expected: int) -> None:
    assert _one(acc, multiplier, shift) == expected


@given(st.floats(2.0**-30, 0.9))
def test_tflite_multiplier_is_the_nearest(scale: float) -> None:
    multiplier, shift = tflite_multiplier(scale)
    value = Fraction(multiplier) * Fraction(2) ** (shift - 31)
    assert abs(value - Fraction(scale)) <= Fraction(2) ** (shift - 32)


def test_a_scale_that_fast_cannot_hold_is_refused() -> None:
    with pytest.raises(TrainletError, match="use mode 'tflite'"):
        multipliers([0.1, 0.5], "fast")
    with pytest.raises(TrainletError, match="mode 'slow' is unknown"):
        multipliers([0.1], "slow")
