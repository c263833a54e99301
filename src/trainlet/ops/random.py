# SPDX-License-Identifier: Apache-2.0
"""The seeded generator behind stochastic rounding: the exact twin of tl_random.h.

A number is a hash of (key, counter), so that it depends on the element and not
on the order in which elements are visited.  The hash is the finalizer of
MurmurHash3; integers are int64 tensors that hold 32-bit values.
"""

from __future__ import annotations

import torch
from torch import Tensor

_WEIGHT_LIMIT = 127
STEP_LIMIT = 1 << 30
"""No step of a stochastically rounded value is larger."""

_MASK = 0xFFFFFFFF
_GOLDEN = 0x9E3779B9
_FIRST, _SECOND = 0x85EBCA6B, 0xC2B2AE35


def key(seed: int, step: int, tensor: int) -> int:
    """The key of one tensor's update in one step (tl_key)."""
    mixed = _mix(int(seed) & _MASK)
    mixed = _mix((mixed + int(step)) & _MASK)
    return _mix((mixed + int(tensor)) & _MASK)


def uniform(key: int, count: int) -> Tensor:
    """The numbers of elements 0, 1, ..., count - 1: float32 [count] in [0, 1)."""
    counter = torch.arange(count, dtype=torch.int64)
    mixed = _mix_all((_times(counter & _MASK, _GOLDEN) + key) & _MASK)
    return (mixed >> 8).to(torch.float32) * 2.0**-24


def stochastic_round(delta: Tensor, u: Tensor) -> Tensor:
    """floor(delta + u), as int64; the sum is taken in float32.

    0 where the sum is not a number, and within +-2^30 always.
    """
    total = delta.to(torch.float32) + u
    finite = torch.where(total.isnan(), torch.zeros_like(total), total)
    bounded = finite.clamp(-float(STEP_LIMIT), float(STEP_LIMIT))
    return bounded.floor().to(torch.int64)


def sgd_weight(
    weight: Tensor, gradient: Tensor, scale: Tensor, learning_rate: float, key: int
) -> Tensor:
    """One step of int8 weights (tl_sgd_weight), the number of element i being that of counter i.

    weight [O, ...] holds integers in any type, which is kept; gradient is float32 of the same
    shape and scale float32 [O].
    """
    rate = torch.tensor(learning_rate, dtype=torch.float32)
    wide = scale.to(torch.float32).view(-1, *[1] * (weight.dim() - 1))
    delta = -(gradient.to(torch.float32) * wide) * rate
    u = uniform(key, weight.numel()).view(weight.shape)
    stepped = weight.to(torch.int64) + stochastic_round(delta, u)
    return stepped.clamp(-_WEIGHT_LIMIT, _WEIGHT_LIMIT).to(weight.dtype)


def _mix(h: int) -> int:
    h ^= h >> 16
    h = (h * _FIRST) & _MASK
    h ^= h >> 13
    h = (h * _SECOND) & _MASK
    return h ^ (h >> 16)


def _mix_all(h: Tensor) -> Tensor:
    h = h ^ (h >> 16)
    h = _times(h, _FIRST)
    h = h ^ (h >> 13)
    h = _times(h, _SECOND)
    return h ^ (h >> 16)


def _times(h: Tensor, factor: int) -> Tensor:
    """h * factor modulo 2^32, in halves so that no product leaves int64."""
    low = (h & 0xFFFF) * factor
    high = ((h >> 16) * (factor & 0xFFFF) & 0xFFFF) << 16
    return (low + high) & _MASK
