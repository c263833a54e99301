# SPDX-License-Identifier: Apache-2.0
"""Residual addition of two int8 maps, and the addition of float gradients where a value forks.

fast:    y = (a * ma + b * mb + offset) >> shift, with m = round(s / s_y * 2^shift) and the
         zero points and half a unit in ``offset``; every intermediate fits in int32.
tflite:  the int8 ADD of TFLite's reference kernels (left shift of 20).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trainlet.errors import TrainletError
from trainlet.graph import DType, Graph, Op
from trainlet.ops.base import (
    KernelCall,
    Number,
    OpDef,
    Overwrite,
    Pointer,
    RunState,
    Struct,
    present,
    register,
)
from trainlet.ops.clamp import scale_grad
from trainlet.ops.requantize import FAST, requantize, tflite_multiplier
from trainlet.ops.torch_op import torch_op

_LEFT_SHIFT = 20
_RATIO = 1 << 20  # of an input's scale to y's: keeps every shift of both modes in range
_SUM_LIMIT = 1 << 22  # of ma + mb: keeps 255 * (ma + mb) and the offset inside int32


@dataclass(frozen=True)
class AddConstants:
    """Integer constants of one addition, as the operator's attribute ``constants`` holds them.

    fast: (ma, mb, offset, shift); tflite: (ma, sa, mb, sb, m_out, s_out, zero_a, zero_b, zero_y).
    """

    mode: str
    values: tuple[int, ...]

    @classmethod
    def of(
        cls,
        mode: str,
        scales: tuple[float, float, float],
        zeros: tuple[int, int, int],
    ) -> AddConstants:
        """Constants for scales and zero points of a, b and y.

        ``TrainletError`` if a scale is no positive number or y's is too small for its inputs.
        """
        s_a, s_b, s_y = scales
        if not all(0.0 < scale < math.inf for scale in scales) or max(s_a, s_b) / s_y >= _RATIO:
            raise TrainletError(
                f"an addition of scales {s_a:g} and {s_b:g} to scale {s_y:g} cannot be expressed: "
                f"scales must be positive, and y's above 1/{_RATIO:,} of the others"
            )
        if mode == FAST:
            shift = 22
            while round(s_a / s_y * 2**shift) + round(s_b / s_y * 2**shift) >= _SUM_LIMIT:
                shift -= 1
            m_a, m_b = round(s_a / s_y * 2**shift), round(s_b / s_y * 2**shift)
            offset = (zeros[2] << shift) + (1 << shift >> 1) - zeros[0] * m_a - zeros[1] * m_b
            return cls(mode, (m_a, m_b, offset, shift))
        twice = 2 * max(s_a, s_b)
        parts = (s_a / twice, s_b / twice, twice / ((1 << _LEFT_SHIFT) * s_y))
        return cls(mode, (*(v for part in parts for v in tflite_multiplier(part)), *zeros))


@torch_op("add")
def add(
    a: Tensor,
    b: Tensor,
    constants: Sequence[int],
    grad_scale_a: float,
    grad_scale_b: float,
    clamp_min: int,
    clamp_max: int,
) -> tuple[Tensor, Tensor]:
    """a + b in y's quantization; returns y and its clamp mask.  ``grad_scale`` is s / s_y."""
    wide = (_fast if len(constants) == 4 else _tflite)(a.long(), b.long(), constants)
    y = wide.clamp(clamp_min, clamp_max)
    return y.to(torch.float32), y == wide


def _fast(a: Tensor, b: Tensor, constants: Sequence[int]) -> Tensor:
    m_a, m_b, offset, shift = constants
    return (a * m_a + b * m_b + offset) >> shift


