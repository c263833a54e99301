# SPDX-License-Identifier: Apache-2.0
"""Capture: what it refuses and how, and where each operator is said to come from."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from random_networks import Maker
from sample_network import SCHEME, sample_network
from trainlet.capture import capture_step
from trainlet.errors import TrainletError
from trainlet.graph import Role, format_graph
from trainlet.nn import (
    FloatHead,
    Int8Clamp,
    Int8Conv2d,
    Int8Network,
    Quantization,
    apply_scheme,
    convolutions,
)
from trainlet.ops import definition
from trainlet.scheme import everything, head_only, last_biases


class Squash(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(x) * 100


class Twice(nn.Module):
    """Its modules lie two levels deep, and one of them runs twice."""

    def __init__(self, layer: Int8Conv2d) -> None:
        super().__init__()
        self.inner = nn.ModuleDict({"layer": nn.Sequential(layer)})
        self.clamp = Int8Clamp(-100, 100)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.clamp(self.inner["layer"](self.clamp(x)))
        return y


def network_of(*blocks: nn.Module) -> Int8Network:
    """Stem of 3 channels, the blocks, and a head."""
    maker, x = Maker(3, "fast"), torch.full((1, 2, 6, 6), 7.0)
    stem, _ = maker.conv(x, Quantization(0.01, 0), 3)
    return Int8Network(stem, blocks, FloatHead(3, 2, stem.y), input_shape=(2, 6, 6))


def square() -> Int8Conv2d:
    maker = Maker(4, "fast")
    return maker.conv(torch.full((1, 3, 6, 6), 3.0), Quantization(0.05, 0), 3)[0]


def test_every_unsupported_operator_is_listed_by_its_module() -> None:
    inside = nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.Tanh())
    network = network_of(square(), inside, Squash())
    network.requires_grad_(False)
    apply_scheme(network, head_only())
    with pytest.raises(TrainletError) as caught:
        capture_step(network, network.input_shape)
    lines = str(caught.value).splitlines()
    assert "have no int8 kernel" in lines[0]
    assert [line.removeprefix("  - ") for line in lines[1:]] == [
        "blocks.1.0: aten.convolution.default",
        "blocks.1.1: aten.tanh.default",
        "blocks.2: aten.sigmoid.default",
        "blocks.2: aten.mul.Tensor",
    ]


def test_backward_operators_of_unsupported_modules_are_named_too() -> None:
    network = network_of(square(), Squash())
    apply_scheme(network, everything())
    with pytest.raises(TrainletError, match=r"blocks\.1: aten\.sigmoid\.default"):
        capture_step(network, network.input_shape)


def test_a_network_in_which_nothing_learns_is_refused() -> None:
    network = network_of(square())
    network.requires_grad_(False)
    with pytest.raises(TrainletError, match="nothing learns: no parameter"):
        capture_step(network, network.input_shape)


def test_a_parameter_without_an_update_rule_is_refused() -> None:
    class Shift(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.by = nn.Parameter(torch.zeros(1))

        def forward(self, x: Tensor) -> Tensor:
            return x + self.by

    network = network_of(Shift())
    apply_scheme(network, head_only())
    with pytest.raises(TrainletError, match=r"parameter 'blocks\.0\.by' learns"):
        capture_step(network, network.input_shape)


def test_paths_are_right_in_nested_modules() -> None:
    network = network_of(Twice(square()))
    apply_scheme(network, everything())
    graph = capture_step(network, network.input_shape).graph
    forward = [(op.kind, op.path) for op in graph.ops if not definition(op.kind).backward]
    assert forward[:-1] == [
        ("conv2d", "first_conv"),
        ("clamp", "blocks.0.clamp"),
        ("conv2d", "blocks.0.inner.layer.0"),
        ("clamp", "blocks.0.clamp"),
        ("avg_pool2d", "pool"),
        ("dequantize", "head"),
        ("linear", "head"),
    ]
    assert forward[-1][0] == "softmax_cross_entropy"


def test_backward_operators_of_a_convolution_belong_to_its_module() -> None:
    network = sample_network()
    apply_scheme(network, everything())
    graph = capture_step(network, network.input_shape).graph
    paths = set(convolutions(network))
    for kind in ("conv2d_grad_weight", "channel_sum", "sgd_weight", "sgd_bias", "clamp_grad"):
        assert {op.path for op in graph.ops if op.kind == kind} == paths, kind
    # The image has no gradient.
    inner = {op.path for op in graph.ops if op.kind == "conv2d_grad_input"}
    assert inner == paths - {"first_conv"}


def test_a_head_alone_has_no_backward_operator_below_it() -> None:
    network = sample_network()
    apply_scheme(network, head_only())
    graph = capture_step(network, network.input_shape).graph
    backward = {op.kind for op in graph.ops if definition(op.kind).backward}
    assert backward == {
        "softmax_cross_entropy_grad", "linear_grad_weight", "batch_sum", "sgd_f32",
    }  # fmt: skip
    assert {v.name for v in graph.with_role(Role.PARAMETER)} == {"head.weight", "head.bias"}


def test_the_gradient_stops_at_the_first_layer_that_learns() -> None:
    network = sample_network()
    apply_scheme(network, last_biases(2))
    graph = capture_step(network, network.input_shape).graph
    names = list(convolutions(network))
    assert {op.path for op in graph.ops if op.kind == "channel_sum"} == set(names[-2:])
    assert {op.path for op in graph.ops if op.kind == "conv2d_grad_input"} == {names[-1]}


def test_capture_is_deterministic_and_leaves_the_network_alone() -> None:
    network = sample_network()
    apply_scheme(network, SCHEME)
    state = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    first, second = (capture_step(network, network.input_shape) for _ in range(2))
    assert format_graph(first.graph) == format_graph(second.graph)
    assert all(torch.equal(t, state[n]) for n, t in network.state_dict().items())
    assert all(p.grad is None for p in network.parameters())
