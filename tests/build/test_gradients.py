# SPDX-License-Identifier: Apache-2.0
"""Gradients computed by the emitted C against PyTorch's autograd, through whole networks."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from straight_through import reference_gradients

from random_networks import as_tensor, image_of, trained_networks
from sample_network import SCHEME, sample_network, write_emitted
from trainlet.build import build_program
from trainlet.capture import capture_step
from trainlet.emit import Program
from trainlet.importers import load_network
from trainlet.nn import Int8Network, apply_scheme
from trainlet.passes import DEFAULT_PASSES, GRADIENTS, gradient_names
from trainlet.run import HostLibrary
from trainlet.scheme import Scheme, everything, paper_schemes


def emitted_gradients(
    network: Int8Network, image: np.ndarray, label: int, folder: Path
) -> dict[str, np.ndarray]:
    """The gradient of every parameter by the C library, in the parameter's own shape."""
    names = gradient_names(capture_step(network, network.input_shape).graph)
    program = build_program(network, "net", (GRADIENTS, *DEFAULT_PASSES))
    with HostLibrary(write_emitted(program, folder), "net") as host:
        host.init(1)
        before = host.trainables()
        assert host.train_step(image, label) == 0
        np.testing.assert_array_equal(host.trainables(), before)
        return {p: _in_order(program, p, _floats(host, program, v)) for p, v in names.items()}


def _floats(host: HostLibrary, program: Program, name: str) -> np.ndarray:
    """A float value of the arena as it lies there."""
    addresses = program.step.plan.addresses
    start = host.input().ctypes.data - addresses["image"] + addresses[name]
    count = program.step.graph.values[name].elements
    return np.frombuffer(ctypes.string_at(start, 4 * count), np.float32)


def _in_order(program: Program, parameter: str, flat: np.ndarray) -> np.ndarray:
    """In PyTorch's order: the columns of a head that reads a map lie channels-last."""
    value = program.step.graph.values[parameter]
    layout = program.layouts.get(parameter)
    if parameter == "head.weight" and layout is not None:
        split = flat.reshape(value.shape[0], layout.height, layout.width, layout.channels)
        return split.transpose(0, 3, 1, 2).reshape(value.shape)
    return flat.reshape(value.shape)


def compare(network: Int8Network, folder: Path, label: int = 1) -> None:
    image = image_of(network, 4)
    got = emitted_gradients(network, image, label, folder)
    expected = reference_gradients(network, as_tensor(image), label)
    assert got.keys() == expected.keys()
    for name, gradient in expected.items():
        theirs = gradient.numpy()
        largest = np.abs(theirs).max()
        assert np.abs(got[name] - theirs).max() <= 1e-5 * largest, name


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fast", "tflite"])
@pytest.mark.parametrize("scheme", [SCHEME, everything()], ids=lambda scheme: scheme.name)
def test_the_samples_gradients_are_autograds(mode: str, scheme: Scheme, tmp_path: Path) -> None:
    network = sample_network(mode)
    apply_scheme(network, scheme)
    compare(network, tmp_path)


@pytest.mark.slow
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(trained_networks())
def test_random_networks_gradients_are_autograds(
    tmp_path_factory: pytest.TempPathFactory, network: Int8Network
) -> None:
    compare(network, tmp_path_factory.mktemp("gradients"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mcunet-5fps", "mbv2-w0.35", "proxyless-w0.3"])
def test_the_papers_networks_gradients_are_autograds(
    name: str, shared_dir: Path, tmp_path: Path
) -> None:
    path = shared_dir / "models" / "tiny-training" / f"{name}.pkl"
    network = load_network(path, classes=10, resolution=128)
    apply_scheme(network, min(paper_schemes(name), key=lambda scheme: scheme.kb).scheme)
    compare(network, tmp_path, label=3)
