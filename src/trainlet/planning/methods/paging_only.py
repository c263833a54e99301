# SPDX-License-Identifier: Apache-2.0
"""Paging alone, at the least energy: POET's own switch ``remat=0``.

S. G. Patil, P. Jain, P. Dutta, I. Stoica, J. E. Gonzalez, "POET: Training Neural Networks on Tiny
Devices with Integrated Rematerialization and Paging", ICML 2022, compares with it. Here it is the
optimiser of this room with computing again switched off: every operator runs once.
"""

from __future__ import annotations

from trainlet.errors import TrainletError
from trainlet.planning.instructions import Instruction
from trainlet.planning.methods.alone import least_alone
from trainlet.planning.problem import Problem


def paging_only(problem: Problem) -> tuple[Instruction, ...]:
    """The plan of least energy in which no operator runs twice.

    Raises:
        TrainletError: there is no storage, no such plan keeps the limits, or none was found in
            time.
    """
    if problem.storage_bytes == 0:
        raise TrainletError(
            f"paging-only pages, and {problem.name!r} has no storage (storage_bytes is 0); name a "
            "device with storage, or choose another method"
        )
    return least_alone(problem, "paging-only", rematerialize=False, page=True)
