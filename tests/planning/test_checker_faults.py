# SPDX-License-Identifier: Apache-2.0
"""Planted faults: each turns an accepted plan into one that the checker rejects, by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from planning_problems import chain, training_step

from trainlet.errors import TrainletError
from trainlet.planning import (
    Compute,
    Free,
    Instruction,
    Overwrite,
    PageIn,
    PageOut,
    Plan,
    PlanRejected,
    Problem,
    check,
    make_plan,
)
from trainlet.planning.checker import violations_of
from trainlet.planning.plan import Overlap
from trainlet.planning.planner import plan_of

Case = tuple[Problem, Plan]


def step() -> Case:
    problem = training_step()
    return problem, make_plan(problem)


def paged(**limits: object) -> Case:
    """The training step with ``a`` paged out until its update needs it."""
    problem = training_step(**limits)
    listed = list(make_plan(training_step()).instructions)
    at = listed.index(Compute("conv2")) + 1
    listed[at:at] = [PageOut("a"), Free("a")]
    listed.insert(listed.index(Compute("conv2_update")), PageIn("a"))
    return problem, plan_of(problem, tuple(listed), "by-hand")


def recomputed() -> Case:
    """A chain in which v1 is dropped and made again for a second reader."""
    problem = chain([32, 64, 32, 16], [None, None, None])
    last = replace(problem.ops[2], inputs=("v2", "v1"))
    problem = replace(problem, ops=(*problem.ops[:2], last), outputs=("v3", "v0"))
    steps = (
        Compute("op0"), Compute("op1"), Free("v1"), Compute("op0"), Compute("op2"),
        Free("v2"), Free("v1"),
    )  # fmt: skip
    return problem, plan_of(problem, steps, "by-hand")


def moved(plan: Plan, key: str, to: int) -> Plan:
    return replace(plan, addresses={**plan.addresses, key: to})


def listed(plan: Plan, change: Callable[[list[Instruction]], object]) -> Plan:
    """The plan with an edited list; recorded overlaps keep pointing at their operators."""
    steps = list(plan.instructions)
    change(steps)
    at = {step.op: index for index, step in enumerate(steps) if isinstance(step, Compute)}
    overlaps = []
    for overlap in plan.overlaps:
        old = plan.instructions[overlap.instruction]
        assert isinstance(old, Compute)
        if old.op in at:
            overlaps.append(replace(overlap, instruction=at[old.op]))
    return replace(plan, instructions=tuple(steps), overlaps=tuple(overlaps))


def rejected(case: Case, kind: str, *culprits: str) -> None:
    problem, plan = case
    with pytest.raises(PlanRejected) as caught:
        check(problem, plan)
    assert isinstance(caught.value, TrainletError)
    named = [v for v in caught.value.violations if v.kind == kind]
    assert named, str(caught.value)
    assert any(all(culprit in v.message for culprit in culprits) for v in named), str(caught.value)


def test_the_plans_that_faults_are_planted_in_are_good() -> None:
    for problem, plan in (step(), paged(), recomputed()):
        check(problem, plan)
    assert check(*paged()).paged_out_bytes == 128
    assert check(*recomputed()).recomputed_ops == 1


def test_overlapping_values() -> None:
    problem, plan = step()
    rejected((problem, moved(plan, "b", plan.addresses["a"])), "overlap", "'a' at", "'b' at")


def test_use_after_free() -> None:
    problem, plan = step()

    def early(steps: list[Instruction]) -> None:
        steps.remove(Free("b"))
        steps.insert(steps.index(Compute("head")) + 1, Free("b"))

    rejected((problem, listed(plan, early)), "use-after-free", "'b'")


def test_read_before_write_when_the_order_is_swapped() -> None:
    problem, plan = step()

    def swap(steps: list[Instruction]) -> None:
        first, second = steps.index(Compute("conv1")), steps.index(Compute("conv2"))
        steps[first], steps[second] = steps[second], steps[first]

    rejected((problem, listed(plan, swap)), "read-before-write", "'a'")


def test_budget_passed_by_one_byte() -> None:
    problem, plan = step()
    needed = problem.fixed_bytes + plan.arena_bytes
    check(replace(problem, budget_bytes=needed), plan)
    rejected((replace(problem, budget_bytes=needed - 1), plan), "budget", "1 more than")
    with pytest.raises(PlanRejected, match="1 more than the budget"):
        make_plan(replace(problem, budget_bytes=needed - 1))


def test_overwrite_that_no_operator_declares() -> None:
    problem, plan = step()
    ops = tuple(replace(op, overwrites=()) for op in problem.ops)
    rejected((replace(problem, ops=ops), plan), "undeclared-overwrite", "'grad_logits'", "'logits'")


def test_wrong_alias() -> None:
    """An overlap recorded for a pair that the operator does not declare."""
    problem, plan = step()
    index = plan.instructions.index(Compute("conv2"))
    alias = Overlap(index, "b", "a", 0)
    wrong = moved(replace(plan, overlaps=(*plan.overlaps, alias)), "b", plan.addresses["a"])
    rejected((problem, wrong), "undeclared-overwrite", "'b'", "'a'")


def test_unrecorded_overlap() -> None:
    problem, plan = step()
    assert plan.overlaps
    rejected((problem, replace(plan, overlaps=())), "unrecorded-overlap", "grad_logits", "logits")


def test_recorded_overlap_that_is_not_used() -> None:
    problem = chain([64, 64, 64], [0, 0])
    plan = make_plan(problem)
    apart = replace(moved(plan, "v2", 1024), arena_bytes=1024 + 64)
    rejected((problem, apart), "overlap-unused", "'v2'", "'v1'")


def test_lag_one_step_too_small() -> None:
    problem = chain([64, 128], [32])
    plan = make_plan(problem)
    assert (plan.addresses["v1"], plan.addresses["v0"]) == (0, 64) or plan.overlaps
    at = plan.addresses["v0"] - 32 + problem.alignment
    rejected((problem, moved(plan, "v1", at)), "lag", "'v1'", "'v0'", "32 bytes below")


def test_lag_recorded_otherwise_than_declared() -> None:
    problem, plan = step()
    first, *rest = plan.overlaps
    wrong = replace(plan, overlaps=(replace(first, lag=first.lag + 8), *rest))
    rejected((problem, wrong), "overlap-lag", first.output, first.input)


def test_overwrite_of_an_input_that_is_used_later() -> None:
    """v1 is written over v0, but here the second operator reads v0 too."""
    problem = chain([64, 64, 64], [0, 0])
    plan = make_plan(problem)
    assert [overlap.output for overlap in plan.overlaps] == ["v1", "v2"]
    longer = replace(problem, ops=(problem.ops[0], replace(problem.ops[1], inputs=("v1", "v0"))))

    def later(steps: list[Instruction]) -> None:
        steps.remove(Free("v0"))
        steps.append(Free("v0"))

    wrong = listed(plan, later)
    rejected((longer, wrong), "overwritten-input-used", "'v1'", "'v0'", "instruction 1")
    rejected((longer, wrong), "read-overwritten", "'v0'")


def test_overwrite_of_an_output() -> None:
    problem = chain([64, 64], [0])
    plan = make_plan(problem)
    keeps = replace(problem, outputs=("v1", "v0"))
    wrong = listed(plan, lambda steps: steps.remove(Free("v0")))
    rejected((keeps, wrong), "overwritten-input-used", "'v0'", "output of the problem")
    rejected((keeps, wrong), "read-overwritten", "'v0'")


def test_two_overlaps_of_one_input() -> None:
    problem = chain([64, 64], [0])
    both = replace(problem.ops[0], outputs=("v1", "w"))
    both = replace(both, overwrites=(Overwrite("v1", "v0", 0), Overwrite("w", "v0", 0)))
    values = (*problem.values, replace(problem.values[1], name="w"))
    problem = replace(problem, values=values, ops=(both,), outputs=("v1", "w"))
    plan = make_plan(problem)
    assert len(plan.overlaps) == 1
    also = replace(plan.overlaps[0], output="w" if plan.overlaps[0].output == "v1" else "v1")
    rejected((problem, replace(plan, overlaps=(*plan.overlaps, also))), "overlap-twice", "'v0'")


def test_freed_twice() -> None:
    problem, plan = step()
    twice = listed(plan, lambda steps: steps.insert(steps.index(Free("a")), Free("a")))
    rejected((problem, twice), "double-free", "'a'")


def test_freed_before_it_exists() -> None:
    problem, plan = step()
    early = listed(plan, lambda steps: steps.insert(0, Free("grad_b")))
    rejected((problem, early), "free-unknown", "'grad_b'")


def test_names_that_the_problem_does_not_have() -> None:
    problem, plan = step()
    for stray in (Free("ghost"), Compute("ghost"), PageIn("ghost"), PageOut("ghost")):
        with_stray = replace(plan, instructions=(*plan.instructions, stray))
        rejected((problem, with_stray), "unknown-name")


def test_freed_never() -> None:
    problem, plan = step()
    rejected(
        (problem, listed(plan, lambda steps: steps.remove(Free("a.mask")))), "leak", "'a.mask'"
    )


def test_missing_compute() -> None:
    problem, plan = step()
    without = listed(plan, lambda steps: steps.remove(Compute("conv1_update")))
    rejected((problem, without), "missing-compute", "'conv1_update'")


def test_output_freed() -> None:
    problem, plan = step()
    gone = replace(plan, instructions=(*plan.instructions, Free("loss")))
    rejected((problem, gone), "output-missing", "'loss'")


def test_address_unaligned() -> None:
    problem, plan = step()
    rejected((problem, moved(plan, "loss", plan.addresses["loss"] + 4)), "alignment", "'loss'")


def test_address_out_of_the_arena() -> None:
    problem, plan = step()
    rejected((problem, moved(plan, "loss", plan.arena_bytes)), "outside-arena", "'loss'")
    rejected((problem, moved(plan, "loss", -8)), "negative-address", "'loss'")


def test_addresses_that_do_not_match_the_list() -> None:
    problem, plan = step()
    fewer = {key: at for key, at in plan.addresses.items() if key != "conv1#scratch"}
    rejected((problem, replace(plan, addresses=fewer)), "no-address", "'conv1#scratch'")
    rejected((problem, moved(plan, "ghost", 0)), "unknown-address", "'ghost'")


@pytest.mark.parametrize(
    "claim", ["arena_bytes", "lower_bound_bytes", "peak_bytes", "paged_out_bytes"]
)
@pytest.mark.parametrize("off", [-1, 1])
def test_wrong_claimed_bytes(claim: str, off: int) -> None:
    problem, plan = paged()
    wrong = replace(plan, **{claim: getattr(plan, claim) + off})
    rejected((problem, wrong), f"claim-{claim}", str(getattr(plan, claim)))


@pytest.mark.parametrize("claim", ["seconds", "joules"])
@pytest.mark.parametrize("wrong", [0.0, 11.0, float("nan")])
def test_wrong_claimed_costs(claim: str, wrong: float) -> None:
    problem, plan = paged()
    rejected((problem, replace(plan, **{claim: wrong})), f"claim-{claim}", claim)


def test_plan_for_another_problem() -> None:
    problem, plan = step()
    rejected((replace(problem, name="other"), plan), "wrong-problem", "'training'", "'other'")


def test_scratch_overlap() -> None:
    problem, plan = step()
    over_input = moved(plan, "conv2#scratch", plan.addresses["a"])
    rejected((problem, over_input), "scratch-overlap", "'conv2#scratch' at", "'a' at")
    over_output = moved(plan, "conv2#scratch", plan.addresses["b"])
    rejected((problem, over_output), "scratch-overlap", "'b' at", "'conv2#scratch' at")


def test_value_damaged_by_a_stranger_is_blamed_at_its_read_too() -> None:
    problem, plan = step()
    wrong = moved(plan, "b", plan.addresses["a"])
    rejected((problem, wrong), "read-damaged", "'a' at")


def test_page_in_without_page_out() -> None:
    problem, plan = paged()
    never = listed(plan, lambda steps: steps.remove(PageOut("a")))
    rejected((problem, never), "page-in-unstored", "'a'")


def test_page_in_of_a_resident_value() -> None:
    problem, plan = paged()
    kept = listed(plan, lambda steps: steps.remove(Free("a")))
    rejected((problem, kept), "resident-twice", "'a'")


def test_page_out_twice_or_of_nothing() -> None:
    problem, plan = paged()
    twice = listed(plan, lambda steps: steps.insert(steps.index(PageOut("a")), PageOut("a")))
    rejected((problem, twice), "paged-out-twice", "'a'")
    early = listed(plan, lambda steps: steps.insert(0, PageOut("a")))
    rejected((problem, early), "read-before-write", "'a'")


def test_storage_exceeded_by_one_byte() -> None:
    check(*paged(storage_bytes=128))
    rejected(paged(storage_bytes=127), "storage", "'a'", "1 more than its 127")
    rejected(paged(storage_bytes=0), "storage", "'a'")


def test_write_limit_exceeded() -> None:
    check(*paged(write_limit_bytes=128))
    rejected(paged(write_limit_bytes=127), "write-limit", "'a'")


def test_deadline_passed() -> None:
    problem, plan = paged()
    check(replace(problem, deadline_seconds=plan.seconds), plan)
    late = replace(problem, deadline_seconds=plan.seconds * (1 - 1e-9))
    rejected((late, plan), "deadline")
    # Paging counts: computing alone would be in time.
    rejected((replace(problem, deadline_seconds=make_plan(problem).seconds), plan), "deadline")


def test_update_before_a_reader_of_the_old_weights() -> None:
    problem, plan = step()

    def swap(steps: list[Instruction]) -> None:
        first, second = steps.index(Compute("conv2_back")), steps.index(Compute("conv2_update"))
        steps[first], steps[second] = steps[second], steps[first]

    rejected((problem, listed(plan, swap)), "state-order", "'w2'")


def test_update_run_twice() -> None:
    problem, plan = step()
    index = plan.instructions.index(Compute("conv1_update"))
    twice = (*plan.instructions[:index], Compute("conv1_update"), *plan.instructions[index:])
    wrong = plan_of(problem, twice, "by-hand")
    rejected((problem, wrong), "ran-twice", "'w1'")


def test_recompute_without_its_input() -> None:
    problem, plan = recomputed()
    rejected(
        (problem, listed(plan, lambda steps: steps.insert(3, Free("v0")))), "use-after-free", "'v0'"
    )


def test_recompute_of_a_resident_value() -> None:
    problem, plan = recomputed()
    kept = listed(plan, lambda steps: steps.remove(Free("v1")))
    rejected((problem, kept), "resident-twice", "'v1'")


def test_messages_name_instruction_and_both_addresses() -> None:
    problem, plan = step()
    wrong = moved(plan, "b", plan.addresses["a"])
    with pytest.raises(PlanRejected) as caught:
        check(problem, wrong)
    at = plan.addresses["a"]
    expected = rf"instruction \d+ \(compute conv2\): 'b' at bytes {at} to {at + 64} .* 'a' at bytes"
    assert re.search(expected, str(caught.value))


def test_no_value_can_leave_the_arena_or_the_grid() -> None:
    problem, plan = step()
    for key in plan.addresses:
        for to in (-8, -4, 4, plan.arena_bytes - 4, plan.arena_bytes):
            assert violations_of(problem, moved(plan, key, to)), (key, to)
