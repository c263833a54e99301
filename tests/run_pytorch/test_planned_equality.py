# SPDX-License-Identifier: Apache-2.0
"""Whatever a plan drops, computes again or pages, the step's results keep every bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_plans import random_plan
from training_cases import CASES, Case

CaseOf = Callable[[str], Case]


@pytest.mark.parametrize("name", CASES)
def test_keep_all_is_eager_to_the_bit(name: str, case_of: CaseOf) -> None:
    case = case_of(name)
    planned, step = case.planned("keep-all")
    planned.assert_equals(case.eager)
    assert step.last is not None
    assert step.last.recomputed_operators == 0


@pytest.mark.parametrize("name", CASES)
@given(seed=st.integers(0, 1 << 32), kind=st.sampled_from(["drop", "page", "both"]))
@settings(
    max_examples=4,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_random_plans_change_no_bit(
    name: str, seed: int, kind: str, case_of: CaseOf, tmp_path: Path
) -> None:
    case = case_of(name)
    drop, page = {"drop": (0.03, 0.0), "page": (0.0, 0.05), "both": (0.02, 0.03)}[kind]
    plan = random_plan(case.trainer.problem, seed, drop=drop, page=page)
    planned, step = case.planned(plan, tmp_path)
    planned.assert_equals(case.eager)
    assert step.last is not None
    assert step.last.recomputed_operators == step.claims.recomputed_ops
    assert step.last.paged_out_bytes == step.plan.paged_out_bytes
    assert list(tmp_path.iterdir()) == []
