# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from trainlet.errors import TrainletError
from trainlet.scheme import (
    LayerInfo,
    LayerPlan,
    Scheme,
    everything,
    head_only,
    last_biases,
    resolve,
)


def layer(path: str, shape: tuple[int, ...], groups: int = 1, seed: int = 0) -> LayerInfo:
    weight = np.random.default_rng(seed).integers(-127, 128, shape).astype(np.int8)
    return LayerInfo(path, weight, groups, np.full(shape[0], 0.01))


def network() -> list[LayerInfo]:
    return [
        layer("first_conv", (8, 3, 3, 3)),
        layer("blocks.0.pointwise1", (16, 8, 1, 1), seed=1),
        layer("blocks.0.depthwise", (16, 1, 3, 3), groups=16, seed=2),
        layer("blocks.0.pointwise2", (8, 16, 1, 1), seed=3),
    ]


def channels(scheme: Scheme, index: int, layers: list[LayerInfo] | None = None) -> tuple[int, ...]:
    return resolve(scheme, layers or network())[index].channels


def test_head_only_freezes_every_layer() -> None:
    paths = [layer.path for layer in network()]
    assert resolve(head_only(), network()) == tuple(LayerPlan(path, False, ()) for path in paths)


def test_last_biases_are_the_last() -> None:
    assert [plan.bias for plan in resolve(last_biases(2), network())] == [False, False, True, True]


def test_everything_takes_all_channels_of_the_right_axis() -> None:
    plans = resolve(everything(), network())
    assert [len(plan.channels) for plan in plans] == [3, 8, 16, 16]
    assert all(plan.bias for plan in plans)


def test_a_share_is_rounded_down_but_never_to_nothing() -> None:
    scheme = Scheme("s", biases="all", weights=(("0", 0.5), ("1", 0.125)), channels="first")
    assert channels(scheme, 0) == (0,)
    assert channels(scheme, 1) == (0,)
    scheme = Scheme("s", biases="all", weights=(("0", 0.125),), channels="first")
    assert channels(scheme, 0) == (0,)


def test_paths_and_indices_name_the_same_layer() -> None:
    by_path = Scheme("s", biases=3, weights=(("blocks.0.pointwise1", 0.5),))
    by_index = Scheme("s", biases=3, weights=(("1", 0.5),))
    assert resolve(by_path, network()) == resolve(by_index, network())


def test_magnitude_is_the_norm_of_the_dequantized_weight() -> None:
    weight = np.zeros((4, 8, 1, 1), np.int8)
    weight[0, 2] = 127  # large, but of a dead output channel
    weight[1, 5] = -3
    weight[2, 1] = 2
    info = LayerInfo("only", weight, 1, np.array([4e-9, 0.1, 0.1, 0.1]))
    scheme = Scheme("s", biases=1, weights=(("0", 0.25),))
    assert channels(scheme, 0, [info]) == (1, 5)


def test_magnitude_ties_go_to_the_lower_index() -> None:
    info = LayerInfo("only", np.ones((2, 8, 1, 1), np.int8), 1, np.ones(2))
    assert channels(Scheme("s", biases=1, weights=(("0", 0.5),)), 0, [info]) == (0, 1, 2, 3)


def test_magnitude_of_a_depthwise_layer_is_per_channel() -> None:
    weight = np.ones((8, 1, 3, 3), np.float32)
    weight[6] = 5
    info = LayerInfo("only", weight, 8, np.ones(8))
    assert channels(Scheme("s", biases=1, weights=(("0", 0.125),)), 0, [info]) == (6,)


def test_random_channels_are_the_same_forever() -> None:
    def pick(seed: int) -> tuple[int, ...]:
        weights = (("1", 0.5), ("3", 0.5))
        scheme = Scheme("s", biases=3, weights=weights, channels="random", seed=seed)
        return channels(scheme, 1) + channels(scheme, 3)

    assert pick(7) == (1, 2, 3, 7, 2, 3, 4, 7, 10, 11, 12, 13)
    assert pick(8) != pick(7)


def test_a_grouped_convolution_counts_the_channels_of_a_group() -> None:
    info = layer("grouped", (8, 4, 3, 3), groups=2)
    assert channels(Scheme("s", biases=1, weights=(("0", 1.0),)), 0, [info]) == (0, 1, 2, 3)


def test_every_problem_is_named_at_once() -> None:
    weights = (
        ("blocks.0.pointwise3", 0.5),
        ("9", 0.5),
        ("zzz", 1.0),
        ("blocks.0.depthwise", 0.5),
        ("2", 0.5),
        ("first_conv", 1.0),
        ("1", 1.0),
    )
    with pytest.raises(TrainletError) as caught:
        resolve(Scheme("s", biases=2, weights=weights), network())
    message = str(caught.value)
    for part in (
        "no layer 'blocks.0.pointwise3': did you mean blocks.0.pointwise",
        "no convolution 9: they count from 0 to 3",
        "no layer 'zzz': the first is first_conv",
        "blocks.0.depthwise (convolution 2) is named twice",
        "first_conv (convolution 0), blocks.0.pointwise1 (convolution 1) learns but lies outside",
        "biases must be at least 4",
    ):
        assert part in message


def test_more_biases_than_convolutions() -> None:
    with pytest.raises(TrainletError, match=r"the last 5 biases .* there are 4 convolutions"):
        resolve(last_biases(5), network())


def test_a_network_without_convolutions() -> None:
    assert resolve(head_only(), []) == ()
    with pytest.raises(TrainletError, match="the network has no convolution"):
        resolve(Scheme("s", biases="all", weights=(("0", 1.0),)), [])
