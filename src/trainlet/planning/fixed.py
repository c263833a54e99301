# SPDX-License-Identifier: Apache-2.0
"""A plan whose addresses another plan has already fixed, such as a step's forward part alone."""

from __future__ import annotations

from collections.abc import Mapping

from trainlet.planning.addresses import placement_of
from trainlet.planning.checker import check
from trainlet.planning.lifetimes import lifetimes_of
from trainlet.planning.methods import find_method
from trainlet.planning.packing import geometry_of
from trainlet.planning.plan import Plan
from trainlet.planning.planner import plan_from
from trainlet.planning.problem import Problem


def plan_at(problem: Problem, addresses: Mapping[str, int], method: str = "keep-all") -> Plan:
    """Plan with a method at given addresses (by key, see ``Plan``) and check the plan.

    Raises:
        PlanRejected: values that live together share bytes at these addresses.
    """
    instructions = find_method(method)(problem)
    lifetimes = lifetimes_of(problem, instructions)
    at = [addresses[residency.key] for residency in lifetimes.residencies]
    placement = placement_of(lifetimes, geometry_of(lifetimes), at)
    plan = plan_from(problem, instructions, method, lifetimes, placement)
    check(problem, plan)
    return plan
