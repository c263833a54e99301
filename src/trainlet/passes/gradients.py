# SPDX-License-Identifier: Apache-2.0
"""Gradients instead of updates: a step that leaves its parameters and returns what would move them.

Not a default pass.  A program built with it hands out every gradient, so that
the C kernels' gradients can be compared with another engine's.
"""

from __future__ import annotations

from trainlet.graph import Graph, Role, without_dead_code
from trainlet.passes.manager import Pass


def gradients_for_updates(graph: Graph) -> Graph:
    """The step whose outputs are the loss, the logits, then the gradients of what was updated."""
    names = gradient_names(graph)
    return without_dead_code(
        graph.with_ops(graph.ops, outputs=(*graph.outputs[:2], *names.values()))
    )


def gradient_names(step: Graph) -> dict[str, str]:
    """Parameter to the value that is its gradient, in a captured step."""
    names = {}
    for op in step.ops:
        if step.values[op.outputs[0]].role is not Role.UPDATED:
            continue
        gradient, parameter = op.inputs[:2]
        assert gradient is not None
        assert parameter is not None
        maker = step.producers[gradient]
        # The sum over a batch of one is the gradient itself, and has no kernel.
        source = maker.inputs[0] if maker.kind == "batch_sum" else gradient
        assert source is not None
        names[parameter] = source
    return names


def _updates(graph: Graph) -> list[str]:
    return [f"%{value.name} is still updated" for value in graph.with_role(Role.UPDATED)]


GRADIENTS = Pass("gradients", gradients_for_updates, _updates)
