# SPDX-License-Identifier: Apache-2.0
"""The bias update in C and its reference: the same bits for the same sum."""

from __future__ import annotations

import numpy as np
import torch
from harness import Sgd, host
from hypothesis import given, settings
from hypothesis import strategies as st

from trainlet.ops import RunState
from trainlet.ops.random import key
from trainlet.ops.update import channel_sum, sgd_bias_reference


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 9),
    st.sampled_from([1e-3, 1.0, 1e8, 1e20]),
    st.sampled_from([100, 2_000_000_000]),
)
def test_the_bias_step_is_the_kernels_to_the_bit(
    seed: int, channels: int, size: float, limit: int
) -> None:
    """One pixel, so that both have the same sum."""
    draw = np.random.default_rng(seed)
    g = (draw.standard_normal(channels) * size).astype(np.float32)
    scale = draw.uniform(0, 10, channels).astype(np.float32)
    scale[0] = 0.0
    limits = np.full(channels, limit, np.int32)
    bias = draw.integers(-limit, limit + 1, channels).astype(np.int32)
    run = RunState(learning_rate=0.37, seed=seed, step=5)
    expected = sgd_bias_reference(
        run,
        9,
        channel_sum(torch.from_numpy(g).view(1, -1, 1, 1)),
        torch.from_numpy(bias).double(),
        torch.from_numpy(scale),
        torch.from_numpy(limits),
    )
    sgd = Sgd(scale, 0.37, key(seed, 5, 9))
    host(("tl_channel_sum",)).call("tl_channel_sum_sgd_s32", 1, channels, sgd, limits, g, bias)
    np.testing.assert_array_equal(bias, expected.numpy().astype(np.int64))
