# SPDX-License-Identifier: Apache-2.0
"""One meaning, several executors: PyTorch, host C and emulated Cortex-M agree to the bit."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from random_networks import as_tensor, image_of, trained_networks
from trainlet.build import build_program
from trainlet.devices import MemoryMap
from trainlet.emit import Program, Rates, emit_library
from trainlet.graph import DType
from trainlet.nn import Int8Network
from trainlet.ops.base import RunState
from trainlet.ops.interpret import interpret
from trainlet.ops.weight_layout import apply_layout
from trainlet.planning import check
from trainlet.run import EmulatedDevice, HostLibrary, build_firmware

few = settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
ROOMY = MemoryMap(0x08000000, 1 << 20, 0x20000000, 1 << 20)
RATES = Rates(backbone=0.02, head=0.05)


def emitted(program: Program, folder: Path) -> Path:
    for name, text in emit_library(program, "net", RATES).items():
        (folder / name).write_text(text)
    return folder


@few
@given(trained_networks())
def test_inference_is_exact_on_the_host(network: Int8Network) -> None:
    program = build_program(network, "net")
    with tempfile.TemporaryDirectory() as folder:
        host = HostLibrary(emitted(program, Path(folder)), "net")
        host.init(1)
        for seed in range(3):
            image = image_of(network, seed)
            assert host.predict(image) == 0
            with torch.no_grad():
                expected = network(as_tensor(image)).numpy()[0]
            np.testing.assert_array_equal(host.logits(), expected)
        host.close()


@few
@given(trained_networks())
def test_both_plans_pass_the_checker(network: Int8Network) -> None:
    program = build_program(network, "net")
    for planned in (program.step, program.inference):
        check(planned.problem, planned.plan)
    assert program.step.plan.arena_bytes >= program.step.plan.lower_bound_bytes


@few
@given(trained_networks())
def test_a_step_agrees_with_the_reference(network: Int8Network) -> None:
    """Integers may differ by one where float sums in another order cross a rounding edge."""
    program = build_program(network, "net")
    graph = program.step.graph
    image = image_of(network, 5)
    state = RunState(RATES.backbone, RATES.head, seed=3, step=0)
    label = torch.tensor([1])
    values = interpret(graph, program.tensors, {"image": as_tensor(image), "label": label}, state)
    with tempfile.TemporaryDirectory() as folder:
        host = HostLibrary(emitted(program, Path(folder)), "net")
        host.init(3)
        assert host.train_step(image, 1) == 0
        assert host.loss() == pytest.approx(float(values[graph.outputs[0]]), rel=1e-5, abs=1e-6)
        block = host.trainables()
        host.close()
    for name, offset in program.trainable_offsets.items():
        value = graph.values[name]
        expected = values[f"{name}.next"].detach().numpy()
        stored = _stored(program, name, expected)
        got = block[offset : offset + stored.nbytes].view(stored.dtype)
        if value.dtype is DType.F32:
            np.testing.assert_allclose(got, stored, rtol=1e-4, atol=1e-6)
            continue
        difference = np.abs(got.astype(np.int64) - stored.astype(np.int64))
        tolerance = 1 + 2e-5 * np.abs(stored.astype(np.float64) - _before(program, name))
        assert (difference <= tolerance).all(), name
        assert (difference > 0).mean() <= 0.02 + 1 / difference.size, name


def _stored(program: Program, name: str, data: np.ndarray) -> np.ndarray:
    value = program.step.graph.values[name]
    kinds = {DType.I8: np.int8, DType.I32: np.int32, DType.F32: np.float32}
    typed = data.reshape(value.shape).astype(kinds[value.dtype])
    layout = program.layouts.get(name)
    return typed.reshape(-1) if layout is None else apply_layout(layout, typed)


def _before(program: Program, name: str) -> np.ndarray:
    return program.stored(program.step.graph.values[name]).astype(np.float64)


@settings(few, max_examples=6)
@given(trained_networks())
def test_the_device_trains_to_the_bits_of_the_host(network: Int8Network) -> None:
    program = build_program(network, "net")
    with tempfile.TemporaryDirectory() as folder:
        library = emitted(program, Path(folder))
        host = HostLibrary(library, "net")
        firmware = build_firmware(
            library, "net", core="cortex-m7", memory=ROOMY, target=library / "net.elf"
        )
        device = EmulatedDevice(firmware)
        for machine in (host, device):
            machine.init(7)
        for step in range(4):
            image = image_of(network, step)
            label = step % network.classes
            assert host.train_step(image, label) == device.train_step(image, label) == 0
            assert host.loss() == device.loss()
            np.testing.assert_array_equal(host.logits(), device.logits())
            np.testing.assert_array_equal(host.trainables(), device.trainables())
        host.close()
