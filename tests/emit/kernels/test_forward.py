# SPDX-License-Identifier: Apache-2.0
"""The int8 forward kernels on this machine against plain numpy integers."""

from __future__ import annotations

import subprocess
from typing import Any

import forward_reference as reference
import harness
import numpy as np
import pytest
from convolutions import Case, cases, place
from harness import Add, AddExact, Pool, aligned
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

KERNELS = (
    "tl_conv2d_pointwise_s8",
    "tl_conv2d_depthwise_s8",
    "tl_conv2d_general_s8",
    "tl_add_s8",
    "tl_add_exact_s8",
    "tl_avg_pool2d_s8",
    "tl_max_pool2d_s8",
    "tl_clamp_s8",
    "tl_select_channels_s8",
    "tl_dequantize_f32",
)
Array = np.ndarray[Any, Any]
relaxed = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module", params=["plain", "dsp"])
def host(request: Any) -> harness.Host:
    """This machine, with each of the two inner loops."""
    return harness.host(KERNELS, (f"-DTL_USE_DSP={int(request.param == 'dsp')}",))


def check(case: Case, machine: Any) -> None:
    y, mask = case.expected()
    got, got_mask = case.run(machine)
    np.testing.assert_array_equal(got, y)
    np.testing.assert_array_equal(got_mask, mask)
    np.testing.assert_array_equal(case.run(machine, mask=False)[0], y)
    np.testing.assert_array_equal(case.run(machine, lag=case.lag())[0], y)


@relaxed
@given(case=cases("pointwise"))
def test_pointwise(host: harness.Host, case: Case) -> None:
    check(case, host)


@relaxed
@given(case=cases("depthwise"))
def test_depthwise(host: harness.Host, case: Case) -> None:
    check(case, host)


@relaxed
@given(case=cases("general"))
def test_general(host: harness.Host, case: Case) -> None:
    check(case, host)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 40), masked=st.booleans())
def test_add(host: harness.Host, seed: int, n: int, masked: bool) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-128, 128, n).astype(np.int8) for _ in range(2))
    ma, mb = (int(v) for v in rng.integers(1, 2**19, 2))
    shift = int(rng.integers(8, 20))
    za, zb, zy = (int(v) for v in rng.integers(-128, 128, 3))
    offset = -(za * ma + zb * mb) + (zy << shift) + (1 << (shift - 1))
    low, high = sorted(int(v) for v in rng.integers(-128, 128, 2))
    wide = a.astype(np.int64) * ma + b.astype(np.int64) * mb + offset
    y, mask = reference.clamp(wide >> shift, low, high)
    run_add(host, "tl_add_s8", Add(ma, mb, offset, low, high, shift), a, b, y, mask, masked)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 40), masked=st.booleans())
def test_add_exact(host: harness.Host, seed: int, n: int, masked: bool) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-128, 128, n).astype(np.int8) for _ in range(2))
    multipliers = [int(v) for v in rng.integers(2**30, 2**31, 3)]
    shifts = [int(v) for v in rng.integers(-3, 1, 2)] + [int(rng.integers(-21, -17))]
    zeros = [int(v) for v in rng.integers(-128, 128, 3)]
    low, high = sorted(int(v) for v in rng.integers(-128, 128, 2))
    value = np.empty(n, np.int64)
    for i in range(n):
        sides = [(int(t[i]) - z) * 2**20 for t, z in ((a, zeros[0]), (b, zeros[1]))]
        total = sum(
            reference.scale_exact(side, multipliers[k], shifts[k]) for k, side in enumerate(sides)
        )
        value[i] = reference.scale_exact(total, multipliers[2], shifts[2]) + zeros[2]
    y, mask = reference.clamp(value, low, high)
    add = AddExact(tuple(multipliers), tuple(shifts), tuple(zeros), low, high)
    run_add(host, "tl_add_exact_s8", add, a, b, y, mask, masked)


def run_add(
    host: harness.Host,
    name: str,
    add: Any,
    a: Array,
    b: Array,
    y: Array,
    mask: Array,
    masked: bool,
) -> None:
    """Into an array of its own, and over each input."""
    for target in range(3):
        inputs = [place(a), place(b)]
        out = [aligned(y.size, np.int8), *inputs][target]
        bits = aligned(mask.size, np.uint8) if masked else None
        host.call(name, y.size, add, *inputs, out, bits)
        np.testing.assert_array_equal(out, y)
        if bits is not None:
            np.testing.assert_array_equal(bits, mask)


