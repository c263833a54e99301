# SPDX-License-Identifier: Apache-2.0
"""The overlap rule against a simulation of every byte that a kernel reads and writes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from math import prod

from hypothesis import given, settings
from hypothesis import strategies as st

from trainlet.ops.overlap import ALIGNMENT, Window, align, window_lag


@dataclass(frozen=True)
class Kernel:
    """A sliding window with its own extent, which the rule does not need to know."""

    size: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    in_pixel: int
    out_pixel: int
    tile: int

    @property
    def out(self) -> tuple[int, int]:
        rows, columns = (
            (self.size[a] + self.padding[a] + self.padding[2 + a] - self.kernel[a])
            // self.stride[a]
            + 1
            for a in (0, 1)
        )
        return rows, columns

    @property
    def window(self) -> Window:
        return Window(*self.size, *self.out, self.stride, self.padding[0], self.padding[1])

    def reads(self) -> list[set[int]]:
        """For every output pixel the input pixels that it needs."""
        found = []
        for i, j in itertools.product(*map(range, self.out)):
            top, left = i * self.stride[0] - self.padding[0], j * self.stride[1] - self.padding[1]
            rows = [r for r in range(top, top + self.kernel[0]) if 0 <= r < self.size[0]]
            columns = [c for c in range(left, left + self.kernel[1]) if 0 <= c < self.size[1]]
            found.append({r * self.size[1] + c for r in rows for c in columns})
        return found

    def is_safe(self, lag: int) -> bool:
        """Whether no byte is written that is still to be read; the output lies at 0."""
        reads, step = self.reads(), max(self.tile, 1)
        for start in range(0, len(reads), step):
            stop = min(start + step, len(reads))
            unread = reads[stop:] if self.tile else reads[start:]
            wanted = set().union(*unread) if unread else set()
            written = range(start * self.out_pixel, stop * self.out_pixel)
            bytes_wanted = {
                lag + p * self.in_pixel + b for p in wanted for b in range(self.in_pixel)
            }
            if bytes_wanted.intersection(written):
                return False
        return True


@st.composite
def kernels(draw: st.DrawFn) -> Kernel:
    kernel = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    padding = tuple(draw(st.integers(0, kernel[a % 2] - 1)) for a in range(4))
    size = tuple(
        draw(st.integers(max(1, kernel[a] - padding[a] - padding[2 + a]), 6)) for a in (0, 1)
    )
    return Kernel(
        (size[0], size[1]),
        kernel,
        (draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        (padding[0], padding[1], padding[2], padding[3]),
        draw(st.integers(1, 20)),
        draw(st.integers(1, 20)),
        draw(st.sampled_from([0, 4])),
    )


@settings(max_examples=50, deadline=None)
@given(kernels())
def test_no_byte_is_overwritten_before_it_is_read(kernel: Kernel) -> None:
    lag = window_lag(kernel.window, kernel.in_pixel, kernel.out_pixel, tile=kernel.tile)
    assert lag >= 0
    assert lag % ALIGNMENT == 0
    assert kernel.is_safe(lag)
    assert kernel.is_safe(lag + ALIGNMENT)


@settings(max_examples=50, deadline=None)
@given(kernels())
def test_a_smaller_lag_would_be_wrong(kernel: Kernel) -> None:
    """Or the output would end beyond its input, which saves no byte and which the rule avoids."""
    lag = window_lag(kernel.window, kernel.in_pixel, kernel.out_pixel, tile=kernel.tile)
    if lag == 0:
        return
    rows, columns = kernel.out
    output, source = rows * columns * kernel.out_pixel, prod(kernel.size) * kernel.in_pixel
    beyond = output > lag - ALIGNMENT + source
    assert beyond or not kernel.is_safe(lag - ALIGNMENT)


def test_a_pointwise_kernel_needs_room_only_where_it_widens() -> None:
    window = Window(4, 4, 4, 4, (1, 1), 0, 0)
    assert window_lag(window, 16, 8, tile=4) == 0
    assert window_lag(window, 8, 8, tile=4) == 0
    assert window_lag(window, 8, 16, tile=4) == 16 * 16 - 16 * 8


def test_a_depthwise_kernel_needs_a_row_and_a_pixel() -> None:
    window = Window(6, 6, 6, 6, (1, 1), 1, 1)
    assert window_lag(window, 8, 8, tile=0) == (6 + 1 + 1) * 8


def test_sizes_are_aligned_upwards() -> None:
    assert [align(n) for n in (0, 1, 8, 9)] == [0, 8, 8, 16]
