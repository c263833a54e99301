# SPDX-License-Identifier: Apache-2.0
"""Where a training step turns from its forward to its backward half.

A problem does not say which operators are backward. But the forward half makes values that wait
and the backward half uses them up, so the step turns where most values wait: after the operator
that is crossed by most values made up to there and read after it, the first of several.
The problem's outputs are left out: gradients that must remain pile up through the backward half.
"""

from __future__ import annotations

from itertools import accumulate

from trainlet.planning.methods.schedule import Uses
from trainlet.planning.problem import Problem


def forward_length(problem: Problem, uses: Uses) -> int:
    """How many operators, from the first, make up the forward half; all without a backward one."""
    count = len(problem.ops)
    kept = set(problem.outputs)
    change = [0] * (count + 1)
    for value, made in uses.made.items():
        if value not in kept and made >= 0:
            change[made] += 1
            change[uses.last(value)] -= 1
    crossing = list(accumulate(change[:count]))
    return crossing.index(max(crossing)) + 1 if crossing else 0
