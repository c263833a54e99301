# SPDX-License-Identifier: Apache-2.0
"""From the captured step to the one that is planned and emitted: one pass a file."""

from trainlet.graph import Graph
from trainlet.passes.dead_code import DEAD_CODE
from trainlet.passes.fuse_updates import FUSE_UPDATES
from trainlet.passes.gradients import GRADIENTS, gradient_names
from trainlet.passes.inference import inference_of
from trainlet.passes.manager import Pass, run_passes
from trainlet.passes.order import ORDER
from trainlet.passes.problem import in_arena, op_name, problem_of

DEFAULT_PASSES = (DEAD_CODE, FUSE_UPDATES, ORDER)


def lower(step: Graph) -> Graph:
    """The captured step with every default pass applied."""
    return run_passes(step, DEFAULT_PASSES)


__all__ = [
    "DEAD_CODE",
    "DEFAULT_PASSES",
    "FUSE_UPDATES",
    "GRADIENTS",
    "ORDER",
    "Pass",
    "gradient_names",
    "in_arena",
    "inference_of",
    "lower",
    "op_name",
    "problem_of",
    "run_passes",
]
