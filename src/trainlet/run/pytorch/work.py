# SPDX-License-Identifier: Apache-2.0
"""How much an operator computes and moves, from shapes alone: what a roofline needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor, fx
from torch.utils.flop_counter import flop_registry

from trainlet.run.pytorch.operators import results_of
from trainlet.run.pytorch.program import Operator


@dataclass(frozen=True)
class Work:
    """Floating-point operations, and bytes read and written, of one run."""

    flops: int
    moved_bytes: int


def work_of(operator: Operator) -> Work:
    """Convolutions and matrix products by PyTorch's own count; all else one a result element."""
    node = operator.node
    results = [tensor for _, tensor in results_of(node)]
    operands = [found for source in node.all_input_nodes for _, found in results_of(source)]
    moved = sum(tensor.numel() * tensor.element_size() for tensor in (*operands, *results))
    return Work(_flops(node, results), moved)


def _flops(node: fx.Node, results: list[Tensor]) -> int:
    target: Any = node.target
    count = flop_registry.get(target.overloadpacket)
    if count is None:
        return sum(tensor.numel() for tensor in results)
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda source: source.meta["val"])
    return int(cast(Any, count)(*args, **kwargs, out_val=node.meta["val"]))
