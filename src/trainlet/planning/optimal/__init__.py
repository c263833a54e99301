# SPDX-License-Identifier: Apache-2.0
"""The exact optimiser: rematerialization and paging chosen together, at the least price."""

from trainlet.planning.optimal.limits import smallest_budget, smallest_deadline
from trainlet.planning.optimal.solution import Progress, Solution, Status
from trainlet.planning.optimal.solve import solve

__all__ = ["Progress", "Solution", "Status", "smallest_budget", "smallest_deadline", "solve"]
