# SPDX-License-Identifier: Apache-2.0
"""Update fusion: a gradient that only its update reads is applied as it is computed.

No gradient buffer lives: the kernel that sums the gradient of one weight steps
that weight at once (Lin et al. 2022, section 2.3, in-place update).
"""

from __future__ import annotations

from dataclasses import replace

from trainlet.graph import Attribute, Graph, Op
from trainlet.passes.manager import Pass

# update kind, gradient kind -> fused kind; the fused operator reads the gradient's
# inputs, then the update's inputs after the gradient.
_FUSED = {
    ("sgd_weight", "conv2d_grad_weight"): "conv2d_sgd",
    ("sgd_bias", "channel_sum"): "channel_sum_sgd",
    ("sgd_f32", "linear_grad_weight"): "linear_sgd",
    ("sgd_f32", "batch_sum"): "sgd_f32",  # the sum over a batch of one is the gradient itself
}


def fuse_updates(graph: Graph) -> Graph:
    """Replace every update whose gradient has no other reader by the fused operator."""
    gone: set[str] = set()
    ops = []
    for op in graph.ops:
        gradient = _fusible(graph, op)
        if gradient is None:
            ops.append(op)
            continue
        gone.update(gradient.outputs)
        kind = _FUSED[op.kind, gradient.kind]
        attributes = {**gradient.attributes, **_own(op, gradient)}
        inputs = (*gradient.inputs, *op.inputs[1:])
        ops.append(replace(op, kind=kind, inputs=inputs, attributes=attributes))
    return graph.with_ops(op for op in ops if not gone.intersection(op.outputs))


def _fusible(graph: Graph, op: Op) -> Op | None:
    """The operator that makes the gradient of this update, if nobody else reads it."""
    name = op.inputs[0] if op.inputs else None
    gradient = graph.producers.get(name) if name is not None else None
    if gradient is None or (op.kind, gradient.kind) not in _FUSED:
        return None
    alone = len(graph.consumers[gradient.outputs[0]]) == 1
    return gradient if alone and gradient.outputs[0] not in graph.outputs else None


def _own(op: Op, gradient: Op) -> dict[str, Attribute]:
    """The update's attributes; a gradient knows its own channels better."""
    return {k: v for k, v in op.attributes.items() if k not in gradient.attributes}


def _left(graph: Graph) -> list[str]:
    return [f"{op} could still be fused" for op in graph.ops if _fusible(graph, op) is not None]


FUSE_UPDATES = Pass("fuse-updates", fuse_updates, _left)
