# SPDX-License-Identifier: Apache-2.0
"""The part of a training step that makes the logits, in the step's own order."""

from __future__ import annotations

from trainlet.graph import Graph, without_dead_code


def inference_of(step: Graph) -> Graph:
    """The forward graph of a lowered step; its masks and saved channels are nobody's business."""
    logits = step.outputs[1]
    return without_dead_code(step.with_ops(step.ops, outputs=(logits,)).renamed("inference"))
