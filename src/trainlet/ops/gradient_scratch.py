# SPDX-License-Identifier: Apache-2.0
"""Bytes of scratch that the C kernels of the convolution's gradients need."""

from __future__ import annotations

_FLOAT = 4
_BLOCK = 4
"""Channels that a gradient kernel computes together (TL_BLOCK)."""
_RUN = 64
"""Pixels that a weight gradient turns to float at a time (TL_RUN)."""


def dense_grad_input_scratch(out_per_group: int) -> int:
    """Scratch of the pointwise and the general input gradient.

    The weights of four input channels under one tap, as float, for all output channels.
    """
    return _FLOAT * _BLOCK * _round_up(out_per_group, 2)


def depthwise_grad_input_scratch(
    in_w: int, out: tuple[int, int], kernel: tuple[int, int], stride_w: int, pad_left: int
) -> int:
    """Scratch of the depthwise input gradient: two channels with side borders, and weights."""
    left = max(0, (kernel[1] - 1) // stride_w - pad_left // stride_w)
    width = left + max(out[1], (in_w - 1 + pad_left) // stride_w + 1)
    return 2 * _FLOAT * (out[0] * width + kernel[0] * kernel[1])


def dense_grad_weight_scratch(pixels: int, out_per_group: int) -> int:
    """Scratch of the pointwise and the general weight gradient, alone or with its update.

    ``pixels`` counts those of the output map.  A run of four input channels as float, and the
    sums that wait for the next run.
    """
    if pixels <= _RUN:
        return _FLOAT * (_BLOCK * pixels + _BLOCK * _BLOCK)
    return _FLOAT * _BLOCK * (_RUN + _round_up(out_per_group, _BLOCK))


def depthwise_grad_weight_scratch(in_h: int, out_w: int, kernel_w: int, stride_w: int) -> int:
    """Scratch of the depthwise weight gradient: a channel of x as float, with side borders."""
    return _FLOAT * in_h * ((out_w - 1) * stride_w + kernel_w)


def _round_up(count: int, to: int) -> int:
    return -(-count // to) * to
