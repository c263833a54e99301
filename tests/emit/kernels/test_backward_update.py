# SPDX-License-Identifier: Apache-2.0
"""The fused updates, to the last integer, and stochastic rounding in C and in PyTorch."""

from __future__ import annotations

import subprocess
from ctypes import CDLL, c_float, c_int8, c_int32, c_uint32
from pathlib import Path

import numpy as np
import pytest
import torch
from backward_cases import NAMES, Array, Case, cases, floats
from harness import SOURCES, ZIG, Conv, Device, Host, Sgd, device, host
from hypothesis import given, settings
from hypothesis import strategies as st

from trainlet.ops.random import key, sgd_weight, stochastic_round, uniform

FAMILIES = ("pointwise", "depthwise", "general")
MASK = 0xFFFFFFFF


def mix(h: Array) -> Array:
    """The finalizer of MurmurHash3 on uint64 arrays that hold 32-bit values."""
    h = h ^ (h >> np.uint64(16))
    h = h * np.uint64(0x85EBCA6B) & np.uint64(MASK)
    h = h ^ (h >> np.uint64(13))
    h = h * np.uint64(0xC2B2AE35) & np.uint64(MASK)
    return h ^ (h >> np.uint64(16))


def numbers(seed: int, count: int) -> Array:
    counter = np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B9)
    mixed = mix((counter + np.uint64(seed)) & np.uint64(MASK))
    return (mixed >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)


def steps(gradient: Array, scale: Array, rate: float, seed: int) -> Array:
    """floor(delta + u) one float32 operation at a time; gradient [rows, n], scale [rows]."""
    with np.errstate(over="ignore", invalid="ignore"):
        delta = -(gradient * scale.reshape(-1, 1)) * np.float32(rate)
        total = delta + numbers(seed, gradient.size).reshape(gradient.shape)
        bounded = np.clip(np.nan_to_num(total, nan=0.0, posinf=2e9, neginf=-2e9), -(2**30), 2**30)
    assert bounded.dtype == np.float32
    return np.floor(bounded).astype(np.int64)


