# SPDX-License-Identifier: Apache-2.0
"""What the resident-memory test runs in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from random_plans import paging_plan
from torch import nn

from trainlet.planning.methods.keep_all import keep_all
from trainlet.run.pytorch import Limits, PlannedStep, Trainer

_WIDTH, _ROWS, _DEPTH = 256, 8192, 12


def prepare(kind: str, folder: str) -> Callable[[], dict[str, int]]:
    """A deep stack of tanh layers: every activation, 8 MiB each, waits for the backward pass."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layers = [layer for _ in range(_DEPTH) for layer in (nn.Linear(_WIDTH, _WIDTH), nn.Tanh())]
    model = nn.Sequential(*layers)
    inputs, targets = torch.randn(_ROWS, _WIDTH), torch.randn(_ROWS, _WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    limits = Limits(storage_bytes=1 << 40)
    trainer = Trainer(model, nn.MSELoss(), optimizer, inputs, targets, limits)
    plan = keep_all(trainer.problem) if kind == "keep-all" else paging_plan(trainer.problem, 4)
    step = PlannedStep(trainer, plan, Path(folder))
    own = step.plan.peak_bytes - trainer.problem.fixed_bytes

    def run() -> dict[str, int]:
        step.step(inputs, targets)
        return {"planned_bytes": own}

    return run


def fail() -> None:
    raise ValueError("nothing to run")
