# SPDX-License-Identifier: Apache-2.0
"""Pooling against loops, with windows that overlap, border and tie; gradients by autograd."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainlet.ops.pool import avg_pool2d, max_pool2d

few = settings(max_examples=40, deadline=None)


@dataclass(frozen=True)
class PoolCase:
    size: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    levels: int  # few levels make ties
    seed: int

    @property
    def x(self) -> torch.Tensor:
        draw = np.random.default_rng(self.seed)
        low, high = (-128, 127) if self.levels > 9 else (-self.levels, self.levels)
        return torch.from_numpy(draw.integers(low, high + 1, (2, 3, *self.size))).float()

    def windows(self) -> list[tuple[int, int, list[tuple[int, int, int]]]]:
        """(row, column, [(position in the window, y, x), ...]) without what lies outside."""
        top, left, bottom, right = self.padding
        found = []
        for i in range((self.size[0] + top + bottom - self.kernel[0]) // self.stride[0] + 1):
            for j in range((self.size[1] + left + right - self.kernel[1]) // self.stride[1] + 1):
                inside = [
                    (a * self.kernel[1] + b, i * self.stride[0] - top + a,
                     j * self.stride[1] - left + b)
                    for a, b in np.ndindex(*self.kernel)
                ]  # fmt: skip
                rows, columns = self.size
                found.append(
                    (i, j, [w for w in inside if 0 <= w[1] < rows and 0 <= w[2] < columns])
                )
        return found


@st.composite
def pool_cases(draw: st.DrawFn) -> PoolCase:
    kernel = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    padding = tuple(draw(st.integers(0, kernel[a % 2] - 1)) for a in range(4))
    # A window always holds an element: the map reaches beyond the padding.
    size = tuple(draw(st.integers(kernel[a], 7)) for a in (0, 1))
    stride = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    padding = tuple(min(p, kernel[a % 2] - 1) for a, p in enumerate(padding))
    levels = draw(st.sampled_from([1, 3, 128]))
    seed = draw(st.integers(0, 2**32 - 1))
    return PoolCase((size[0], size[1]), kernel, stride, padding, levels, seed)  # type: ignore[arg-type] # four long


@few
@given(pool_cases())
def test_average_rounds_half_away_from_zero(case: PoolCase) -> None:
    y = avg_pool2d(case.x, case.kernel, case.stride, case.padding)
    for n, c in np.ndindex(2, 3):
        for i, j, window in case.windows():
            mean = Fraction(sum(int(case.x[n, c, a, b]) for _, a, b in window), len(window))
            away = (abs(mean) + Fraction(1, 2)).__floor__() * (1 if mean >= 0 else -1)
            assert int(y[n, c, i, j]) == away


@few
@given(pool_cases())
def test_maximum_and_the_first_place_of_it(case: PoolCase) -> None:
    y, index = max_pool2d(case.x, case.kernel, case.stride, case.padding)
    for n, c in np.ndindex(2, 3):
        for i, j, window in case.windows():
            elements = [(int(case.x[n, c, a, b]), -k) for k, a, b in window]
            largest, place = max(elements)
            assert (int(y[n, c, i, j]), int(index[n, c, i, j])) == (largest, -place)


@few
@given(pool_cases())
def test_gradients_are_those_of_the_real_pools(case: PoolCase) -> None:
    draw = torch.Generator().manual_seed(case.seed % 2**31)
    for name in ("avg", "max"):
        x = case.x.requires_grad_()
        pool = avg_pool2d if name == "avg" else max_pool2d
        made = pool(x, case.kernel, case.stride, case.padding)
        y = made if isinstance(made, torch.Tensor) else made[0]
        gy = torch.randn(y.shape, generator=draw)
        y.backward(gy)
        plain = case.x.double().requires_grad_()
        pieces = []
        for i, j, window in case.windows():
            rows, columns = ([w[k] for w in window] for k in (1, 2))
            inside = plain[:, :, rows, columns]
            real = inside.mean(2) if name == "avg" else _first_largest(inside)
            pieces.append((real * gy[:, :, i, j].double()).sum())
        torch.stack(pieces).sum().backward()
        torch.testing.assert_close(x.grad.double(), plain.grad, rtol=1e-5, atol=1e-6)


def _first_largest(inside: torch.Tensor) -> torch.Tensor:
    """The largest by way of its first place, so that a tie's gradient has one receiver."""
    tie = inside.detach() - 1e-6 * torch.arange(inside.shape[2])
    return inside.gather(2, tie.argmax(2, keepdim=True)).squeeze(2)
