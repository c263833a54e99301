# SPDX-License-Identifier: Apache-2.0
"""The gradients of convolution, clamp, addition and pooling, against PyTorch in float64.

The kernels run on this machine, and on emulated cores with and without a floating-point unit,
where every bit must be the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from backward_cases import NAMES, Array, Case, bytes8, cases, floats
from harness import Conv, Device, Host, Pool, device, host
from hypothesis import example, given, settings
from hypothesis import strategies as st

FAMILIES = ("pointwise", "depthwise", "general")
GUARD = 16

Runner = Host | Device


def here() -> Host:
    return host(NAMES)


def guarded(size: int) -> Array:
    """Scratch of `size` bytes that holds noise, and a guard behind it."""
    return np.full(size // 4 + GUARD, np.float32(-7.25e8))


def close(value: Array, reference: Array, magnitude: Array) -> None:
    """Within 1e-5 of the reference, relative to the sum of the absolute products."""
    assert np.all(np.abs(value - reference) <= 1e-5 * magnitude + 1e-30)


def input_gradient(on: Runner, case: Case, in_place: bool = False) -> Array:
    c = case.conv
    kept, rest = map(case.laid_out, case.segments())
    scratch = guarded(case.input_scratch())
    g = case.g
    gx = g if in_place else np.full((c.in_h, c.in_w, c.in_c), np.nan, np.float32)
    on.call(f"tl_conv2d_{case.family}_grad_input_f32", c, g, kept, rest, gx, scratch)
    assert np.all(scratch[-GUARD:] == scratch[-1])
    return gx


def weight_gradient(on: Runner, case: Case) -> Array:
    scratch = guarded(case.weight_scratch())
    gw = np.full(case.gradient_shape(), np.nan, np.float32)
    name = f"tl_conv2d_{case.family}_grad_weight_f32"
    on.call(name, case.conv, case.g, case.x, gw, scratch)
    assert np.all(scratch[-GUARD:] == scratch[-1])
    return gw


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_input_gradient(family: str, data: st.DataObject) -> None:
    case = data.draw(cases(family))
    close(input_gradient(here(), case), case.input_reference(), case.input_reference(True))


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_weight_gradient(family: str, data: st.DataObject) -> None:
    case = data.draw(cases(family, learning=True))
    close(weight_gradient(here(), case), case.weight_reference(), case.weight_reference(True))


LARGE = [
    Case("pointwise", Conv(9, 15, 6, 9, 15, 10, kept=6), 0, 0, 1),
    Case("depthwise", Conv(12, 17, 3, 12, 17, 3, 3, 3, 1, 1, 1, 1, 3, 3), 1, 1, 2),
    Case("general", Conv(17, 12, 6, 9, 12, 10, 3, 2, 2, 1, 1, 0, 2, 3), 1, 1, 3),
]


@pytest.mark.parametrize("case", LARGE, ids=FAMILIES)
def test_maps_of_more_than_one_run_of_pixels(case: Case) -> None:
    close(weight_gradient(here(), case), case.weight_reference(), case.weight_reference(True))
    close(input_gradient(here(), case), case.input_reference(), case.input_reference(True))


@pytest.mark.parametrize("kernel", [1, 2, 3, 5, 7])
def test_depthwise_input_gradient_in_place(kernel: int) -> None:
    pad = kernel // 2
    conv = Conv(6, 9, 5, 6, 9, 5, kernel, kernel, 1, 1, pad, pad, 5, 2)
    conv.order = np.array([3, 0, 4, 1, 2], np.uint16)
    case = Case("depthwise", conv, kernel - 1 - pad, kernel - 1 - pad, kernel)
    apart = input_gradient(here(), case)
    assert np.array_equal(input_gradient(here(), case, in_place=True), apart)


CORES = ("m7", "m4", "m0plus")


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(data=st.data())
def test_every_core_gives_the_same_bits(core: str, family: str, data: st.DataObject) -> None:
    case = data.draw(cases(family, learning=True, most=5))
    there = device(core, NAMES)
    for gradient in (input_gradient, weight_gradient):
        assert gradient(there, case).tobytes() == gradient(here(), case).tobytes()


# ---- element by element ---------------------------------------------------------------------


def masked(on: Runner, pixels: int, channels: int, in_place: bool) -> tuple[Array, Array]:
    gy, scale = floats(1, pixels, channels), floats(2, channels)
    gy[0, 0] = np.nan
    bits = np.random.default_rng(3).integers(0, 2, pixels * channels).astype(np.uint8)
    bits[0] = 0
    mask = np.packbits(bits, bitorder="little")
    expected = np.where(bits.reshape(gy.shape) == 1, gy * scale, np.float32(0))
    g = gy if in_place else np.empty_like(gy)
    on.call("tl_clamp_grad_f32", pixels, channels, scale, mask, gy, g)
    return g, expected


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(("pixels", "channels"), [(1, 1), (3, 8), (5, 24), (7, 5), (4, 9)])
def test_clamp_gradient(pixels: int, channels: int, in_place: bool) -> None:
    g, expected = masked(here(), pixels, channels, in_place)
    assert g.tobytes() == expected.tobytes()
    assert masked(device("m7", NAMES), pixels, channels, in_place)[0].tobytes() == g.tobytes()


@pytest.mark.parametrize("count", [1, 7, 8, 9, 64, 67])
def test_scale_gradient(count: int) -> None:
    gy, scale = floats(count, count), np.float32(0.37)
    bits = np.random.default_rng(count).integers(0, 2, count).astype(np.uint8)
    mask = np.packbits(bits, bitorder="little")
    g = np.empty_like(gy)
    here().call("tl_scale_grad_f32", count, float(scale), mask, gy, g)
    assert g.tobytes() == np.where(bits == 1, gy * scale, np.float32(0)).tobytes()
    here().call("tl_scale_grad_f32", count, float(scale), None, gy, gy)
    assert gy.tobytes() == (floats(count, count) * scale).tobytes()


def test_addition_of_gradients() -> None:
    a, b = floats(1, 37), floats(2, 37)
    expected = a + b
    here().call("tl_add_f32", 37, a, b, b)
    assert b.tobytes() == expected.tobytes()


@pytest.mark.parametrize("channels", [1, 3, 4, 9])
def test_channel_sum(channels: int) -> None:
    g = floats(channels, 50, channels)
    total = np.zeros(channels, np.float32)
    for pixel in g:
        total = total + pixel
    for on in (here(), device("m7", NAMES)):
        value = np.full(channels, np.nan, np.float32)
        on.call("tl_channel_sum_f32", 50, channels, g, value)
        assert value.tobytes() == total.tobytes()


# ---- pooling ----------------------------------------------------------------------------------


@st.composite
def pools(draw: Any) -> Pool:
    def number(low: int, high: int) -> int:
        return int(draw(st.integers(low, high)))

    sizes: list[list[int]] = []
    for _ in range(2):
        kernel, stride = number(1, 5), number(1, 3)
        pad = number(0, kernel // 2)
        extent = number(max(1, kernel - pad), kernel + 6)
        # The last window may hang over the border, but holds an element of the map.
        most = (extent + pad - 1) // stride + 1
        sizes.append([extent, number(1, most), kernel, stride, pad])
    (in_h, out_h, *rows), (in_w, out_w, *columns) = sizes
    window = [size for pair in zip(rows, columns, strict=True) for size in pair]
    return Pool(in_h, in_w, number(1, 5), out_h, out_w, *window)


def windows(pool: Pool) -> list[tuple[int, int, range, range]]:
    """Output pixels with the rows and columns of the map that each window holds."""
    found = []
    for oy in range(pool.out_h):
        for ox in range(pool.out_w):
            top = oy * pool.stride_h - pool.pad_top
            left = ox * pool.stride_w - pool.pad_left
            rows = range(max(0, top), min(pool.in_h, top + pool.kernel_h))
            columns = range(max(0, left), min(pool.in_w, left + pool.kernel_w))
            found.append((oy, ox, rows, columns))
    return found


@settings(max_examples=50, deadline=None)
@given(pool=pools())
@example(pool=Pool(4, 4, 3, 1, 1, 4, 4, 4, 4, 0, 0))
def test_average_pool_gradient(pool: Pool) -> None:
    gy = floats(5, pool.out_h, pool.out_w, pool.channels)
    expected = np.zeros((pool.in_h, pool.in_w, pool.channels), np.float32)
    for oy, ox, rows, columns in windows(pool):
        share = gy[oy, ox] * (np.float32(1) / np.float32(len(rows) * len(columns)))
        for row in rows:
            for column in columns:
                expected[row, column] += share
    gx = np.full_like(expected, np.nan)
    here().call("tl_avg_pool2d_grad_f32", pool, gy, gx)
    assert gx.tobytes() == expected.tobytes()


@settings(max_examples=50, deadline=None)
@given(pool=pools(), seed=st.integers(0, 1000))
def test_max_pool_gradient(pool: Pool, seed: int) -> None:
    gy = floats(seed, pool.out_h, pool.out_w, pool.channels)
    x = bytes8(seed, pool.in_h, pool.in_w, pool.channels)
    index = np.zeros(gy.shape, np.uint8)
    expected = np.zeros(x.shape, np.float32)
    for oy, ox, rows, columns in windows(pool):
        for channel in range(pool.channels):
            row, column = max(
                ((r, c) for r in rows for c in columns), key=lambda at: x[*at, channel]
            )
            top = oy * pool.stride_h - pool.pad_top
            left = ox * pool.stride_w - pool.pad_left
            index[oy, ox, channel] = (row - top) * pool.kernel_w + column - left
            expected[row, column, channel] += gy[oy, ox, channel]
    gx = np.full_like(expected, np.nan)
    here().call("tl_max_pool2d_grad_f32", pool, gy, index, gx)
    assert gx.tobytes() == expected.tobytes()


def test_pool_gradients_match_pytorch() -> None:
    x = torch.randn(1, 3, 9, 9, dtype=torch.float64, requires_grad=True)
    options = {"kernel_size": 3, "stride": 2, "padding": 1}
    y = torch.nn.functional.avg_pool2d(x, count_include_pad=False, **options)
    gy = torch.from_numpy(floats(3, 5, 5, 3)).permute(2, 0, 1).unsqueeze(0)
    y.backward(gy.double())
    gx = np.empty((9, 9, 3), np.float32)
    pool = Pool(9, 9, 3, 5, 5, 3, 3, 2, 2, 1, 1)
    here().call("tl_avg_pool2d_grad_f32", pool, floats(3, 5, 5, 3), gx)
    assert x.grad is not None
    assert np.allclose(gx, x.grad[0].permute(1, 2, 0).numpy(), rtol=1e-5, atol=1e-7)
