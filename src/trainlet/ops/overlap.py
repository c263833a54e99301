# SPDX-License-Identifier: Apache-2.0
"""How far before its input an output must start so that a kernel may write over what it reads.

Kernels visit output pixels in ascending order.  When the kernel has written
the bytes up to ``w`` of its output and still needs the input from byte ``r``
on, the output may share memory with the input if ``output + w <= input + r``.
The lag is the largest ``w - r`` over the run, rounded up to the alignment.
"""

from __future__ import annotations

from dataclasses import dataclass

ALIGNMENT = 8


@dataclass(frozen=True)
class Window:
    """Geometry of a sliding-window kernel over channels-last maps (sizes in elements)."""

    in_h: int
    in_w: int
    out_h: int
    out_w: int
    stride: tuple[int, int]
    pad_top: int
    pad_left: int


def window_lag(window: Window, in_pixel: int, out_pixel: int, *, tile: int) -> int:
    """Lag of a sliding-window kernel; ``in_pixel`` and ``out_pixel`` are bytes a pixel.

    ``tile`` pixels are read completely before the first of them is written;
    0 stands for a kernel that may still read a pixel's window while it writes
    that pixel.
    """
    first = _first_reads(window)
    pixels = len(first)
    step = max(tile, 1)
    end_of_input = window.in_h * window.in_w
    lag = 0
    lowest = end_of_input
    for start in range(((pixels - 1) // step) * step, -1, -step):
        stop = min(start + step, pixels)
        own = min(first[start:stop])
        still_needed = lowest if tile else min(lowest, own)
        lag = max(lag, stop * out_pixel - still_needed * in_pixel)
        lowest = min(lowest, own)
    return align(lag)


def align(size: int) -> int:
    """The size rounded up to the alignment of values."""
    return -(-int(size) // ALIGNMENT) * ALIGNMENT


def _first_reads(window: Window) -> list[int]:
    """For every output pixel the lowest input pixel that its window touches."""
    reads = []
    for row in range(window.out_h):
        top = max(row * window.stride[0] - window.pad_top, 0)
        for column in range(window.out_w):
            left = max(column * window.stride[1] - window.pad_left, 0)
            reads.append(min(top, window.in_h - 1) * window.in_w + min(left, window.in_w - 1))
    return reads
