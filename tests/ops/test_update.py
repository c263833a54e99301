# SPDX-License-Identifier: Apache-2.0
"""The update: limits hold, dead channels rest, rounding is unbiased, seeds decide every bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainlet.ops import RunState
from trainlet.ops.random import key, stochastic_round, uniform
from trainlet.ops.update import sgd_bias_reference, sgd_weight_reference

few = settings(max_examples=30, deadline=None)
gradients = st.floats(-1e30, 1e30) | st.sampled_from([math.inf, -math.inf, math.nan])


def state(rate: float = 1.0, seed: int = 1, step: int = 0) -> RunState:
    return RunState(learning_rate=rate, seed=seed, step=step)


@few
@given(st.integers(-127, 127), gradients, st.floats(0, 1e6, width=32), st.floats(-10, 10, width=32))
def test_weights_stay_symmetric_int8(
    weight: int, gradient: float, scale: float, rate: float
) -> None:
    w, g = torch.full((2, 3), float(weight)), torch.full((2, 3), gradient)
    stepped = sgd_weight_reference(state(rate), 0, g, w, torch.full((2,), scale))
    assert stepped.abs().max() <= 127
    assert torch.equal(stepped, stepped.round())


def test_a_huge_step_saturates_and_does_not_wrap() -> None:
    w = torch.tensor([[120.0, -120.0]])
    g = torch.tensor([[-1e30, 1e30]])
    assert sgd_weight_reference(state(), 0, g, w, torch.ones(1)).tolist() == [[127.0, -127.0]]
    limit = torch.tensor([2_000_000_000.0, 1_000.0], dtype=torch.float64)
    bias = torch.tensor([1_999_999_999.0, -1_000.0], dtype=torch.float64)
    g = torch.tensor([-1e30, 1e30], dtype=torch.float64)
    stepped = sgd_bias_reference(state(), 0, g, bias, torch.ones(2), limit)
    assert stepped.tolist() == [2_000_000_000, -1_000]


@few
@given(gradients, st.integers(0, 2**32 - 1))
def test_a_dead_channel_never_moves(gradient: float, seed: int) -> None:
    w, g = torch.arange(-4.0, 4.0).view(2, 4), torch.full((2, 4), gradient)
    scale = torch.tensor([0.0, 1.0])
    assert torch.equal(sgd_weight_reference(state(seed=seed), 0, g, w, scale)[0], w[0])
    bias, limit = w[:, 0].double(), torch.full((2,), 9.0)
    stepped = sgd_bias_reference(state(seed=seed), 0, g[:, 0].double(), bias, scale, limit)
    assert stepped[0] == bias[0]


@pytest.mark.parametrize("delta", [0.0, 0.1, -0.1, 0.5, -2.75, 3.999])
def test_rounding_is_unbiased(delta: float) -> None:
    count = 40_000
    rounded = stochastic_round(torch.full((count,), delta), uniform(key(3, 0, 1), count)).double()
    deviation = math.sqrt((delta - math.floor(delta)) * (1 - (delta - math.floor(delta))) / count)
    assert abs(float(rounded.mean()) - delta) <= 5 * deviation + 1e-6
    assert set(rounded.tolist()) <= {math.floor(delta), math.ceil(delta)}


def test_numbers_are_uniform_and_keys_independent() -> None:
    numbers = [uniform(key(*k), 4_096) for k in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))]
    for u in numbers:
        assert 0 <= u.min() <= u.max() < 1
        counts = torch.histc(u, 16, 0, 1)
        assert float(((counts - 256) ** 2 / 256).sum()) < 50  # chi squared, 15 degrees
    correlations = np.corrcoef(torch.stack(numbers).numpy()) - np.eye(4)
    assert np.abs(correlations).max() < 0.08


def test_seed_step_and_tensor_each_change_the_bits() -> None:
    w, g = torch.zeros(4, 64), torch.full((4, 64), 0.5)

    def stepped(seed: int, step: int, tensor: int) -> torch.Tensor:
        return sgd_weight_reference(state(seed=seed, step=step), tensor, g, w, torch.ones(4))

    assert torch.equal(stepped(1, 2, 3), stepped(1, 2, 3))
    for other in ((2, 2, 3), (1, 3, 3), (1, 2, 4)):
        assert not torch.equal(stepped(1, 2, 3), stepped(*other))
