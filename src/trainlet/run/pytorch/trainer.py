# SPDX-License-Identifier: Apache-2.0
"""A model, a loss and an optimizer become a program and a planning problem."""

from __future__ import annotations

from torch import nn
from torch.optim import Optimizer

from trainlet.capture.module import Batch, CapturedModule, Loss, capture_module
from trainlet.planning import Problem
from trainlet.run.pytorch.footprint import Footprint, footprint_of
from trainlet.run.pytorch.problem import Cost, Limits, problem_of
from trainlet.run.pytorch.program import Program, program_of


class Trainer:
    """A model, a loss and an optimizer, captured: the problem, before there is a plan."""

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        optimizer: Optimizer,
        example_inputs: Batch,
        example_targets: Batch = (),
        limits: Limits | None = None,
        cost: Cost = lambda _: (0.0, 0.0),
    ) -> None:
        """Capture the step.

        Raises:
            TrainletError: the model cannot be captured or the optimizer cannot be planned.
        """
        self.captured: CapturedModule = capture_module(model, loss, example_inputs, example_targets)
        self.program: Program = program_of(self.captured)
        self.optimizer = optimizer
        parameters = [slot.get() for slot in self.captured.parameters.values()]
        self.footprint: Footprint = footprint_of(optimizer, parameters)
        self.problem: Problem = problem_of(self.program, self.footprint, limits, cost)
