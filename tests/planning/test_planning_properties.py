# SPDX-License-Identifier: Apache-2.0
"""What holds for every problem: the plan is accepted, and liveness is what brute force finds."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from planning_problems import problems

from trainlet.planning import (
    Compute,
    Free,
    Instruction,
    Plan,
    Problem,
    check,
    make_plan,
    problem_from_json,
    problem_to_json,
    timeline_of,
)
from trainlet.planning.instructions import from_data, parse_text, to_data, to_text
from trainlet.planning.lifetimes import lifetimes_of
from trainlet.planning.methods.keep_all import keep_all

_settings = settings(max_examples=60, deadline=None)


def brute_saving(problem: Problem, instructions: tuple[Instruction, ...], index: int) -> int:
    """Try every subset of the operator's overwrites at one run."""
    step = instructions[index]
    assert isinstance(step, Compute)
    dying: set[str] = set()
    for follower in instructions[index + 1 :]:
        if not isinstance(follower, Free):
            break
        dying.add(follower.value)
    candidates = [o for o in problem.op_by_name[step.op].overwrites if o.input in dying]
    best = 0
    for picks in product((False, True), repeat=len(candidates)):
        chosen = [o for o, picked in zip(candidates, picks, strict=True) if picked]
        if len({o.output for o in chosen}) < len(chosen) or len({o.input for o in chosen}) < len(
            chosen
        ):
            continue
        saved = 0
        for over in chosen:
            output, source = problem.extent(over.output), problem.extent(over.input)
            saved += max(0, output + source - max(over.lag + source, output))
        best = max(best, saved)
    return best


def brute_live_bytes(problem: Problem, instructions: tuple[Instruction, ...]) -> list[int]:
    """Live bytes right after each Compute, by following sets."""
    alive = set(problem.inputs)
    live = []
    for index, step in enumerate(instructions):
        if isinstance(step, Compute):
            op = problem.op_by_name[step.op]
            assert alive >= set(op.inputs)
            alive |= set(op.outputs)
            total = sum(problem.extent(name) for name in alive) + problem.align(op.scratch_bytes)
            live.append(total - brute_saving(problem, instructions, index))
        elif isinstance(step, Free):
            alive.remove(step.value)
    assert alive == set(problem.outputs)
    return live


@_settings
@given(problems())
def test_every_plan_is_accepted_and_no_arena_is_below_the_bound(problem: Problem) -> None:
    plan = make_plan(problem)
    report = check(problem, plan)
    assert plan.arena_bytes >= plan.peak_bytes - problem.fixed_bytes >= plan.lower_bound_bytes
    assert report.arena_bytes == plan.arena_bytes
    assert Plan.from_json(plan.to_json()) == plan
    # The same problem gets the same plan, byte for byte.
    assert make_plan(problem) == plan


@_settings
@given(problems())
def test_liveness_is_what_brute_force_finds(problem: Problem) -> None:
    instructions = keep_all(problem)
    lifetimes = lifetimes_of(problem, instructions)
    computes = [i for i, step in enumerate(instructions) if isinstance(step, Compute)]
    found = [lifetimes.live_bytes[index] for index in computes]
    expected = brute_live_bytes(problem, instructions)
    assert found == expected
    at_start = sum(problem.extent(name) for name in problem.inputs)
    assert lifetimes.lower_bound_bytes == max(at_start, *expected)


@_settings
@given(problems())
def test_problems_and_lists_survive_json_and_text(problem: Problem) -> None:
    assert problem_from_json(problem_to_json(problem)) == problem
    instructions = keep_all(problem)
    assert from_data(to_data(instructions)) == instructions
    assert parse_text(to_text(instructions)) == instructions


@_settings
@given(problems())
def test_the_timeline_adds_up(problem: Problem) -> None:
    plan = make_plan(problem)
    timeline = timeline_of(problem, plan)
    sizes = [bar.bytes for bar in timeline.at_peak]
    assert sizes == sorted(sizes, reverse=True)
    assert len(timeline.labels) == len(timeline.live_bytes) == len(plan.instructions)
    assert sum(sizes) >= timeline.lower_bound_bytes == plan.lower_bound_bytes
    assert {bar.key: bar.address for bar in timeline.bars} == plan.addresses
