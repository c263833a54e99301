# SPDX-License-Identifier: Apache-2.0
"""The int8 convolution as a module, with the part of its weight that a scheme lets learn."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from trainlet.errors import TrainletError
from trainlet.nn.quantization import Quantization
from trainlet.nn.update_rule import UpdateRule
from trainlet.ops.conv2d import conv2d
from trainlet.ops.geometry import assemble_weight, is_depthwise, split_channels
from trainlet.ops.requantize import FAST, multipliers

# A channel whose weights are all (nearly) zero gets a scale of about 1e-9, and one over its
# square would be 1e18: it is dead and stays as it is.
DEAD_SCALE = 1e-5
_INT32_MAX = 2**31 - 1


class Int8Conv2d(nn.Module):
    """Convolution on integers; parameters are float tensors that hold integers.

    ``kept`` [O, k, kh, kw] learns, ``rest`` is frozen (see ops/conv2d.py);
    ``bias`` is float64 because an int32 does not fit in a float32.
    """

    kept: nn.Parameter | None
    rest: Tensor | None
    multiplier: Tensor
    shift: Tensor | None
    grad_scale: Tensor
    bias_limit: Tensor
    weight_scales: Tensor

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor,
        *,
        weight_scales: Tensor,
        x: Quantization,
        y: Quantization,
        stride: Sequence[int] = (1, 1),
        padding: Sequence[int] = (0, 0, 0, 0),
        groups: int = 1,
        clamp: tuple[int, int] = (-128, 127),
        requantize: str = FAST,
    ) -> None:
        """``weight`` [O, I/groups, kh, kw] int8 values, ``bias`` [O] int32 values.

        ``padding`` is top, left, bottom, right; ``weight_scales`` [O] are the
        real scales of the weight's channels.
        """
        super().__init__()
        self.out_channels = int(weight.shape[0])
        self.in_channels = int(weight.shape[1]) * groups
        self.kernel = (int(weight.shape[2]), int(weight.shape[3]))
        self.stride = (int(stride[0]), int(stride[1]))
        top, left, bottom, right = (int(p) for p in padding)
        self.padding = (top, left, bottom, right)
        self.groups = int(groups)
        self.x, self.y = x, y
        self.clamp = clamp
        self.mode = requantize
        self.channels: tuple[int, ...] = ()
        self.register_parameter("kept", None)
        self.register_buffer("rest", weight.to(torch.float32).clone())
        self._register_constants(weight_scales.to(torch.float64))
        limited = bias.to(torch.float64).clamp(-self.bias_limit, self.bias_limit)
        self.bias = nn.Parameter(limited, requires_grad=False)

    def _bias_limits(self, shift: list[int] | None) -> Tensor:
        """The largest magnitude of each bias that cannot make an accumulator overflow.

        Mode tflite shifts the accumulator of a channel with a scale above 1 to the left first.
        """
        taps = self.in_channels // self.groups * self.kernel[0] * self.kernel[1]
        left = [max(s, 0) for s in shift] if shift is not None else [0] * self.out_channels
        limits = [(_INT32_MAX >> s) - taps * 127 * 255 for s in left]
        if min(limits) < 0:
            raise TrainletError(
                f"a convolution of {taps} taps with an effective scale of 2^{max(left) - 1} or "
                "more overflows int32: its output scale is too small for its input"
            )
        return torch.tensor(limits)

    def _register_constants(self, scales: Tensor) -> None:
        effective = scales * self.x.scale / self.y.scale
        multiplier, shift = multipliers([float(s) for s in effective], self.mode)
        self.register_buffer("multiplier", torch.tensor(multiplier))
        self.register_buffer("shift", None if shift is None else torch.tensor(shift))
        self.register_buffer("grad_scale", effective.to(torch.float32))
        alive = scales >= DEAD_SCALE
        for name, scale in (("weight_qas", scales), ("bias_qas", scales * self.x.scale)):
            safe = torch.where(alive, scale, torch.ones_like(scale))
            self.register_buffer(
                name, torch.where(alive, safe**-2, torch.zeros_like(safe)).to(torch.float32)
            )
        self.register_buffer("bias_limit", self._bias_limits(shift))
        self.register_buffer("weight_scales", scales)

    @property
    def depthwise(self) -> bool:
        """Every channel is convolved with itself alone."""
        return is_depthwise(self.groups, self.in_channels, self.out_channels)

    @property
    def weight(self) -> Tensor:
        """The whole weight [O, I/groups, kh, kw], learning and frozen part together."""
        kept = None if self.kept is None else self.kept.detach()
        return assemble_weight(kept, self.rest, self.channels, self.groups, self.in_channels)

    def set_learning(self, channels: Sequence[int], bias: bool) -> None:
        """Let these input channels of a group (depthwise: channels) learn, and perhaps the bias.

        No channel freezes the weight; all of them leave no frozen part.
        """
        weight = self.weight.clone()
        axis = 0 if self.depthwise else 1
        learning, frozen = split_channels(channels, weight.shape[axis])
        kept = weight.index_select(axis, torch.tensor(learning, dtype=torch.int64))
        rest = weight.index_select(axis, torch.tensor(frozen, dtype=torch.int64))
        self.kept = nn.Parameter(kept) if learning else None
        self.rest = rest if frozen else None
        self.channels = tuple(learning) if learning and frozen else ()
        self.bias.requires_grad_(bias)

    def update_rules(self) -> dict[str, UpdateRule]:
        """How each parameter that learns is stepped."""
        depthwise_part = self.channels if self.depthwise else ()
        rules = {
            "kept": UpdateRule("sgd_weight", ("weight_qas",), {"channels": depthwise_part}),
            "bias": UpdateRule("sgd_bias", ("bias_qas", "bias_limit"), {}),
        }
        return {n: r for n, r in rules.items() if n == "bias" or self.kept is not None}

    def forward(self, x: Tensor) -> Tensor:
        """Integers [N, C, H, W] to integers [N, O, H', W']."""
        y, _ = conv2d(
            x,
            self.kept,
            self.rest,
            self.bias,
            self.multiplier,
            self.shift,
            self.grad_scale,
            list(self.channels),
            list(self.stride),
            list(self.padding),
            self.groups,
            self.x.zero,
            self.y.zero,
            *self.clamp,
        )
        return y
