# SPDX-License-Identifier: Apache-2.0
"""The float head, its loss and its gradients; exp and log from basic operations."""

from __future__ import annotations

import subprocess
from ctypes import CDLL, c_size_t, c_void_p
from pathlib import Path

import numpy as np
import pytest
import torch
from backward_cases import NAMES, Array, floats
from harness import SOURCES, ZIG, Device, Host, device, host

WRAPPER = """
#include "tl_math.h"
#include <stddef.h>
void exps(size_t n, const float *x, float *y) { while (n--) *y++ = tl_expf(*x++); }
void logs(size_t n, const float *x, float *y) { while (n--) *y++ = tl_logf(*x++); }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> CDLL:
    folder: Path = tmp_path_factory.mktemp("math")
    (folder / "wrapper.c").write_text(WRAPPER)
    made = folder / "libmath.so"
    flags = ["-std=c11", "-O2", "-fPIC", "-shared", "-ffp-contract=off", "-fno-builtin"]
    source = str(folder / "wrapper.c")
    subprocess.run([*ZIG, *flags, f"-I{SOURCES}", source, "-o", str(made)], check=True)
    return CDLL(str(made))


def applied(library: CDLL, name: str, x: Array) -> Array:
    y = np.empty_like(x)
    getattr(library, name)(c_size_t(x.size), c_void_p(x.ctypes.data), c_void_p(y.ctypes.data))
    return y


def ulps(value: Array, exact: Array) -> Array:
    """Distance in units in the last place of the float32 nearest to `exact`."""
    unit = np.spacing(np.abs(exact.astype(np.float32))).astype(np.float64)
    return np.abs(value.astype(np.float64) - exact) / unit


def test_exp_is_within_two_ulps(library: CDLL) -> None:
    random = np.random.default_rng(1)
    spread = [random.uniform(-104, 88.7, 400_000), random.uniform(-1, 1, 200_000)]
    small = random.uniform(-1, 1, 100_000) * 2.0 ** random.integers(-149, 0, 100_000)
    x = np.concatenate([*spread, small]).astype(np.float32)
    assert ulps(applied(library, "exps", x), np.exp(x.astype(np.float64))).max() <= 2


def test_log_is_within_two_ulps(library: CDLL) -> None:
    random = np.random.default_rng(2)
    bits = random.integers(1, 0x7F800000, 600_000).astype(np.uint32)
    around = random.uniform(0.5, 2, 200_000).astype(np.float32)
    denormal = np.arange(1, 2000, dtype=np.uint32).view(np.float32)
    x = np.concatenate([bits.view(np.float32), around, denormal])
    assert ulps(applied(library, "logs", x), np.log(x.astype(np.float64))).max() <= 2


def test_extremes(library: CDLL) -> None:
    x = np.array([0, -0.0, 1, -104.1, -1e30, -np.inf, 88.72, 88.73, 1e30, np.inf, np.nan])
    y = applied(library, "exps", x.astype(np.float32))
    assert y[:6].tolist() == [1, 1, np.float32(np.e), 0, 0, 0]
    assert np.isfinite(y[6])
    assert np.all(np.isinf(y[7:10]))
    assert np.isnan(y[10])
    x = np.array([0, -0.0, 1, np.inf, -1, -np.inf, np.nan, 2.0**-149], np.float32)
    y = applied(library, "logs", x)
    assert y[:4].tolist() == [-np.inf, -np.inf, 0, np.inf]
    assert np.all(np.isnan(y[4:7]))
    assert y[7] == np.float32(-149 * np.log(2))


@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (7, 3), (16, 10), (33, 5)])
def test_linear(inputs: int, outputs: int) -> None:
    x, weight, bias = floats(1, inputs), floats(2, outputs, inputs), floats(3, outputs)
    g = floats(4, outputs)
    y, plain, gx = bias.copy(), np.zeros_like(bias), np.zeros_like(x)
    for i in range(inputs):
        y += x[i] * weight[:, i]
        plain += x[i] * weight[:, i]
    for o in range(outputs):
        gx += g[o] * weight[o]
    gw = g[:, None] * x
    for on in (host(NAMES), device("m7", NAMES)):
        check_linear(on, (x, weight, bias, g), (y, plain, gx, gw))


def check_linear(on: Host | Device, given: tuple[Array, ...], wanted: tuple[Array, ...]) -> None:
    (x, weight, bias, g), sizes = given, (given[0].size, given[3].size)
    y, plain, gx, gw = wanted
    for offset, expected in ((bias, y), (None, plain)):
        value = np.full_like(expected, np.nan)
        on.call("tl_linear_f32", *sizes, x, weight, offset, value)
        assert value.tobytes() == expected.tobytes()
    back, outer = np.full_like(gx, np.nan), np.full_like(gw, np.nan)
    on.call("tl_linear_grad_input_f32", *sizes, g, weight, back)
    on.call("tl_linear_grad_weight_f32", *sizes, g, x, outer)
    assert back.tobytes() == gx.tobytes()
    assert outer.tobytes() == gw.tobytes()
    fused, apart = weight.copy(), weight.copy()
    on.call("tl_linear_sgd_f32", *sizes, 0.03, g, x, fused)
    on.call("tl_sgd_f32", weight.size, 0.03, outer, apart)
    assert fused.tobytes() == apart.tobytes()
    assert fused.tobytes() == (weight - np.float32(0.03) * gw).tobytes()


@pytest.mark.parametrize("classes", [1, 2, 10, 37])
@pytest.mark.parametrize("spread", [1.0, 30.0, 1e4])
def test_softmax_cross_entropy(classes: int, spread: float) -> None:
    logits = floats(classes, classes) * np.float32(spread)
    label = classes // 2
    exact = torch.from_numpy(logits).double().requires_grad_()
    loss = torch.nn.functional.cross_entropy(exact.unsqueeze(0), torch.tensor([label]))
    loss.backward()
    assert exact.grad is not None
    found = []
    for on in (host(NAMES), device("m7", NAMES), device("m0plus", NAMES)):
        values = logits.copy()
        name = "tl_softmax_cross_entropy_f32"
        value = on.call(name, classes, values, label, values, returns=float)
        assert value == pytest.approx(loss.item(), rel=1e-5, abs=1e-6)
        probabilities = values.copy()
        on.call("tl_softmax_cross_entropy_grad_f32", classes, values, label, values)
        assert np.allclose(values, exact.grad.numpy(), rtol=1e-5, atol=1e-6)
        found.append((np.float32(value).tobytes(), probabilities.tobytes(), values.tobytes()))
    assert found[0] == found[1] == found[2]
