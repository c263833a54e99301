# SPDX-License-Identifier: Apache-2.0
"""Computing again and paging chosen together, at the least energy: the default.

What POET set out to do (S. G. Patil et al., "POET: Training Neural Networks on Tiny Devices with
Integrated Rematerialization and Paging", ICML 2022), over finer lists than its stages allow; see
``trainlet.planning.optimal``.
"""

from __future__ import annotations

from trainlet.planning.instructions import Instruction
from trainlet.planning.methods.alone import least_alone
from trainlet.planning.problem import Problem


def optimal(problem: Problem) -> tuple[Instruction, ...]:
    """The plan of least energy.

    Raises:
        TrainletError: no plan keeps the budget and the deadline, or none was found in time.
    """
    return least_alone(problem, "optimal", rematerialize=True, page=True)
