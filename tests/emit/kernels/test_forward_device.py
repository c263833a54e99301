# SPDX-License-Identifier: Apache-2.0
"""The int8 forward kernels on emulated Cortex-M machines: the same bits, and how many
instructions they take."""

from __future__ import annotations

from typing import Any

import harness
import numpy as np
import pytest
from convolutions import Case, cases, place
from elftools.elf.elffile import ELFFile
from harness import Add, AddExact, Conv, Pool, aligned
from hypothesis import HealthCheck, given, settings
from test_forward import KERNELS

from trainlet.ops import layout

CORES = ("m7", "m7-intrinsics", "m4", "m0plus")
few = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module", params=CORES)
def device(request: Any) -> harness.Device:
    return harness.device(request.param, KERNELS)


@pytest.mark.parametrize("kind", ["pointwise", "depthwise", "general"])
def test_convolutions_have_the_hosts_bits(device: harness.Device, kind: str) -> None:
    host = harness.host(KERNELS)

    @few
    @given(case=cases(kind))
    def check(case: Case) -> None:
        y, mask = case.run(host)
        got, got_mask = case.run(device)
        np.testing.assert_array_equal(got, y)
        np.testing.assert_array_equal(got_mask, mask)
        np.testing.assert_array_equal(case.run(device, mask=False, lag=case.lag())[0], y)

    check()


def test_other_kernels_have_the_hosts_bits(device: harness.Device) -> None:
    rng = np.random.default_rng(5)
    a, b = (place(rng.integers(-128, 128, 333).astype(np.int8)) for _ in range(2))
    add = Add(70000, 50000, 123456, -120, 100, 16)
    exact = AddExact((2**30, 2**31 - 1, 2**30 + 12345), (0, -1, -18), (3, -4, 5), -100, 120)
    pool = Pool(7, 5, 9, 4, 3, 3, 3, 2, 2, 1, 1)
    order = np.array([0, 2, 5, 7, 8], np.uint16)
    calls: list[tuple[str, tuple[Any, ...], Any, int]] = [
        ("tl_add_s8", (333, add, a, b), np.int8, 333),
        ("tl_add_exact_s8", (333, exact, a, b), np.int8, 333),
        ("tl_clamp_s8", (333, -50, 60, a), np.int8, 333),
        ("tl_avg_pool2d_s8", (pool, a), np.int8, 4 * 3 * 9),
        ("tl_max_pool2d_s8", (pool, a), np.int8, 4 * 3 * 9),
        ("tl_select_channels_s8", (37, 9, 5, order, a), np.int8, 37 * 5),
        ("tl_dequantize_f32", (333, 0.123, -7, a), np.float32, 333),
    ]
    for name, arguments, kind, size in calls:
        with_mask = name in ("tl_add_s8", "tl_add_exact_s8", "tl_clamp_s8", "tl_max_pool2d_s8")
        results = []
        for machine in (harness.host(KERNELS), device):
            y = aligned(size, kind, fill=0)
            mask = aligned(size, np.uint8, fill=0)
            machine.call(name, *arguments, y, *([mask] if with_mask else []))
            results.append((y.copy(), mask.copy()))
        np.testing.assert_array_equal(results[0][0], results[1][0], err_msg=name)
        np.testing.assert_array_equal(results[0][1], results[1][1], err_msg=name)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("name", KERNELS)
def test_objects_need_no_library(core: str, name: str) -> None:
    """Only the run-time helpers of the ABI may be missing, and none on a core with an FPU."""
    path = harness.compile_object(harness.SOURCES / f"{name}.c", core)
    with path.open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".symtab").iter_symbols()
        missing = {s.name for s in symbols if s["st_shndx"] == "SHN_UNDEF" and s.name}
    allowed = {"__aeabi_lmul", "__aeabi_idiv", "__aeabi_uidiv", "__aeabi_uidivmod"}
    allowed |= {"__aeabi_i2f", "__aeabi_fmul"}
    assert missing <= (allowed if core == "m0plus" else set())


# kind, side, in_c, out_c, kernel, stride, most instructions a MAC
SPEEDS = [
    ("pointwise", 8, 48, 240, 1, 1, 1.1),
    ("pointwise", 4, 96, 384, 1, 1, 1.0),
    ("depthwise", 8, 144, 144, 3, 1, 3.3),
    ("depthwise", 8, 160, 160, 5, 1, 2.9),
    ("general", 32, 3, 16, 3, 2, 2.0),
]


@pytest.mark.parametrize(("kind", "side", "in_c", "out_c", "k", "stride", "most"), SPEEDS)
def test_instructions_per_multiplication(
    kind: str, side: int, in_c: int, out_c: int, k: int, stride: int, most: float
) -> None:
    rng = np.random.default_rng(2)
    pad, groups = (k - 1) // 2, in_c if kind == "depthwise" else 1
    out = (side + 2 * pad - k) // stride + 1
    conv = Conv(side, side, in_c, out, out, out_c, k, k, stride, stride, pad, pad, groups)
    conv.multiplier = np.full(out_c, 2**20, np.int32)
    w = rng.integers(-127, 128, (out_c, in_c // groups, k, k)).astype(np.int8)
    x = rng.integers(-128, 128, (side, side, in_c)).astype(np.int8)
    machine = harness.device("m7", KERNELS)
    Case(kind, conv, x, w, np.zeros(out_c, np.int32)).run(machine, mask=False)
    assert machine.instructions / (out * out * w.size) <= most


def test_layouts_round_trip() -> None:
    rng = np.random.default_rng(3)
    for shape, groups in (((6, 5, 3, 2), 2), ((7, 4, 1, 1), 1), ((9, 1, 2, 2), 3)):
        w = rng.integers(-127, 128, shape).astype(np.int8)
        laid = layout.pairs_layout(w, groups)
        assert laid.size == layout.pairs_size(shape[0], shape[1], shape[2] * shape[3], groups)
        np.testing.assert_array_equal(layout.pairs_inverse(laid, shape, groups), w)
    w = rng.integers(-127, 128, (7, 1, 3, 3)).astype(np.int8)
    np.testing.assert_array_equal(layout.taps_inverse(layout.taps_layout(w), w.shape), w)
    np.testing.assert_array_equal(layout.taps_layout(w)[:7], w[:, 0, 0, 0])
