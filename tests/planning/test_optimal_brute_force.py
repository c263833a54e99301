# SPDX-License-Identifier: Apache-2.0
"""The optimiser's optimum is the exhaustive search's, on small random problems of all kinds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from optimal_brute_force import least_overhead

from trainlet.planning import OpSpec, Overwrite, PagingCost, Problem, ValueSpec, check
from trainlet.planning.lifetimes import lifetimes_of
from trainlet.planning.methods.keep_all import keep_all
from trainlet.planning.optimal import smallest_budget, solve
from trainlet.planning.planner import plan_of

_ROOMS = st.sampled_from([0.0, 0.2, 0.4, 0.6, 0.8])


@st.composite
def small_steps(draw: st.DrawFn, most_ops: int = 6) -> Problem:
    """Graphs in which values are read long after they are made, as backward halves do."""
    count = draw(st.integers(3, most_ops))
    sizes = st.integers(1, 6)
    values = [ValueSpec("in", draw(sizes))]
    with_input = draw(st.booleans())
    ops: list[OpSpec] = [] if with_input else [OpSpec("source", (), ("in",), joules=0.0)]
    for index in range(count - len(ops)):
        known = [value.name for value in values]
        sources = draw(st.lists(st.sampled_from(known), unique=True, max_size=2))
        sources = list(dict.fromkeys([known[-1], *sources]))
        made = [f"v{index}"] + ([f"w{index}"] if draw(st.integers(0, 4)) == 0 else [])
        values += [ValueSpec(name, draw(sizes)) for name in made]
        overwrites = ()
        if draw(st.integers(0, 3)) == 0:
            overwrites = (Overwrite(made[0], sources[0], draw(st.integers(0, 2))),)
        ops.append(
            OpSpec(
                f"op{index}",
                tuple(sources),
                tuple(made),
                scratch_bytes=draw(st.sampled_from([0, 0, 1, 4])),
                overwrites=overwrites,
                seconds=float(draw(st.integers(0, 3))),
                joules=float(draw(st.integers(0, 9))),
                reads=("state",) if draw(st.integers(0, 5)) == 0 else (),
                writes=("state",) if draw(st.integers(0, 7)) == 0 else (),
            )
        )
    price = draw(st.sampled_from([0.25, 1.0, 4.0]))
    paging = PagingCost(1.0, 0.0, price, price / 4)
    return Problem(
        "small",
        tuple(values),
        tuple(ops),
        ("in",) if with_input else (),
        (values[-1].name,) if draw(st.booleans()) else (),
        alignment=1,
        storage_bytes=draw(st.sampled_from([1000, 1000, 6])),
        page_out=paging,
        page_in=paging,
    )


@st.composite
def mirrored_steps(draw: st.DrawFn) -> Problem:
    """A forward half, at times with a skip, and a backward half that reads it in reverse."""
    depth = draw(st.integers(2, 3))
    sizes = st.integers(1, 4)
    values = [ValueSpec("x0", draw(sizes))]
    ops = [OpSpec("load", (), ("x0",), joules=float(draw(st.integers(0, 3))))]
    for index in range(1, depth + 1):
        skip = {f"x{index - 2}"} if index > 1 and draw(st.booleans()) else set()
        values.append(ValueSpec(f"x{index}", draw(sizes)))
        sources = (f"x{index - 1}", *skip)
        price = float(draw(st.sampled_from([1, 1, 2, 5])))
        ops.append(OpSpec(f"layer{index}", sources, (f"x{index}",), joules=price))
    previous = f"x{depth}"
    for index in range(depth, 0, -1):
        wanted = draw(st.sampled_from([(index,), (index - 1,), (index, index - 1)]))
        sources = tuple(dict.fromkeys([previous, *(f"x{number}" for number in wanted)]))
        previous = f"g{index}"
        values.append(ValueSpec(previous, draw(st.integers(0, 3))))
        ops.append(OpSpec(f"back{index}", sources, (previous,), joules=9.0))
    price = draw(st.sampled_from([0.75, 1.5, 4.0]))
    paging = PagingCost(1.0, 0.0, price / 2, price / 3)
    return Problem(
        "mirrored",
        tuple(values),
        tuple(ops),
        alignment=1,
        storage_bytes=draw(st.sampled_from([1000, 1000, 5])),
        page_out=paging,
        page_in=paging,
    )


def budget_between(problem: Problem, share: float) -> int:
    """Bytes between the largest working set and the peak of keeping everything."""
    most = lifetimes_of(problem, keep_all(problem)).lower_bound_bytes
    least = max(
        sum(problem.extent(v) for v in {*op.inputs, *op.outputs}) + op.scratch_bytes
        for op in problem.ops
    )
    return round(least + share * (most - least))


def check_solution(problem: Problem, budget: int, **ways: Any) -> None:
    limited = replace(problem, budget_bytes=budget)
    expected = least_overhead(limited, budget, **ways)
    found = solve(limited, time_limit=20.0, workers=1, **ways)
    if expected is None:
        assert found.status == "infeasible"
        return
    assert found.status == "optimal"
    assert found.instructions is not None
    assert found.overhead == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert found.bound == pytest.approx(expected, rel=2e-6, abs=1e-12)
    # Placing the copies may take more than the bytes alive; the checker is to find nothing else.
    plan = plan_of(problem, found.instructions, "optimal")
    report = check(problem, plan)
    assert report.lower_bound_bytes <= budget
    base = sum(op.joules for op in problem.ops)
    assert report.joules == pytest.approx(base + expected)


@given(small_steps(), _ROOMS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_both_together(problem: Problem, share: float) -> None:
    check_solution(problem, budget_between(problem, share))


@given(small_steps(), _ROOMS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_running_again_alone(problem: Problem, share: float) -> None:
    check_solution(problem, budget_between(problem, share), page=False)


@given(small_steps(), _ROOMS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_paging_alone(problem: Problem, share: float) -> None:
    check_solution(problem, budget_between(problem, share), rematerialize=False)


@given(mirrored_steps(), _ROOMS, st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_forward_and_backward(problem: Problem, share: float, page: bool) -> None:
    check_solution(problem, budget_between(problem, share), page=page)


@given(small_steps(5), _ROOMS, st.integers(0, 6))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_deadline(problem: Problem, share: float, spare: int) -> None:
    deadline = sum(op.seconds for op in problem.ops) + spare
    timed = replace(problem, deadline_seconds=deadline)
    check_solution(timed, budget_between(problem, share))


@given(small_steps(5), st.booleans())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_smallest_budget(problem: Problem, page: bool) -> None:
    found = smallest_budget(problem, page=page, time_limit=20.0, workers=1)
    assert found is not None
    assert found.is_proven
    assert least_overhead(problem, int(found.limit), page=page) is not None
    assert least_overhead(problem, int(found.limit) - 1, page=page) is None
