# SPDX-License-Identifier: Apache-2.0
"""Choosing what learns changes nothing that a network computes, and can be chosen again."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from random_networks import Maker, as_tensor
from sample_network import SCHEME, sample_image, sample_network
from trainlet.build import build_program
from trainlet.errors import TrainletError
from trainlet.graph import Role
from trainlet.nn import Int8Conv2d, Int8MaxPool2d, Quantization, apply_scheme, convolutions
from trainlet.ops.layout import pairs_inverse, taps_inverse
from trainlet.ops.weight_layout import Pairs
from trainlet.scheme import RATIOS, Scheme, everything, head_only

KINDS = {"pointwise": (6, 1, (1, 1)), "depthwise": (6, 6, (3, 3)), "general": (6, 2, (3, 2))}


def conv(kind: str, mode: str = "fast") -> tuple[Int8Conv2d, torch.Tensor]:
    channels, groups, kernel = KINDS[kind]
    maker = Maker(5, mode)
    x = maker.integers(-128, 127, (2, channels, 5, 5)).float()
    out = channels if kind == "depthwise" else 4
    return maker.conv(x, Quantization(0.02, -4), out, kernel, groups=groups)[0], x


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(KINDS)),
    st.lists(st.tuples(st.sets(st.integers(0, 5)), st.booleans()), min_size=1, max_size=3),
)
def test_any_split_keeps_weight_and_output(kind: str, choices: list[tuple[set[int], bool]]) -> None:
    layer, x = conv(kind)
    weight, before = layer.weight.clone(), layer(x)
    axis = 0 if kind == "depthwise" else 1
    for chosen, bias in choices:
        channels = sorted(c for c in chosen if c < weight.shape[axis])
        layer.set_learning(channels, bias)
        assert torch.equal(layer.weight, weight)
        assert torch.equal(layer(x), before)
        kept = 0 if layer.kept is None else layer.kept.shape[axis]
        rest = 0 if layer.rest is None else layer.rest.shape[axis]
        assert (kept, kept + rest) == (len(channels), weight.shape[axis])
        if layer.kept is not None:
            picked = weight.index_select(axis, torch.tensor(channels))
            assert torch.equal(layer.kept.detach(), picked)
        learning = {n for n, p in layer.named_parameters() if p.requires_grad}
        assert learning == {*(["kept"] if channels else []), *(["bias"] if bias else [])}


@pytest.mark.parametrize("scheme", [SCHEME, head_only(), everything()], ids=lambda s: s.name)
def test_applying_a_scheme_twice_is_applying_it_once(scheme: Scheme) -> None:
    once, twice = sample_network(), sample_network()
    plans = apply_scheme(once, scheme)
    for _ in range(2):
        assert apply_scheme(twice, scheme) == plans
    for (name, a), (other, b) in zip(
        once.state_dict().items(), twice.state_dict().items(), strict=True
    ):
        assert name == other
        assert torch.equal(a, b)
    assert [p.requires_grad for p in once.parameters()] == [
        p.requires_grad for p in twice.parameters()
    ]


def test_schemes_one_after_another_leave_the_network_as_it_was() -> None:
    network, fresh = sample_network(), sample_network()
    image = as_tensor(sample_image())
    before = network(image)
    for scheme in (SCHEME, everything(), head_only(), SCHEME):
        apply_scheme(network, scheme)
        assert torch.equal(network(image), before)
    for path, layer in convolutions(network).items():
        assert torch.equal(layer.weight, convolutions(fresh)[path].weight)


@pytest.mark.parametrize("channels", ["magnitude", "first", "random"])
@pytest.mark.parametrize("ratio", RATIOS)
def test_the_schemes_channels_are_those_that_the_emitted_weights_hold(
    channels: str, ratio: float
) -> None:
    network = sample_network()
    whole = {path: layer.weight.numpy() for path, layer in convolutions(network).items()}
    paths = list(whole)[1:]
    scheme = Scheme("some", biases="all", weights=tuple((p, ratio) for p in paths), seed=4,
                    channels=channels)  # fmt: skip
    plans = {plan.path: plan for plan in apply_scheme(network, scheme)}
    program = build_program(network, "some")
    weights = [v for v in program.step.graph.with_role(Role.PARAMETER) if v.name.endswith(".kept")]
    assert [value.name for value in weights] == [f"{path}.kept" for path in paths]
    for value in weights:
        path = value.name.removesuffix(".kept")
        layout, data = program.layouts[value.name], program.stored(value)
        if isinstance(layout, Pairs):
            held = pairs_inverse(data, value.shape, layout.groups)
        else:
            held = taps_inverse(data, value.shape)
        axis = 0 if convolutions(network)[path].depthwise else 1
        np.testing.assert_array_equal(held, whole[path].take(plans[path].channels, axis))


def test_a_bias_is_kept_where_no_accumulator_can_overflow() -> None:
    layer, _ = conv("general")
    limit = 2**31 - 1 - 3 * 6 * 127 * 255
    huge = Int8Conv2d(
        layer.weight,
        torch.full((4,), 2.0**31 - 1, dtype=torch.float64),
        weight_scales=layer.weight_scales,
        x=layer.x,
        y=layer.y,
        groups=2,
    )
    assert huge.bias.tolist() == [limit] * 4
    assert huge.bias_limit.tolist() == [limit] * 4


def test_dead_channels_have_no_update_scale_and_live_ones_the_inverse_square() -> None:
    layer, _ = conv("pointwise")
    scales = torch.tensor([4e-9, 0.01, 1e-5, 0.002], dtype=torch.float64)
    made = Int8Conv2d(
        layer.weight, torch.zeros(4), weight_scales=scales, x=layer.x, y=Quantization(1.0, 0)
    )
    expected = torch.tensor([0.0, 1e4, 1e10, 2.5e5])
    torch.testing.assert_close(made.weight_qas, expected)
    torch.testing.assert_close(made.bias_qas, expected / layer.x.scale**2)


def test_a_scheme_for_a_head_that_is_not_there_is_refused() -> None:
    layer, _ = conv("pointwise")
    with pytest.raises(TrainletError, match="set head = false"):
        apply_scheme(layer, head_only())


def test_a_maximum_over_more_elements_than_its_byte_can_tell_is_refused() -> None:
    assert Int8MaxPool2d((16, 16)).kernel == [16, 16]
    with pytest.raises(TrainletError, match="at most 256"):
        Int8MaxPool2d((16, 17))


def _layer(scale: float, taps: int, bias: int) -> Int8Conv2d:
    return Int8Conv2d(
        torch.full((1, taps, 1, 1), 127),
        torch.tensor([bias]),
        weight_scales=torch.tensor([scale]),
        x=Quantization(1.0, -128),
        y=Quantization(1.0, 0),
        requantize="tflite",
    )


def test_no_accumulator_leaves_int32_even_when_it_is_shifted_left() -> None:
    layer = _layer(3.0, taps=4, bias=2**31 - 1)
    largest = int(layer.bias.abs().max()) + 4 * 127 * 255
    assert largest << 2 <= 2**31 - 1
    with pytest.raises(TrainletError, match="overflows int32"):
        _layer(2.0**20, taps=4, bias=0)
