# SPDX-License-Identifier: Apache-2.0
"""Residual addition: its constants for scales of any size, its values in exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainlet.errors import TrainletError
from trainlet.ops.add import AddConstants, add

INT32 = 2**31 - 1
exponents = st.floats(-6.0, 0.0)
scales = st.tuples(exponents, exponents, exponents).map(lambda e: tuple(10.0**v for v in e))
near = st.tuples(*[st.floats(0.01, 0.1)] * 3)
zero_points = st.tuples(*[st.integers(-128, 127)] * 3)
corners = [-128, -127, -1, 0, 1, 126, 127]
values = st.one_of(st.sampled_from(corners), st.integers(-128, 127))


def wide(mode: str, s: tuple[float, ...], zeros: tuple[int, ...], a: int, b: int) -> int:
    """The sum before the clamp that an int8 needs."""
    constants = AddConstants.of(mode, (s[0], s[1], s[2]), (zeros[0], zeros[1], zeros[2]))
    one, two = (torch.tensor([float(v)]) for v in (a, b))
    y, _ = add(one, two, list(constants.values), 1.0, 1.0, -(2**30), 2**30)
    return int(y)


@settings(max_examples=50, deadline=None)
@given(scales, zero_points, values, values)
def test_fast_never_leaves_int32(
    s: tuple[float, ...], zeros: tuple[int, ...], a: int, b: int
) -> None:
    m_a, m_b, offset, shift = AddConstants.of("fast", s, zeros).values
    assert 0 <= m_a <= INT32
    assert 0 <= m_b <= INT32
    assert 0 <= shift <= 31
    partial = (offset, a * m_a, b * m_b, a * m_a + b * m_b, a * m_a + b * m_b + offset)
    assert all(abs(v) <= INT32 for v in partial)


@settings(max_examples=50, deadline=None)
@given(scales, zero_points, values, values)
def test_tflite_never_leaves_int32(
    s: tuple[float, ...], zeros: tuple[int, ...], a: int, b: int
) -> None:
    m_a, s_a, m_b, s_b, m_y, s_y, *_ = AddConstants.of("tflite", s, zeros).values
    assert all(0 <= m <= INT32 for m in (m_a, m_b, m_y))
    assert all(-31 <= shift <= 1 for shift in (s_a, s_b, s_y))
    total = 0.0
    for value, zero, m, shift in ((a, zeros[0], m_a, s_a), (b, zeros[1], m_b, s_b)):
        shifted = (value - zero) << 20 << max(shift, 0)
        assert abs(shifted) <= INT32
        total += abs((value - zero) << 20) * m * 2.0 ** (shift - 31)
    assert total * 2 ** max(s_y, 0) + 2 <= INT32


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(["fast", "tflite"]), near, zero_points, values, values)
def test_it_is_the_nearest_integer_or_its_neighbour_at_a_tie(
    mode: str, s: tuple[float, ...], zeros: tuple[int, ...], a: int, b: int
) -> None:
    exact = sum(
        Fraction(scale) * (value - zero)
        for scale, value, zero in zip(s, (a, b), zeros, strict=False)
    )
    exact = exact / Fraction(s[2]) + zeros[2]
    slack = Fraction(1, 2) + Fraction(1, 500)
    assert abs(wide(mode, s, zeros, a, b) - exact) <= slack


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(["fast", "tflite"]), scales, zero_points, values, values)
def test_scales_of_any_size_err_by_less_than_one_part_in_a_thousand(
    mode: str, s: tuple[float, ...], zeros: tuple[int, ...], a: int, b: int
) -> None:
    """What cannot be held exactly errs in proportion to what the largest inputs would make."""
    parts = [Fraction(s[i]) / Fraction(s[2]) * (v - zeros[i]) for i, v in enumerate((a, b))]
    exact = sum(parts) + zeros[2]
    largest = 255 * Fraction(max(s[0], s[1])) / Fraction(s[2])
    error = abs(wide(mode, s, zeros, a, b) - exact)
    assert error <= Fraction(1, 2) + Fraction(1, 500) + largest / 1000


@pytest.mark.parametrize("mode", ["fast", "tflite"])
@pytest.mark.parametrize(
    "s", [(1.0, 1.0, 1e-7), (0.1, 0.1, 0.0), (-0.1, 0.1, 0.1), (math.nan, 1, 1), (1, 1, math.inf)]
)
def test_scales_that_cannot_be_held_are_refused(mode: str, s: tuple[float, ...]) -> None:
    with pytest.raises(TrainletError, match="cannot be expressed"):
        AddConstants.of(mode, (s[0], s[1], s[2]), (0, 0, 0))


@pytest.mark.parametrize("mode", ["fast", "tflite"])
def test_gradients_are_the_ratios_of_the_scales_where_nothing_clamps(mode: str) -> None:
    constants = list(AddConstants.of(mode, (0.05, 0.02, 0.04), (3, -7, 1)).values)
    draw = torch.Generator().manual_seed(5)
    a, b = (torch.randint(-128, 128, (2, 3, 4, 5), generator=draw).float() for _ in range(2))
    a, b = a.requires_grad_(), b.requires_grad_()
    y, mask = add(a, b, constants, 0.05 / 0.04, 0.02 / 0.04, -90, 100)
    gy = torch.randn(y.shape, generator=draw)
    y.backward(gy)
    real = 0.05 / 0.04 * (a.detach() - 3) + 0.02 / 0.04 * (b.detach() + 7) + 1
    clear = (real - -90).abs().minimum((real - 100).abs()) > 0.6
    torch.testing.assert_close(mask[clear], ((real >= -90) & (real <= 100))[clear])
    assert 0.2 < mask.float().mean() < 1.0
    torch.testing.assert_close(a.grad, gy * mask * 1.25)
    torch.testing.assert_close(b.grad, gy * mask * 0.5)


def test_the_same_map_added_to_itself_gathers_both_gradients() -> None:
    constants = list(AddConstants.of("fast", (0.05, 0.05, 0.1), (0, 0, 0)).values)
    x = torch.arange(-8.0, 8.0).view(1, 1, 4, 4).requires_grad_()
    add(x, x, constants, 0.5, 0.5, -128, 127)[0].sum().backward()
    torch.testing.assert_close(x.grad, torch.ones_like(x))
