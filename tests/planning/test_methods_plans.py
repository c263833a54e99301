# SPDX-License-Identifier: Apache-2.0
"""What a method says it has planned passes the checker; otherwise it says what it reaches."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from training_steps import at_share, chains, plain_chain, training_steps

from trainlet.errors import TrainletError
from trainlet.planning import Compute, Instruction, OpSpec, PageOut, Problem, ValueSpec, make_plan
from trainlet.planning.checker import violations_of
from trainlet.planning.methods import METHODS
from trainlet.planning.methods.keep_all import keep_all
from trainlet.planning.methods.limits import peak_of
from trainlet.planning.methods.schedule import Event, with_frees
from trainlet.planning.planner import plan_of
from trainlet.planning.violations import PlanRejected, Violation

_BASELINES = ["chen-sqrt", "capuchin", "pofo", "dtr"]
_shares = st.sampled_from([1.0, 0.9, 0.75, 0.6, 0.5, 0.4])
_settings = settings(max_examples=80, deadline=None)


def planned(method: str, problem: Problem) -> tuple[Instruction, ...] | None:
    """The method's list, or None where it says that it finds none."""
    try:
        return METHODS[method](problem)
    except TrainletError as error:
        said = str(error)
    found = re.search(r"smallest peak it reaches is (\d+) bytes$", said)
    assert found is not None or "pofo plans chains" in said
    assert found is None or int(found.group(1)) > (problem.budget_bytes or 0)
    return None


def overhead(problem: Problem, instructions: tuple[Instruction, ...]) -> float:
    """Joules beyond those of one pass."""
    return plan_of(problem, instructions, "test").joules - sum(op.joules for op in problem.ops)


@pytest.mark.parametrize("method", _BASELINES)
@_settings
@given(problem=training_steps(), share=_shares)
def test_a_list_that_a_method_returns_is_accepted(
    method: str, problem: Problem, share: float
) -> None:
    problem = at_share(problem, share)
    instructions = planned(method, problem)
    if instructions is None:
        return
    assert problem.fixed_bytes + peak_of(problem, instructions) <= (problem.budget_bytes or 0)
    plan = plan_of(problem, instructions, method)
    faults: list[Violation] = list(violations_of(problem, plan))
    # The bytes alive fit; that they can be placed without a hole is not the method's to promise.
    assert {fault.kind for fault in faults} <= {"budget"}


@pytest.mark.parametrize("method", ["capuchin", "pofo", "dtr"])
@_settings
@given(problem=chains())
def test_the_peak_falls_with_the_budget(method: str, problem: Problem) -> None:
    peak = peak_of(problem, keep_all(problem))
    for share in (0.9, 0.75, 0.6, 0.5):
        instructions = planned(method, at_share(problem, share))
        if instructions is None:
            break
        assert peak_of(problem, instructions) <= share * peak


@pytest.mark.parametrize("method", ["capuchin", "pofo", "dtr"])
@_settings
@given(problem=training_steps())
def test_without_a_budget_nothing_is_given_up(method: str, problem: Problem) -> None:
    assert METHODS[method](problem) == keep_all(problem)
    assert METHODS[method](at_share(problem, 1.0)) == keep_all(problem)


@_settings
@given(problem=chains())
def test_pofo_costs_no_more_than_chen_at_the_same_peak(problem: Problem) -> None:
    chen = METHODS["chen-sqrt"](problem)
    share = peak_of(problem, chen) / peak_of(problem, keep_all(problem))
    tight = at_share(problem, min(share + 1e-9, 1.0))
    pofo = METHODS["pofo"](tight)
    assert overhead(problem, pofo) <= overhead(problem, chen) + 1e-9


@_settings
@given(problem=training_steps())
def test_frees_after_all_operators_are_those_of_keep_all(problem: Problem) -> None:
    events: list[Event] = [Compute(op.name) for op in problem.ops]
    assert with_frees(problem, events) == keep_all(problem)


