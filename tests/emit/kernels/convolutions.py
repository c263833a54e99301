# SPDX-License-Identifier: Apache-2.0
"""Random quantized convolutions and their calls, for the tests of the forward kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import forward_reference as reference
import numpy as np
from harness import Conv, aligned
from hypothesis import strategies as st

from trainlet.ops import layout

Array = np.ndarray[Any, Any]


@dataclass
class Case:
    """A convolution with its data; w is canonical, in the order of the map's channels."""

    kind: str
    conv: Conv
    x: Array
    w: Array
    bias: Array

    def expected(self) -> tuple[Array, Array]:
        """(y, mask) of the reference."""
        acc = reference.conv2d(self.x, self.w, self.bias, self.conv)
        value = reference.requantize(acc, self.conv)
        return reference.clamp(value, self.conv.clamp_min, self.conv.clamp_max)

    def weights(self) -> tuple[Array | None, Array | None]:
        """(kept, rest) as the kernel wants them."""
        conv, kept = self.conv, self.conv.kept
        if self.kind == "depthwise":
            order = np.arange(conv.in_c) if conv.order is None else conv.order
            learned = layout.taps_layout(self.w[order[:kept]]) if kept else None
            frozen = self.w.copy()
            frozen[order[:kept]] = 0
            return learned, None if kept == conv.in_c else layout.taps_layout(frozen)
        width = conv.in_c // conv.groups
        order = np.arange(width) if conv.order is None else conv.order
        parts = [self.w[:, order[:kept]], self.w[:, order[kept:]]]
        pairs = [
            layout.pairs_layout(part, conv.groups) if part.shape[1] else None for part in parts
        ]
        return pairs[0], pairs[1]

    def scratch(self) -> int:
        """Bytes of scratch."""
        conv = self.conv
        if self.kind == "depthwise":
            return layout.depthwise_scratch(conv.kept, conv.in_c, conv.order is not None)
        rest = conv.in_c // conv.groups - conv.kept
        if self.kind == "pointwise":
            return layout.pointwise_scratch(conv.kept, rest)
        return layout.general_scratch(conv.kept, rest, conv.kernel_h * conv.kernel_w, conv.groups)

    def lag(self) -> int:
        rule = reference.pixel_lag if self.kind == "depthwise" else reference.tile_lag
        return rule(self.conv, self.conv.in_c, self.conv.out_c)

    def run(self, machine: Any, mask: bool = True, lag: int | None = None) -> tuple[Array, Array]:
        """(y, mask) of the kernel; with a `lag` the output starts so far before the input."""
        conv, size = self.conv, self.conv.out_h * self.conv.out_w * self.conv.out_c
        if lag is None:
            x, y = place(self.x), aligned(size, np.int8)
        else:
            arena = aligned(size + self.x.size + abs(lag), np.int8)
            y, x = arena[max(-lag, 0) :][:size], arena[max(lag, 0) :][: self.x.size]
            x[:] = self.x.reshape(-1)
        bits = aligned((size + 7) // 8, np.uint8) if mask else None
        kept, rest = (None if part is None else place(part) for part in self.weights())
        scratch = aligned(self.scratch(), np.uint8)
        name = f"tl_conv2d_{self.kind}_s8"
        machine.call(name, conv, x, kept, rest, place(self.bias), y, bits, scratch)
        shape = (conv.out_h, conv.out_w, conv.out_c)
        return y.copy().reshape(shape), np.zeros(0, np.uint8) if bits is None else bits.copy()


def place(values: Array) -> Array:
    """A copy of `values` at an aligned address, one-dimensional."""
    made = aligned(values.size, values.dtype)
    made[:] = values.reshape(-1)
    return made


def _multipliers(rng: Any, conv: Conv, taps: int, amplify: bool, exact: bool) -> None:
    """Scales that spread the sums over the int8 range, some of them beyond."""
    spread = 2.0 if amplify else 74.0 * 50
    scale = 64 / (spread * taps**0.5) * rng.uniform(0.3, 2.5, conv.out_c)
    if exact:
        mantissa, exponent = np.frexp(scale)
        conv.multiplier = np.minimum(np.round(mantissa * 2**31), 2**31 - 1).astype(np.int32)
        conv.shift = exponent.astype(np.int8)
    else:
        conv.multiplier = np.minimum(scale * 2**32, 2**31 - 1).astype(np.int32)


@st.composite
def cases(draw: Any, kind: str) -> Case:
    """A random convolution of `kind`: pointwise, depthwise or general."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    small = st.integers(1, 5)
    if kind == "pointwise":
        groups, in_group, out_group = 1, draw(st.integers(1, 37)), draw(st.integers(1, 19))
        kernel = stride = (1, 1)
    elif kind == "depthwise":
        groups, in_group, out_group = draw(st.integers(1, 21)), 1, 1
        kernel, stride = (
            draw(st.tuples(small, small)),
            draw(st.sampled_from([(1, 1), (2, 2), (1, 2)])),
        )
    else:
        groups = draw(st.integers(1, 3))
        in_group, out_group = draw(st.integers(1, 9)), draw(st.integers(1, 5))
        kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
        stride = draw(st.sampled_from([(1, 1), (2, 2), (1, 2), (3, 1)]))
    in_h, in_w = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    top, left = draw(st.integers(0, kernel[0] - 1)), draw(st.integers(0, kernel[1] - 1))
    bottom, right = draw(st.integers(0, kernel[0] - 1)), draw(st.integers(0, kernel[1] - 1))
    out_h = max((in_h + top + bottom - kernel[0]) // stride[0] + 1, 1)
    out_w = max((in_w + left + right - kernel[1]) // stride[1] + 1, 1)
    in_c, out_c = groups * in_group, groups * out_group
    choices = in_c if kind == "depthwise" else in_group
    kept = draw(st.sampled_from([0, choices, draw(st.integers(0, choices))]))
    conv = Conv(in_h, in_w, in_c, out_h, out_w, out_c, *kernel, *stride, top, left, groups, kept)
    conv.in_zero, conv.out_zero = int(rng.integers(-128, 128)), int(rng.integers(-128, 128))
    if draw(st.booleans()):
        conv.clamp_min, conv.clamp_max = sorted(int(v) for v in rng.integers(-128, 128, 2))
    if draw(st.booleans()):
        conv.order = rng.permutation(choices).astype(np.uint16)
    amplify, taps = draw(st.booleans()), kernel[0] * kernel[1] * in_group
    _multipliers(rng, conv, taps, amplify, exact=draw(st.booleans()))
    low, high, limit = (-1, 1, 40) if amplify else (-127, 127, 4000)
    w = rng.integers(low, high + 1, (out_c, in_group, *kernel)).astype(np.int8)
    x = rng.integers(-128, 128, (in_h, in_w, in_c)).astype(np.int8)
    return Case(kind, conv, x, w, rng.integers(-limit, limit + 1, out_c).astype(np.int32))
