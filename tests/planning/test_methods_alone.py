# SPDX-License-Identifier: Apache-2.0
"""The optimiser with one means alone: computing again (checkmate) or paging (paging-only)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from training_steps import at_share, plain_chain, training_steps

from trainlet.errors import TrainletError
from trainlet.planning import (
    Compute,
    PageOut,
    PagingCost,
    Plan,
    Problem,
    make_plan,
    read_poet_instance,
)
from trainlet.planning.methods import METHODS
from trainlet.planning.methods.limits import fits
from trainlet.planning.planner import plan_of

_settings = settings(max_examples=15, deadline=None)
_shares = st.sampled_from([0.9, 0.75, 0.6])


def tried(problem: Problem, method: str) -> Plan | None:
    """The method's plan, unless it finds none."""
    try:
        return plan_of(problem, METHODS[method](problem), method)
    except TrainletError:
        return None


@_settings
@given(problem=training_steps(), share=_shares)
def test_each_does_what_it_is_named_after_and_as_well_as_its_baseline(
    problem: Problem, share: float
) -> None:
    problem = at_share(problem, share)
    again = tried(problem, "checkmate")
    if again is not None:
        assert fits(problem, again.instructions)
        assert not any(isinstance(step, PageOut) for step in again.instructions)
    paged = tried(problem, "paging-only") if problem.storage_bytes else None
    if paged is not None:
        assert fits(problem, paged.instructions)
        runs = Counter(step.op for step in paged.instructions if isinstance(step, Compute))
        assert set(runs.values()) == {1}
    greedy = tried(problem, "dtr")
    if greedy is not None:
        assert again is not None
        assert again.joules <= greedy.joules + 1e-6


@pytest.mark.parametrize("method", ["checkmate", "paging-only"])
def test_out_of_reach_is_said_with_the_smallest_peak(method: str) -> None:
    problem = plain_chain([10] * 6, [1.0] * 6, budget_bytes=39, storage_bytes=1000)
    # The first layers' gradient needs two values and two gradients; no plan needs fewer bytes.
    with pytest.raises(TrainletError, match=r"smallest peak it reaches is 40 bytes$"):
        make_plan(problem, method)
    assert make_plan(replace(problem, budget_bytes=40), method).peak_bytes == 40


def test_a_deadline_out_of_reach_is_said() -> None:
    problem = plain_chain([10] * 6, [1.0] * 6, budget_bytes=50, deadline_seconds=18.5)
    with pytest.raises(TrainletError) as caught:
        make_plan(problem, "checkmate")
    assert str(caught.value) == (
        "checkmate cannot plan 'chain' within 18.5 s and 50 bytes; with these bytes it needs 20 s; "
        "in this time the smallest peak it reaches is 70 bytes"
    )
    assert make_plan(replace(problem, deadline_seconds=20.0), "checkmate").peak_bytes <= 50


def test_paging_needs_storage() -> None:
    problem = plain_chain([10] * 6, [1.0] * 6, budget_bytes=50)
    with pytest.raises(TrainletError, match="has no storage"):
        make_plan(problem, "paging-only")


def test_wear_and_capacity_limit_what_is_paged() -> None:
    wear = PagingCost(joules_per_byte=1.0)
    problem = plain_chain([10] * 6, [1.0] * 6, budget_bytes=50, storage_bytes=1000, page_out=wear)
    least = make_plan(problem, "paging-only").paged_out_bytes
    assert least > 10
    for limit in ({"write_limit_bytes": least - 1}, {"storage_bytes": least - 1}):
        with pytest.raises(TrainletError, match="paging-only cannot plan"):
            make_plan(replace(problem, **limit), "paging-only")


def test_the_methods_on_poets_linear(shared_dir: Path) -> None:
    path = shared_dir / "poet-instances" / "linear.json"
    for ram in (3300, 3600, 4000):
        problem = read_poet_instance(path, "m4", ram, 2.0)
        again, paged = make_plan(problem, "checkmate"), make_plan(problem, "paging-only")
        assert again.joules <= make_plan(problem, "dtr").joules
        assert paged.joules <= make_plan(problem, "capuchin").joules
        assert again.joules < paged.joules  # paging a value costs an M4 hundreds of operations
