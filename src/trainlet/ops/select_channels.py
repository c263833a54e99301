# SPDX-License-Identifier: Apache-2.0
"""The channels of a map whose weights learn: all that a sparse weight gradient has to keep."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trainlet.graph import DType, Graph, Op
from trainlet.ops.base import (
    KernelCall,
    Number,
    OpDef,
    Overwrite,
    Pointer,
    Table,
    present,
    register,
)
from trainlet.ops.torch_op import torch_op


@torch_op("select_channels")
def select_channels(x: Tensor, channels: Sequence[int], groups: int) -> Tensor:
    """Channels ``channels`` of every group of x [N, C, H, W], group after group."""
    return x.index_select(1, torch.tensor(_flat(channels, groups, x.shape[1])))


@select_channels.register_fake
def _(x: Tensor, channels: Sequence[int], groups: int) -> Tensor:
    return x.new_empty((x.shape[0], groups * len(channels), *x.shape[2:]))


def _flat(channels: Sequence[int], groups: int, total: int) -> list[int]:
    width = int(total) // groups
    return [group * width + int(channel) for group in range(groups) for channel in channels]


def _shapes(graph: Graph, op: Op) -> tuple[tuple[int, ...], ...]:
    shape = present(graph.inputs_of(op)[0]).shape
    return ((shape[0], op.integer("groups") * len(op.integers("channels")), *shape[2:]),)


def _kernel(graph: Graph, op: Op) -> KernelCall:
    x = present(graph.inputs_of(op)[0])
    y = graph.values[op.outputs[0]]
    flat = _flat(op.integers("channels"), op.integer("groups"), x.shape[1])
    return KernelCall(
        function="tl_select_channels_s8",
        source="tl_select_channels_s8.c",
        arguments=(
            Number(x.elements // x.shape[1]),
            Number(x.shape[1]),
            Number(len(flat)),
            Table("uint16_t", flat),
            Pointer(x.name, "int8_t"),
            Pointer(y.name, "int8_t"),
        ),
    )


register(
    OpDef(
        kind="select_channels",
        inputs=(DType.I8,),
        outputs=(DType.I8,),
        shapes=_shapes,
        reference=lambda _, op, x: select_channels(
            x, list(op.integers("channels")), op.integer("groups")
        ),
        kernel=_kernel,
        overwrites=lambda _, __: (Overwrite(output=0, input=0, lag=0),),
    )
)