def _tflite(a: Tensor, b: Tensor, constants: Sequence[int]) -> Tensor:
    m_a, s_a, m_b, s_b, m_y, s_y, zero_a, zero_b, zero_y = constants
    scaled_a = _scale((a - zero_a) << _LEFT_SHIFT, m_a, s_a)
    scaled_b = _scale((b - zero_b) << _LEFT_SHIFT, m_b, s_b)
    return _scale(scaled_a + scaled_b, m_y, s_y) + zero_y


def _scale(x: Tensor, multiplier: int, shift: int) -> Tensor:
    return requantize(x, torch.tensor(multiplier), torch.tensor(shift), 0)


@add.register_fake
def _(a: Tensor, b: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(a), torch.empty_like(a, dtype=torch.bool)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(output[1])
    ctx.scales = inputs[3:5]


def _backward(ctx: Any, gy: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    (mask,) = ctx.saved_tensors
    grads = [
        scale_grad(gy, mask, float(scale)) if needed else None
        for scale, needed in zip(ctx.scales, ctx.needs_input_grad, strict=False)
    ]
    return *grads, None, None, None, None, None


add.register_autograd(_backward, setup_context=_setup)


# ---- definitions ---------------------------------------------------------------------


def _reference(_: RunState, op: Op, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    return add(
        a,
        b,
        list(op.integers("constants")),
        op.number("grad_scale_a"),
        op.number("grad_scale_b"),
        op.integer("clamp_min"),
        op.integer("clamp_max"),
    )


def _struct(op: Op) -> Struct:
    constants = op.integers("constants")
    clamps = {"clamp_min": op.integer("clamp_min"), "clamp_max": op.integer("clamp_max")}
    if len(constants) == 4:
        names = ("multiplier_a", "multiplier_b", "offset", "shift")
        return Struct("tl_add", dict(zip(names, constants, strict=True)) | clamps)
    exact = (
        *("multiplier_a", "shift_a", "multiplier_b", "shift_b", "multiplier_out", "shift_out"),
        *("zero_a", "zero_b", "zero_out"),
    )
    return Struct("tl_add_exact", dict(zip(exact, constants, strict=True)) | clamps)


def _kernel(graph: Graph, op: Op) -> KernelCall:
    y, mask = op.outputs
    struct = _struct(op)
    function = f"{struct.ctype}_s8"
    wanted = mask if graph.consumers[mask] or mask in graph.outputs else None
    return KernelCall(
        function=function,
        source=f"{function}.c",
        arguments=(
            Number(graph.values[y].elements),
            struct,
            Pointer(op.inputs[0], "int8_t"),
            Pointer(op.inputs[1], "int8_t"),
            Pointer(y, "int8_t"),
            Pointer(wanted, "uint8_t"),
        ),
    )


def _add_f32_kernel(graph: Graph, op: Op) -> KernelCall:
    return KernelCall(
        function="tl_add_f32",
        source="tl_add_f32.c",
        arguments=(
            Number(graph.values[op.outputs[0]].elements),
            Pointer(op.inputs[0], "float"),
            Pointer(op.inputs[1], "float"),
            Pointer(op.outputs[0], "float"),
        ),
    )


def _shape(graph: Graph, op: Op) -> tuple[tuple[int, ...], ...]:
    return (present(graph.inputs_of(op)[0]).shape,) * len(op.outputs)


_OVER_EITHER = (Overwrite(output=0, input=0, lag=0), Overwrite(output=0, input=1, lag=0))

register(
    OpDef(
        kind="add",
        inputs=(DType.I8, DType.I8),
        outputs=(DType.I8, DType.BIT),
        shapes=_shape,
        reference=_reference,
        kernel=_kernel,
        overwrites=lambda _, __: _OVER_EITHER,
    )
)
register(
    OpDef(
        kind="add_f32",
        inputs=(DType.F32, DType.F32),
        outputs=(DType.F32,),
        shapes=_shape,
        reference=lambda _, __, a, b: a + b,
        kernel=_add_f32_kernel,
        overwrites=lambda _, __: _OVER_EITHER,
        backward=True,
    )
)
