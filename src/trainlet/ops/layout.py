# SPDX-License-Identifier: Apache-2.0
"""How weights lie in memory for the C kernels, and how much scratch memory the kernels need.

A convolution's weights are canonically [out, in / groups, kernel_h, kernel_w].  The input
channels of a group are cut into two segments, kept (the weights learn) and rest (they do not);
each segment is an array of its own, laid out by `pairs_layout` or `taps_layout`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trainlet.errors import TrainletError

Int8 = NDArray[np.int8]

TILE = 4
"""Pixels whose activations a kernel widens together (TL_TILE)."""

_QUAD = 4
_QUAD_ORDER = (0, 2, 1, 3)


def quads(width: int, taps: int = 1) -> int:
    """Groups of four k that a segment of `width` channels and `taps` kernel positions fills."""
    return -(-width * taps // _QUAD)


def pairs_size(out: int, width: int, taps: int, groups: int) -> int:
    """Bytes of a segment in the layout `pairs`."""
    pairs = -(-(out // groups) // 2)
    return groups * pairs * quads(width, taps) * 2 * _QUAD


def pairs_layout(weight: Int8, groups: int = 1) -> Int8:
    """A segment [out, width, kernel_h, kernel_w] in the layout `pairs`, one-dimensional.

    For each group, for each pair of its output channels o0 and o1, for each quad of k, 8 bytes:
    o0 k0, o1 k0, o0 k2, o1 k2, o0 k1, o1 k1, o0 k3, o1 k3; k = tap * width + channel.  Absent
    channels and positions are zeros.
    """
    out, width, taps = _shape(weight, groups)
    per_group = out // groups
    pairs, count = -(-per_group // 2), quads(width, taps)
    padded = np.zeros((groups, 2 * pairs, count * _QUAD), np.int8)
    by_tap = weight.reshape(groups, per_group, width, taps).transpose(0, 1, 3, 2)
    padded[:, :per_group, : width * taps] = by_tap.reshape(groups, per_group, width * taps)
    blocks = padded.reshape(groups, pairs, 2, count, _QUAD)[..., list(_QUAD_ORDER)]
    return np.ascontiguousarray(blocks.transpose(0, 1, 3, 4, 2)).reshape(-1)


def pairs_inverse(data: Int8, shape: Sequence[int], groups: int = 1) -> Int8:
    """The segment of `shape` [out, width, kernel_h, kernel_w] that `pairs_layout` laid out."""
    out, width, kernel_h, kernel_w = shape
    taps, per_group = kernel_h * kernel_w, out // groups
    pairs, count = -(-per_group // 2), quads(width, taps)
    if data.size != pairs_size(out, width, taps, groups):
        raise TrainletError(
            f"{data.size} bytes of weights are not a `pairs` layout of shape {tuple(shape)} in "
            f"{groups} groups ({pairs_size(out, width, taps, groups)} bytes)"
        )
    blocks = data.reshape(groups, pairs, count, _QUAD, 2).transpose(0, 1, 4, 2, 3)
    inverse = np.argsort(_QUAD_ORDER)
    rows = blocks[..., inverse].reshape(groups, 2 * pairs, count * _QUAD)
    by_tap = rows[:, :per_group, : width * taps].reshape(groups, per_group, taps, width)
    return np.ascontiguousarray(by_tap.transpose(0, 1, 3, 2)).reshape(tuple(shape))


def taps_size(channels: int, taps: int) -> int:
    """Bytes of a depthwise segment in the layout `taps`."""
    return channels * taps


def taps_layout(weight: Int8) -> Int8:
    """A depthwise segment [channels, 1, kernel_h, kernel_w] as [tap][channel], one-dimensional."""
    channels, _, taps = _shape(weight, weight.shape[0])
    return np.ascontiguousarray(weight.reshape(channels, taps).T).reshape(-1)


def taps_inverse(data: Int8, shape: Sequence[int]) -> Int8:
    """The segment of `shape` [channels, 1, kernel_h, kernel_w] that `taps_layout` laid out."""
    channels, _, kernel_h, kernel_w = shape
    if data.size != taps_size(channels, kernel_h * kernel_w):
        raise TrainletError(
            f"{data.size} bytes of weights are not a `taps` layout of shape {tuple(shape)}"
        )
    return np.ascontiguousarray(data.reshape(-1, channels).T).reshape(tuple(shape))


def pointwise_scratch(kept: int, rest: int) -> int:
    """Bytes of scratch of tl_conv2d_pointwise_s8: the widened channels of one tile."""
    return 2 * TILE * _QUAD * (quads(kept) + quads(rest))


def general_scratch(kept: int, rest: int, taps: int, groups: int) -> int:
    """Bytes of scratch of tl_conv2d_general_s8; `kept` and `rest` count channels of a group.

    The widened windows of one tile, for all groups, and one window's segment as bytes.
    """
    count_kept, count_rest = quads(kept, taps), quads(rest, taps)
    widened = 2 * TILE * _QUAD * (count_kept + count_rest) * groups
    return widened + _QUAD * max(count_kept, count_rest) + _QUAD


def depthwise_scratch(kept: int, channels: int, ordered: bool) -> int:
    """Bytes of scratch of tl_conv2d_depthwise_s8: one result for each kept channel of a pixel.

    `ordered` says whether `tl_conv.order` is given; without it and with every channel kept the
    kept weights are a full set and no scratch is needed.
    """
    return 0 if kept == channels and not ordered else 2 * kept


def _shape(weight: Int8, groups: int) -> tuple[int, int, int]:
    if weight.ndim != 4 or weight.dtype != np.int8 or weight.shape[0] % groups:
        raise TrainletError(
            f"weights of shape {weight.shape} and type {weight.dtype} in {groups} groups cannot "
            "be laid out: int8 [out, in / groups, kernel_h, kernel_w] is needed"
        )
    out, width, kernel_h, kernel_w = weight.shape
    return out, width, kernel_h * kernel_w
