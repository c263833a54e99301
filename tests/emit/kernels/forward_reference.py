# SPDX-License-Identifier: Apache-2.0
"""The int8 forward operators in plain numpy integers, written from their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def conv2d(x: Array, w: Array, bias: Array, conv: Any) -> Array:
    """Sums [out_h, out_w, out_c] of x [h, w, c] and w [out, in / groups, kernel_h, kernel_w]."""
    tall = conv.out_h * conv.stride_h + conv.kernel_h + conv.in_h
    wide = conv.out_w * conv.stride_w + conv.kernel_w + conv.in_w
    padded = np.zeros((tall, wide, conv.in_c), np.int64)
    top, left = conv.pad_top, conv.pad_left
    padded[top : top + conv.in_h, left : left + conv.in_w] = x.astype(np.int64) - conv.in_zero
    acc = np.tile(bias.astype(np.int64), (conv.out_h, conv.out_w, 1))
    width, per_group = conv.in_c // conv.groups, conv.out_c // conv.groups
    for i in range(conv.kernel_h):
        for j in range(conv.kernel_w):
            rows = padded[i : i + conv.out_h * conv.stride_h : conv.stride_h]
            taps = rows[:, j : j + conv.out_w * conv.stride_w : conv.stride_w]
            for o in range(conv.out_c):
                first = o // per_group * width
                acc[..., o] += taps[..., first : first + width] @ w[o, :, i, j].astype(np.int64)
    assert np.abs(acc).max(initial=0) < 2**31
    return acc


def scale_fast(acc: Array, multiplier: Array) -> Array:
    return (acc * multiplier.astype(np.int64) + 2**31) // 2**32


def scale_exact(acc: int, multiplier: int, shift: int) -> int:
    """MultiplyByQuantizedMultiplier as gemmlowp writes it, on Python's integers."""
    product = (acc << max(shift, 0)) * multiplier
    nudged = product + (2**30 if product >= 0 else 1 - 2**30)
    high = abs(nudged) // 2**31 * (1 if nudged >= 0 else -1)
    exponent = max(-shift, 0)
    below = 2**exponent - 1
    threshold = below // 2 + (1 if high < 0 else 0)
    return (high >> exponent) + (1 if high & below > threshold else 0)


def scale_exact_all(acc: Array, multiplier: Array, shift: Array) -> Array:
    """`scale_exact` with one multiplier and shift for each entry of the last axis."""
    scaled = np.empty(acc.shape, np.int64)
    for index in np.ndindex(*acc.shape):
        channel = index[-1]
        scaled[index] = scale_exact(int(acc[index]), int(multiplier[channel]), int(shift[channel]))
    return scaled


def requantize(acc: Array, conv: Any) -> Array:
    """Output values before the clamp."""
    if conv.shift is None:
        return scale_fast(acc, conv.multiplier) + conv.out_zero
    return scale_exact_all(acc, conv.multiplier, conv.shift) + conv.out_zero


def clamp(value: Array, low: int, high: int) -> tuple[Array, Array]:
    """The clamped int8 values and the bytes of the mask."""
    inside = (value >= low) & (value <= high)
    return np.clip(value, low, high).astype(np.int8), mask_bytes(inside)


def mask_bytes(inside: Array) -> Array:
    return np.packbits(inside.reshape(-1), bitorder="little")


def pool_windows(x: Array, pool: Any) -> Any:
    """((row, column, window top, window left), the part of x inside the map) of each window."""
    for row in range(pool.out_h):
        for column in range(pool.out_w):
            top = row * pool.stride_h - pool.pad_top
            left = column * pool.stride_w - pool.pad_left
            rows = slice(max(top, 0), max(top + pool.kernel_h, 0))
            columns = slice(max(left, 0), max(left + pool.kernel_w, 0))
            yield (row, column, top, left), x[rows, columns].astype(np.int64)


def avg_pool2d(x: Array, pool: Any) -> Array:
    y = np.empty((pool.out_h, pool.out_w, pool.channels), np.int8)
    for (row, column, _, _), part in pool_windows(x, pool):
        count = part.shape[0] * part.shape[1]
        total = part.sum(axis=(0, 1))
        y[row, column] = np.sign(total) * ((2 * np.abs(total) + count) // (2 * count))
    return y


def max_pool2d(x: Array, pool: Any) -> tuple[Array, Array]:
    y = np.empty((pool.out_h, pool.out_w, pool.channels), np.int8)
    index = np.empty(y.shape, np.uint8)
    for (row, column, top, left), part in pool_windows(x, pool):
        flat = part.reshape(-1, pool.channels)
        where = flat.argmax(axis=0)
        y[row, column] = flat.max(axis=0)
        i, j = np.divmod(where, part.shape[1])
        index[row, column] = (i + max(-top, 0)) * pool.kernel_w + j + max(-left, 0)
    return y, index


def first_bytes(op: Any, channels: int) -> list[int]:
    """The first byte that each output pixel's window reads of the map."""
    firsts = []
    for row in range(op.out_h):
        for column in range(op.out_w):
            top = min(max(row * op.stride_h - op.pad_top, 0), op.in_h - 1)
            left = min(max(column * op.stride_w - op.pad_left, 0), op.in_w - 1)
            firsts.append((top * op.in_w + left) * channels)
    return firsts


def tile_lag(op: Any, in_c: int, out_c: int, tile: int = 4) -> int:
    """Bytes by which the output must precede the input if tiles are read before written."""
    firsts = first_bytes(op, in_c)
    ends = range(tile, len(firsts), tile)
    return max((end * out_c - min(firsts[end:]) for end in ends), default=0)


def pixel_lag(op: Any, in_c: int, out_c: int) -> int:
    """The same if a pixel is written while its own window may still be read."""
    firsts = first_bytes(op, in_c)
    return max((p + 1) * out_c - min(firsts[p:]) for p in range(len(firsts)))