def updated(on: Host | Device, case: Case, g: Array, sgd: Sgd) -> Array:
    """The kept weights after one fused update, canonical."""
    kept = case.laid_out(case.segments()[0])
    assert kept is not None
    kept = kept.copy()
    scratch = np.full(case.weight_scratch() // 4 + 16, np.float32(-7.25e8))
    on.call(f"tl_conv2d_{case.family}_sgd_s8", case.conv, sgd, g, case.x, kept, scratch)
    assert np.all(scratch[-16:] == scratch[-1])
    relaid = case.laid_out(case.canonical(kept))
    assert relaid is not None
    assert relaid.tobytes() == kept.tobytes(), "the filling of the layout must stay 0"
    return case.canonical(kept)


def gradient_of(case: Case, g: Array) -> Array:
    gw = np.zeros(case.gradient_shape(), np.float32)
    scratch = np.zeros(case.weight_scratch() // 4, np.float32)
    name = f"tl_conv2d_{case.family}_grad_weight_f32"
    host(NAMES).call(name, case.conv, g, case.x, gw, scratch)
    return gw


def expected_weights(case: Case, g: Array, sgd: Sgd) -> Array:
    gw = gradient_of(case, g)
    scale = sgd.scale
    if case.family == "depthwise":
        scale = scale[case.order[: case.conv.kept]]
    step = steps(gw.reshape(gw.shape[0], -1), scale, sgd.learning_rate, sgd.key)
    weight = case.segments()[0]
    assert weight is not None
    return np.clip(weight.astype(np.int64) + step.reshape(gw.shape), -127, 127).astype(np.int8)


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=60, deadline=None)
@given(data=st.data(), rate=st.sampled_from([1e-5, 3e-4, 0.01, 1e4]), seed=st.integers(0, MASK))
def test_fused_update_is_exact(family: str, data: st.DataObject, rate: float, seed: int) -> None:
    case = data.draw(cases(family, learning=True))
    g = case.g
    if seed % 4 == 0:
        g[0, 0, 0] = np.nan
    if seed % 5 == 0:
        g[-1, -1, -1] = np.inf
    sgd = Sgd(np.abs(floats(5, case.conv.out_c)), rate, seed)
    value = updated(host(NAMES), case, g, sgd)
    assert np.array_equal(value, expected_weights(case, g, sgd))


@pytest.mark.parametrize("core", ["m7", "m4", "m0plus"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_core_updates_alike(core: str, family: str) -> None:
    conv = Conv(5, 9, 6, 5, 9, 6, 3, 3, 1, 1, 1, 1, kept=3, in_zero=-5)
    conv.order = np.array([3, 5, 0, 1, 4, 2], np.uint16)
    case = Case(family, conv, 1, 1, 7)
    if family == "pointwise":
        case.conv.kernel_h = case.conv.kernel_w = 1
        case.conv.pad_top = case.conv.pad_left = case.bottom = case.right = 0
    if family == "depthwise":
        case.conv.groups = 6
    sgd = Sgd(np.abs(floats(6, 6)), 3e-3, 12345)
    there, here = (updated(on, case, case.g, sgd) for on in (device(core, NAMES), host(NAMES)))
    assert np.array_equal(there, here)


@pytest.mark.parametrize(("sign", "limit"), [(1, -127), (-1, 127)])
@pytest.mark.parametrize("family", FAMILIES)
def test_saturates_symmetrically(family: str, sign: int, limit: int) -> None:
    groups = 4 if family == "depthwise" else 1
    case = Case(family, Conv(2, 2, 4, 2, 2, 4, groups=groups, kept=4), 0, 0, 3)
    x = case.x.astype(np.int32) - case.conv.in_zero
    assert np.all(x.sum(axis=(0, 1)) != 0)
    g = np.full((2, 2, 4), sign, np.float32)
    value = updated(host(NAMES), case, g, Sgd(np.full(4, 1e30, np.float32), 1.0, 1))
    toward = np.sign(x.sum(axis=(0, 1)))
    expected = np.broadcast_to(limit * toward, (4, 4)) if groups == 1 else limit * toward
    assert np.array_equal(value.reshape(np.shape(expected)), expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_gradient_that_is_not_a_number_changes_nothing(family: str) -> None:
    groups = 5 if family == "depthwise" else 1
    case = Case(family, Conv(3, 3, 5, 3, 3, 5, groups=groups, kept=3), 0, 0, 4)
    g = np.full((3, 3, 5), np.nan, np.float32)
    value = updated(host(NAMES), case, g, Sgd(np.ones(5, np.float32), 1.0, 9))
    assert np.array_equal(value, case.segments()[0])


# ---- biases -------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 4, 7])
@pytest.mark.parametrize("rate", [1e-3, 10.0, 1e20])
def test_bias_update(channels: int, rate: float) -> None:
    g, scale = floats(1, 30, channels), np.abs(floats(2, channels))
    limit = np.array([2**31 - 1, 1000, 2**30] * 3, np.int32)[:channels]
    bias = np.array([2**31 - 1, -1000, 5, -(2**31) + 1] * 2, np.int64)[:channels]
    bias = np.clip(bias, -limit.astype(np.int64), limit).astype(np.int32)
    total = np.zeros(channels, np.float32)
    for pixel in g:
        total = total + pixel
    step = steps(total.reshape(-1, 1), scale, rate, 77).reshape(-1)
    expected = np.clip(bias + step, -limit.astype(np.int64), limit.astype(np.int64))
    for on in (host(NAMES), device("m7", NAMES), device("m0plus", NAMES)):
        value = bias.copy()
        on.call("tl_channel_sum_sgd_s32", 30, channels, Sgd(scale, rate, 77), limit, g, value)
        assert np.array_equal(value, expected)


def test_bias_keeps_its_value_where_the_gradient_is_not_a_number() -> None:
    g, bias = np.full((3, 2), np.nan, np.float32), np.array([5, -6], np.int32)
    limit = np.full(2, 100, np.int32)
    sgd = Sgd(np.ones(2, np.float32), 1.0, 1)
    host(NAMES).call("tl_channel_sum_sgd_s32", 3, 2, sgd, limit, g, bias)
    assert bias.tolist() == [5, -6]


# ---- stochastic rounding ------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [-3.3, -0.25, -0.01, 0.004, 0.5, 0.75, 2.9])
def test_rounding_is_unbiased(delta: float) -> None:
    count = 400_000
    u = uniform(key(3, 4, 5), count)
    step = stochastic_round(torch.full((count,), delta), u).double()
    assert set(step.unique().tolist()) <= {float(np.floor(delta)), float(np.floor(delta) + 1)}
    fraction = delta - np.floor(delta)
    deviation = np.sqrt(fraction * (1 - fraction) / count)
    assert abs(float(step.mean()) - delta) < 4.5 * deviation


def test_updates_of_many_steps_are_unbiased() -> None:
    """A weight gradient of a tenth of a step moves the weights by a tenth a step on average."""
    case = Case("pointwise", Conv(1, 1, 100, 1, 1, 100, kept=100), 0, 0, 0)
    moved = []
    x = case.x.reshape(-1).astype(np.float64)
    for step in range(20):
        g = np.full((1, 1, 100), 0.1 / 127, np.float32)
        sgd = Sgd(np.ones(100, np.float32), 1.0, key(1, step, 2))
        before = case.segments()[0]
        assert before is not None
        change = updated(host(NAMES), case, g, sgd).astype(np.float64) - before
        moved.append(change.reshape(100, 100)[np.abs(before.reshape(100, 100)) < 120].mean())
    inner = np.abs(case.weight.reshape(100, 100)) < 120
    wanted = np.broadcast_to(-x * 0.1 / 127, (100, 100))[inner].mean()
    assert abs(np.mean(moved) - wanted) < 4.5 * np.sqrt(0.1 / (20 * inner.sum()))


WRAPPER = """
#include "tl_random.h"
uint32_t key_of(uint32_t a, uint32_t b, uint32_t c) { return tl_key(a, b, c); }
float number(uint32_t key, uint32_t counter) { return tl_random(key, counter); }
int32_t rounded(float delta, float u) { return tl_stochastic_round(delta, u); }
int8_t stepped(int8_t w, float g, float s, float lr, uint32_t key, uint32_t counter) {
    return tl_sgd_weight(w, g, s, lr, key, counter);
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> CDLL:
    folder: Path = tmp_path_factory.mktemp("random")
    (folder / "wrapper.c").write_text(WRAPPER)
    made = folder / "librandom.so"
    flags = ["-std=c11", "-O2", "-fPIC", "-shared", "-ffp-contract=off", f"-I{SOURCES}"]
    subprocess.run([*ZIG, *flags, str(folder / "wrapper.c"), "-o", str(made)], check=True)
    loaded = CDLL(str(made))
    loaded.key_of.restype, loaded.key_of.argtypes = c_uint32, [c_uint32] * 3
    loaded.number.restype, loaded.number.argtypes = c_float, [c_uint32] * 2
    loaded.rounded.restype, loaded.rounded.argtypes = c_int32, [c_float] * 2
    loaded.stepped.restype = c_int8
    loaded.stepped.argtypes = [c_int8, *[c_float] * 3, *[c_uint32] * 2]
    return loaded


@settings(max_examples=100, deadline=None)
@given(st.integers(0, MASK), st.integers(0, MASK), st.integers(0, MASK))
def test_keys_and_numbers_are_those_of_c(library: CDLL, seed: int, step: int, tensor: int) -> None:
    made = key(seed, step, tensor)
    assert made == library.key_of(seed, step, tensor)
    u = uniform(made, 40)
    assert u.dtype == torch.float32
    assert u.tolist() == [library.number(made, counter) for counter in range(40)]


EDGES = [0.0, -0.0, 1.0, -1.0, 0.99999994, -1e-30, 2.0**30, -(2.0**30), 3e38, float("inf")]
EDGES += [float("-inf"), float("nan"), 127.5, -128.25, 16777216.0, -8388607.5, 1073741760.0]


@settings(max_examples=200, deadline=None)
@given(
    delta=st.one_of(st.sampled_from(EDGES), st.floats(width=32)),
    u=st.integers(0, 2**24 - 1).map(lambda n: n * 2.0**-24),
)
def test_rounding_is_that_of_c(library: CDLL, delta: float, u: float) -> None:
    mine = stochastic_round(torch.tensor([delta]), torch.tensor([u]))
    assert mine.dtype == torch.int64
    assert mine.item() == library.rounded(delta, u)


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, MASK),
    rate=st.sampled_from([1e-8, 0.01, 1.0, 1e6]),
    extreme=st.sampled_from([0.0, 1e30, -1e30, float("inf"), float("nan")]),
)
def test_weight_step_is_that_of_c(library: CDLL, seed: int, rate: float, extreme: float) -> None:
    random = np.random.default_rng(seed)
    weight = torch.from_numpy(random.integers(-127, 128, (3, 4, 1, 2)).astype(np.int8))
    gradient = torch.from_numpy(random.normal(size=weight.shape).astype(np.float32) * 30)
    gradient[0, 0, 0, 0] = extreme
    scale = torch.from_numpy(random.random(3).astype(np.float32))
    mine = sgd_weight(weight, gradient, scale, rate, seed)
    wide = scale.view(3, 1, 1, 1).expand_as(gradient)
    assert mine.dtype == weight.dtype
    rows = zip(weight.flatten(), gradient.flatten(), wide.flatten(), strict=True)
    assert mine.flatten().tolist() == [
        library.stepped(int(w), float(g), float(s), rate, seed, counter)
        for counter, (w, g, s) in enumerate(rows)
    ]
