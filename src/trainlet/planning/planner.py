# SPDX-License-Identifier: Apache-2.0
"""From a problem to a checked plan: a method writes the list, the addresses follow."""

from __future__ import annotations

import math

from trainlet.planning.addresses import Placement, place
from trainlet.planning.checker import check
from trainlet.planning.instructions import Compute, Instruction, PageIn, PageOut
from trainlet.planning.lifetimes import Lifetimes, lifetimes_of
from trainlet.planning.methods import find_method
from trainlet.planning.plan import Plan
from trainlet.planning.problem import Problem


def make_plan(problem: Problem, method: str = "keep-all") -> Plan:
    """Plan a problem with a method and check the plan.

    Raises:
        TrainletError: there is no such method.
        PlanRejected: the plan breaks a limit of the problem, such as the budget.
    """
    plan = plan_of(problem, find_method(method)(problem), method)
    check(problem, plan)
    return plan


def plan_of(problem: Problem, instructions: tuple[Instruction, ...], method: str) -> Plan:
    """A plan, not yet checked, of an instruction list: addresses and claims are added.

    Raises:
        TrainletError: the list reads or frees what is not there.
    """
    lifetimes = lifetimes_of(problem, instructions)
    return plan_from(problem, instructions, method, lifetimes, place(lifetimes))


def plan_from(
    problem: Problem,
    instructions: tuple[Instruction, ...],
    method: str,
    lifetimes: Lifetimes,
    placement: Placement,
) -> Plan:
    """The plan, not yet checked, of an instruction list whose addresses are known."""
    seconds, joules, written = _costs(problem, instructions)
    return Plan(
        problem_name=problem.name,
        method=method,
        instructions=instructions,
        addresses=placement.addresses,
        overlaps=placement.overlaps,
        arena_bytes=placement.arena_bytes,
        lower_bound_bytes=lifetimes.lower_bound_bytes,
        peak_bytes=problem.fixed_bytes + placement.occupied_bytes,
        seconds=seconds,
        joules=joules,
        paged_out_bytes=written,
    )


def _costs(problem: Problem, instructions: tuple[Instruction, ...]) -> tuple[float, float, int]:
    """Seconds, joules and bytes written of a list, paging in series with computing."""
    seconds, joules, written = [], [], 0
    for instruction in instructions:
        match instruction:
            case Compute(name):
                op = problem.op_by_name[name]
                seconds.append(op.seconds)
                joules.append(op.joules)
            case PageOut(value) | PageIn(value):
                is_out = isinstance(instruction, PageOut)
                price = problem.page_out if is_out else problem.page_in
                energy = problem.page_out_joules if is_out else problem.page_in_joules
                size = problem.value_by_name[value].bytes
                seconds.append(price.seconds(size))
                joules.append(energy(value))
                written += size if is_out else 0
            case _:
                pass
    return math.fsum(seconds), math.fsum(joules), written
