# SPDX-License-Identifier: Apache-2.0
"""Any PyTorch model trained by plan: blocks freed, computed again, paged to a real file.

``Trainer(model, loss, optimizer, inputs, targets)`` captures the step and states its planning
problem; ``PlannedStep(trainer, plan)`` runs it.
"""

from trainlet.run.pytorch.live_bytes import LiveBytes
from trainlet.run.pytorch.pages import PageFile
from trainlet.run.pytorch.problem import Limits, check_list
from trainlet.run.pytorch.program import Operator, Program
from trainlet.run.pytorch.step import PlannedStep, StepReport
from trainlet.run.pytorch.trainer import Trainer
from trainlet.run.pytorch.work import Work, work_of

__all__ = [
    "Limits",
    "LiveBytes",
    "Operator",
    "PageFile",
    "PlannedStep",
    "Program",
    "StepReport",
    "Trainer",
    "Work",
    "check_list",
    "work_of",
]
