# SPDX-License-Identifier: Apache-2.0
"""The operator set: one file an operator family, each with meaning, gradient, cost and kernel."""

from trainlet.ops import (  # importing registers the operators
    add,
    clamp,
    conv2d,
    conv2d_grad,
    dequantize,
    linear,
    loss,
    pool,
    select_channels,
    update,
)
from trainlet.ops.base import OpDef, RunState, check_op, definition, is_defined, kinds

__all__ = [
    "OpDef",
    "RunState",
    "add",
    "check_op",
    "clamp",
    "conv2d",
    "conv2d_grad",
    "definition",
    "dequantize",
    "is_defined",
    "kinds",
    "linear",
    "loss",
    "pool",
    "select_channels",
    "update",
]
