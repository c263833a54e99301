# SPDX-License-Identifier: Apache-2.0
"""Keep every value until its last use in the given order, then free it at once.

No value is paged and no operator runs twice, so time and energy are the least possible; the peak
is what the order of the operators makes it.
"""

from __future__ import annotations

from trainlet.planning.instructions import Compute, Free, Instruction
from trainlet.planning.problem import Problem


def keep_all(problem: Problem) -> tuple[Instruction, ...]:
    """Every operator once, each followed by the frees of the values that die there."""
    last_use = {name: index for index, op in enumerate(problem.ops) for name in op.inputs}
    kept = set(problem.outputs)
    unused = [name for name in problem.inputs if name not in last_use and name not in kept]
    instructions: list[Instruction] = [Free(name) for name in unused]
    for index, op in enumerate(problem.ops):
        instructions.append(Compute(op.name))
        dying = [name for name in dict.fromkeys(op.inputs) if last_use[name] == index]
        dying += [name for name in op.outputs if name not in last_use]
        instructions += [Free(name) for name in dying if name not in kept]
    return tuple(instructions)
