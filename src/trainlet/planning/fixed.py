# SPDX-License-Identifier: Apache-2.0
"""A plan whose addresses another plan has already fixed, such as a step's forward part alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trainlet.planning.addresses import placement_of
from trainlet.planning.checker import check
from trainlet.planning.lifetimes import lifetimes_of
from trainlet.planning.methods import find_method
from trainlet.planning.packing import geometry_of
from trainlet.planning.plan import Plan
from trainlet.planning.planner import plan_from
from trainlet.planning.problem import OpSpec, Problem


def plan_at(problem: Problem, addresses: Mapping[str, int], method: str = "keep-all") -> Plan:
    """Plan with a method at given addresses (by key, see ``Plan``) and check the plan.

    An operator that may overwrite either of two inputs overwrites the one that
    the addresses say.

    Raises:
        PlanRejected: values that live together share bytes at these addresses.
    """
    instructions = find_method(method)(problem)
    used = replace(problem, ops=tuple(_as_placed(problem, op, addresses) for op in problem.ops))
    lifetimes = lifetimes_of(used, instructions)
    at = [addresses[residency.key] for residency in lifetimes.residencies]
    placement = placement_of(lifetimes, geometry_of(lifetimes), at)
    plan = plan_from(problem, instructions, method, lifetimes, placement)
    plan = replace(plan, lower_bound_bytes=lifetimes_of(problem, instructions).lower_bound_bytes)
    check(problem, plan)
    return plan


def _as_placed(problem: Problem, op: OpSpec, addresses: Mapping[str, int]) -> OpSpec:
    """The operator with those of its overwrites whose two values share bytes."""

    def shares(output: str, source: str) -> bool:
        low = max(addresses[output], addresses[source])
        high = min(addresses[name] + problem.extent(name) for name in (output, source))
        return low < high

    return replace(op, overwrites=tuple(o for o in op.overwrites if shares(o.output, o.input)))
