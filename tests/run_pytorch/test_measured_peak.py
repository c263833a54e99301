# SPDX-License-Identifier: Apache-2.0
"""The peak that a hook on PyTorch's dispatcher measures is the plan's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from random_plans import paging_plan, random_plan
from training_cases import CASES, Case

from trainlet.planning.methods.keep_all import keep_all
from trainlet.run.pytorch import LiveBytes, PlannedStep
from trainlet.run.pytorch.problem import GENERATOR_BYTES


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_measured_peak_is_the_plans(
    name: str, seed: int | None, case_of: Callable[[str], Case], tmp_path: Path
) -> None:
    """To the byte, but for states of the generator that a plan reserves and need not use."""
    case = case_of(name)
    case.reset()
    problem = case.trainer.problem
    plan = "keep-all" if seed is None else random_plan(problem, seed)
    step = PlannedStep(case.trainer, plan, tmp_path)
    step.step(case.inputs, case.targets)  # the optimizer makes its state
    step.step(case.inputs, case.targets, measure=True)
    assert step.last is not None
    assert step.last.peak_bytes is not None
    draws = sum(op.is_random for op in case.trainer.program.operators)
    spare = step.plan.peak_bytes - step.last.peak_bytes
    assert 0 <= spare <= draws * GENERATOR_BYTES
    assert spare % GENERATOR_BYTES == 0


# At this size ResNet-18's peak is the update, where all gradients are there and nothing else.
@pytest.mark.parametrize("name", ["mobilenet-v2", "transformer"])
def test_paging_lowers_the_measured_peak(
    name: str, case_of: Callable[[str], Case], tmp_path: Path
) -> None:
    """What waits more than 8 operators for its next reader goes to disk."""
    case = case_of(name)
    problem = case.trainer.problem
    peaks = []
    for plan in (keep_all(problem), paging_plan(problem, 8)):
        planned, step = case.planned(plan, tmp_path)
        planned.assert_equals(case.eager)
        step.step(case.inputs, case.targets, measure=True)
        assert step.last is not None
        assert step.last.peak_bytes is not None
        peaks.append(step.last.peak_bytes - problem.fixed_bytes)
    assert peaks[1] < peaks[0]


def test_live_bytes_follow_blocks_and_not_views() -> None:
    held = torch.zeros(100)
    with LiveBytes([held]) as meter:
        assert meter.live == 448  # 400 bytes in granules of 64
        x = torch.ones(10)
        y = x.view(2, 5).t()
        assert meter.live == 448 + 64
        del x
        assert meter.live == 448 + 64
        del y
        assert meter.live == 448
        (torch.ones(1000) + 1).sum()
        assert meter.peak == 448 + 2 * 4032
    assert meter.live <= 448 + 64
