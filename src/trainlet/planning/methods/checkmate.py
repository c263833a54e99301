# SPDX-License-Identifier: Apache-2.0
"""Computing again alone, at the least energy: Checkmate.

P. Jain, A. Jain, A. Nrusimha, A. Gholami, P. Abbeel, K. Keutzer, I. Stoica, J. E. Gonzalez,
"Checkmate: Breaking the Memory Wall with Optimal Tensor Rematerialization", MLSys 2020.

Checkmate's integer program chooses what runs again in each stage of the problem's order. Here it
is the optimiser of this room with paging switched off, started from DTR's plan where it has one.
"""

from __future__ import annotations

from trainlet.errors import TrainletError
from trainlet.planning.instructions import Instruction
from trainlet.planning.methods.alone import least_alone
from trainlet.planning.methods.dtr import dtr
from trainlet.planning.problem import Problem


def checkmate(problem: Problem) -> tuple[Instruction, ...]:
    """The plan of least energy that pages nothing.

    Raises:
        TrainletError: no such plan keeps the budget and the deadline, or none was found in time.
    """
    try:
        start = dtr(problem)
    except TrainletError:
        start = None
    return least_alone(problem, "checkmate", rematerialize=True, page=False, hint=start)