def test_chen_runs_each_segment_but_the_last_once_more() -> None:
    problem = plain_chain([10] * 16, [1.0] * 16)
    plan = make_plan(problem, "chen-sqrt")
    runs = [step.op for step in plan.instructions if isinstance(step, Compute)]
    again = sorted({op for op in runs if runs.count(op) > 1}, key=lambda op: int(op[1:]))
    # Four segments of four; the last of each but the last segment is a checkpoint.
    assert again == [f"F{k}" for k in (0, 1, 2, 4, 5, 6, 8, 9, 10)]
    assert len(runs) == 32 + 9
    # At the worst: three checkpoints, the last segment whole, one gradient.
    assert plan.peak_bytes == 10 * (3 + 4 + 1)
    assert make_plan(problem).peak_bytes == 10 * (16 + 1)


def test_capuchin_swaps_what_is_idle_longest_and_recomputes_without_storage() -> None:
    problem = plain_chain([10] * 8, [1.0] * 8)
    stored = replace(problem, storage_bytes=1000, budget_bytes=80)
    swapped = [
        s.value for s in make_plan(stored, "capuchin").instructions if isinstance(s, PageOut)
    ]
    assert swapped == ["a0"]  # made first and read last
    without = replace(problem, budget_bytes=80)
    plan = make_plan(without, "capuchin")
    assert plan.paged_out_bytes == 0
    assert plan.seconds > sum(op.seconds for op in problem.ops)


@pytest.mark.parametrize("method", ["capuchin", "pofo"])
def test_storage_and_wear_are_honoured(method: str) -> None:
    problem = plain_chain([10] * 12, [1.0] * 12)
    limits: list[dict[str, Any]] = [
        {"storage_bytes": 25},
        {"storage_bytes": 1000, "write_limit_bytes": 25},
    ]
    for limit in limits:
        tight = replace(problem, budget_bytes=80, **limit)
        assert make_plan(tight, method).paged_out_bytes <= 25


@pytest.mark.parametrize("method", _BASELINES)
def test_a_budget_out_of_reach_is_one_line_with_the_smallest_peak(method: str) -> None:
    problem = plain_chain([10] * 9, [1.0] * 9, budget_bytes=39)
    with pytest.raises(TrainletError, match="smallest peak it reaches is ") as caught:
        make_plan(problem, method)
    assert "\n" not in str(caught.value)
    reached = int(str(caught.value).split()[-2])
    again = plain_chain([10] * 9, [1.0] * 9, budget_bytes=reached)
    assert make_plan(again, method).peak_bytes <= reached


@pytest.mark.parametrize("method", ["chen-sqrt", "dtr", "pofo"])
def test_a_deadline_that_recomputing_misses_is_said(method: str) -> None:
    problem = plain_chain([10] * 9, [1.0] * 9, budget_bytes=75, deadline_seconds=27.0)
    with pytest.raises(TrainletError, match="more than the deadline of 27 s") as caught:
        make_plan(problem, method)
    assert not isinstance(caught.value, PlanRejected)


def test_pofo_says_that_a_graph_is_no_chain() -> None:
    problem = plain_chain([10] * 6, [1.0] * 6, budget_bytes=60)
    ops = list(problem.ops)
    ops[0] = replace(ops[0], outputs=("a0", "aside"))  # every layer reads what the first sets aside
    ops[1:6] = [replace(op, inputs=(*op.inputs, "aside")) for op in ops[1:6]]
    values = (*problem.values, ValueSpec("aside", 10))
    with pytest.raises(TrainletError, match="pofo plans chains"):
        make_plan(replace(problem, values=values, ops=tuple(ops)), "pofo")


def test_state_is_read_before_it_changes() -> None:
    """A layer whose weight is updated before its value is read again is not run again."""
    problem = plain_chain([10] * 8, [1.0] * 8, budget_bytes=75)
    ops = [replace(op, reads=("w",)) if op.name[0] == "F" else op for op in problem.ops]
    ops.insert(9, OpSpec("U", ("g7",), (), reads=("w",), writes=("w",)))
    early = replace(problem, ops=tuple(ops))
    for method in ("dtr", "capuchin", "pofo"):
        assert planned(method, early) is None
    chen = METHODS["chen-sqrt"](replace(early, budget_bytes=None))
    assert sum(isinstance(step, Compute) for step in chen) == len(ops)