@st.composite
def pools(draw: Any) -> Pool:
    """A pooling whose every window holds an element of the map."""
    side = st.integers(1, 7)
    h, w, kernel_h, kernel_w = draw(side), draw(side), draw(side), draw(side)
    top, left = draw(st.integers(0, kernel_h - 1)), draw(st.integers(0, kernel_w - 1))
    stride_h, stride_w = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    out_h = draw(st.integers(1, (h - 1 + top) // stride_h + 1))
    out_w = draw(st.integers(1, (w - 1 + left) // stride_w + 1))
    channels = draw(st.integers(1, 9))
    return Pool(h, w, channels, out_h, out_w, kernel_h, kernel_w, stride_h, stride_w, top, left)


@relaxed
@given(pool=pools(), seed=st.integers(0, 2**32 - 1), peak=st.sampled_from([2, 128]))
def test_pools(host: harness.Host, pool: Pool, seed: int, peak: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-peak, peak, (pool.in_h, pool.in_w, pool.channels)).astype(np.int8)
    average, (largest, where) = reference.avg_pool2d(x, pool), reference.max_pool2d(x, pool)
    lag = reference.pixel_lag(pool, pool.channels, pool.channels)
    for offset in (None, lag):
        arena = aligned(x.size + average.size + abs(lag), np.int8)
        far = average.size if offset is None else max(offset, 0)
        y = arena[0 if offset is None else max(-offset, 0) :][: average.size]
        x_in = arena[far:][: x.size]
        x_in[:] = x.reshape(-1)
        host.call("tl_avg_pool2d_s8", pool, x_in, y)
        np.testing.assert_array_equal(y, average.reshape(-1))
        x_in[:] = x.reshape(-1)
        index = aligned(where.size, np.uint8)
        host.call("tl_max_pool2d_s8", pool, x_in, y, index)
        np.testing.assert_array_equal(y, largest.reshape(-1))
        np.testing.assert_array_equal(index, where.reshape(-1))
        x_in[:] = x.reshape(-1)
        host.call("tl_max_pool2d_s8", pool, x_in, y, None)
        np.testing.assert_array_equal(y, largest.reshape(-1))


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 40), in_place=st.booleans())
def test_clamp(host: harness.Host, seed: int, n: int, in_place: bool) -> None:
    rng = np.random.default_rng(seed)
    x = place(rng.integers(-128, 128, n).astype(np.int8))
    low, high = sorted(int(v) for v in rng.integers(-128, 128, 2))
    y, mask = reference.clamp(x.astype(np.int64), low, high)
    out, bits = x if in_place else aligned(n, np.int8), aligned(mask.size, np.uint8)
    host.call("tl_clamp_s8", n, low, high, x, out, None)
    np.testing.assert_array_equal(out, y)
    np.testing.assert_array_equal(np.clip(out, low, high), y)
    if not in_place:
        host.call("tl_clamp_s8", n, low, high, x, out, bits)
        np.testing.assert_array_equal(out, y)
        np.testing.assert_array_equal(bits, mask)


@given(seed=st.integers(0, 2**32 - 1), pixels=st.integers(1, 9), channels=st.integers(1, 12))
def test_select_channels(host: harness.Host, seed: int, pixels: int, channels: int) -> None:
    rng = np.random.default_rng(seed)
    kept = int(rng.integers(1, channels + 1))
    order = rng.permutation(channels).astype(np.uint16)
    order[:kept].sort()
    x = rng.integers(-128, 128, (pixels, channels)).astype(np.int8)
    for chosen, given_order in ((order, order), (np.arange(channels), None)):
        expected = x[:, chosen[:kept]].reshape(-1)
        source = place(x)
        for out in (aligned(pixels * kept, np.int8), source[: pixels * kept]):
            host.call("tl_select_channels_s8", pixels, channels, kept, given_order, source, out)
            np.testing.assert_array_equal(out, expected)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 40))
def test_dequantize(host: harness.Host, seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = place(rng.integers(-128, 128, n).astype(np.int8)), aligned(n, np.float32)
    scale, zero = float(np.float32(rng.uniform(1e-4, 2))), int(rng.integers(-128, 128))
    host.call("tl_dequantize_f32", n, scale, zero, x, y)
    np.testing.assert_array_equal(y, (x.astype(np.float32) - zero) * np.float32(scale))


def test_structures_are_laid_out_as_the_compiler_does(tmp_path: Any) -> None:
    """The sizes of the packed structures are the compiler's, on this machine and on the device."""
    pool = Pool(*range(11))
    add, exact = Add(1, 2, 3, 4, 5, 6), AddExact((1, 2, 3), (4, 5, 6), (7, 8, 9), 10, 11)
    named = {"tl_conv": harness.Conv(*range(6)), "tl_pool": pool, "tl_add": add}
    named |= {"tl_add_exact": exact, "tl_sgd": harness.Sgd(np.zeros(1), 0.5, 1)}
    for wide, target in ((True, []), (False, harness.CORES["m7"])):
        lines = ['#include "tl_kernels.h"']
        for name, value in named.items():
            size = len(value.pack(wide, lambda array: 0))
            lines.append(f'_Static_assert(sizeof({name}) == {size}, "{name}");')
        source = tmp_path / "sizes.c"
        source.write_text("\n".join(lines) + "\n")
        command = [*harness.ZIG, *target, "-std=c11", "-c", f"-I{harness.SOURCES}", str(source)]
        subprocess.run([*command, "-o", str(tmp_path / "sizes.o")], check=True)
