# SPDX-License-Identifier: Apache-2.0
"""One training step by plan: the same gradients and parameters as without, in less memory.

The model, its buffers and the optimizer's state change when everything has been computed, and
not before: after an error they are as they were, the generator's state too.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from trainlet.capture.module import Batch
from trainlet.errors import TrainletError
from trainlet.planning import Instruction, PageOut, Plan
from trainlet.planning.checker import CheckReport
from trainlet.planning.methods import find_method
from trainlet.run.pytorch.executor import (
    Execution,
    Update,
    replayed_operators,
    validate_order,
)
from trainlet.run.pytorch.footprint import needs_copy, state_tensors
from trainlet.run.pytorch.live_bytes import LiveBytes
from trainlet.run.pytorch.pages import PageFile
from trainlet.run.pytorch.problem import check_list, fixed_tensors, program_owns_not
from trainlet.run.pytorch.program import base_of
from trainlet.run.pytorch.trainer import Trainer


@dataclass(frozen=True)
class StepReport:
    """What one step did; ``peak_bytes`` is measured where that was asked for, else None."""

    seconds: float
    paging_seconds: float
    operators: int
    recomputed_operators: int
    paged_out_bytes: int
    paged_in_bytes: int
    peak_bytes: int | None
    planned_peak_bytes: int


class PlannedStep:
    """``step(inputs, targets)`` trains once, operator by operator, as the plan says.

    Args:
        trainer: what is trained.
        plan: a plan, an instruction list, or the name of a planning method.
        page_folder: a folder on disk for pages; None where the plan pages nothing.

    Raises:
        TrainletError: the plan breaks a rule or a limit, or pages without a folder.
    """

    def __init__(
        self,
        trainer: Trainer,
        plan: Plan | Sequence[Instruction] | str = "keep-all",
        page_folder: Path | None = None,
    ) -> None:
        self.trainer, self.page_folder = trainer, page_folder
        self.instructions, method = _instructions(trainer, plan)
        self.plan: Plan
        self.claims: CheckReport
        self.plan, self.claims = check_list(trainer.problem, self.instructions, method)
        validate_order(trainer.program, self.instructions)
        sizes = trainer.program.value_bytes
        paged = [item.value for item in self.instructions if isinstance(item, PageOut)]
        self._page_sizes = {name: sizes[name] for name in paged}
        if paged and page_folder is None:
            raise TrainletError(
                f"the plan pages {len(paged)} values, but there is no storage: name a folder"
            )
        self._replayed = replayed_operators(self.instructions)
        self.last: StepReport | None = None

    def step(self, inputs: Batch, targets: Batch = (), *, measure: bool = False) -> Tensor:
        """Compute the gradients, let the optimizer step, write the buffers; the loss comes back.

        Gradients that parameters hold from before are dropped, and none is left afterwards.
        ``measure`` notes the peak of live bytes, which slows the step.

        Raises:
            TrainletError: something failed before the optimizer's turn; nothing has changed.
        """
        return self._run(inputs, targets, measure, self._update)

    def backward(self, inputs: Batch, targets: Batch = (), *, measure: bool = False) -> Tensor:
        """The loss, with gradients in ``.grad`` and buffers written; the optimizer does not step.

        Raises:
            TrainletError: something failed; nothing has changed.
        """
        return self._run(inputs, targets, measure, self._hand_over)

    def _run(self, inputs: Batch, targets: Batch, measure: bool, update: Update) -> Tensor:
        program = self.trainer.program
        arguments = program.captured.flatten(inputs, targets)
        self._refuse_other_mode()
        meter = LiveBytes(self._present(arguments)) if measure else None
        generator = torch.get_rng_state()
        start = time.perf_counter()
        try:
            with torch.no_grad(), self._storage() as pages, meter or nullcontext():
                execution = Execution(program, self._fixed(arguments), pages, self._replayed)
                execution.run(self.instructions, update)
                loss: Tensor = execution.fetch(program.loss).clone()
        except BaseException:
            torch.set_rng_state(generator)
            raise
        self.last = self._report(execution, time.perf_counter() - start, meter)
        return loss

    def _storage(self) -> AbstractContextManager[PageFile | None]:
        if not self._page_sizes or self.page_folder is None:
            return nullcontext()
        return PageFile(self.page_folder, self._page_sizes)

    def _fixed(self, arguments: tuple[Tensor, ...]) -> dict[str, Tensor]:
        captured = self.trainer.captured
        state = {node: slot.get().detach() for node, slot in captured.state.items()}
        given = zip(captured.arguments, (a.detach() for a in arguments), strict=True)
        return {**state, **captured.constants, **dict(given)}

    def _present(self, arguments: tuple[Tensor, ...]) -> list[Tensor]:
        """Everything that lies in memory before the first operator."""
        state = state_tensors(self.trainer.optimizer)
        parameters = self.trainer.captured.parameters.values()
        gradients = [slot.get().grad for slot in parameters]
        kept = [gradient for gradient in gradients if gradient is not None]
        return [*fixed_tensors(self.trainer.program), *arguments, *state, *kept]

    def _refuse_other_mode(self) -> None:
        modules = dict(self.trainer.captured.model.named_modules())
        for path, training in self.trainer.captured.training:
            if modules[path].training != training:
                raise TrainletError(
                    f"'{path or 'the model'}' was captured in "
                    f"{'training' if training else 'evaluation'} mode and is in the other now: "
                    f"call .{'train' if training else 'eval'}() or capture it anew"
                )

    def _gradients(self, execution: Execution) -> list[tuple[Tensor, Tensor]]:
        """Parameters with their gradients, each in memory of its own as autograd has them."""
        program = self.trainer.program
        shared = Counter(base_of(node) for node in program.gradients.values())
        pairs = []
        for name, node in program.gradients.items():
            gradient, slot = execution.fetch(node), program.captured.parameters[name]
            parameter = slot.get()
            alone = shared[base_of(node)] == 1 and not program_owns_not(program, node)
            if needs_copy(gradient, slot, not alone):
                gradient = torch.empty_like(parameter).copy_(gradient)
            pairs.append((parameter, gradient))
        return pairs

    def _update(self, execution: Execution) -> None:
        pairs = self._gradients(execution)
        self.trainer.optimizer.zero_grad(set_to_none=True)
        for parameter, gradient in pairs:
            parameter.grad = gradient
        try:
            self.trainer.optimizer.step()
        finally:
            for parameter, _ in pairs:
                parameter.grad = None
        self._write_buffers(execution)

    def _hand_over(self, execution: Execution) -> None:
        for parameter, gradient in self._gradients(execution):
            if parameter.grad is None:
                parameter.grad = gradient
            else:
                parameter.grad += gradient
        self._write_buffers(execution)

    def _write_buffers(self, execution: Execution) -> None:
        for _, slot in self.trainer.captured.updates:
            slot.get().copy_(execution.next_buffers[slot.name])

    def _report(self, execution: Execution, seconds: float, meter: LiveBytes | None) -> StepReport:
        pages = execution.pages
        return StepReport(
            seconds=seconds,
            paging_seconds=execution.paging_seconds,
            operators=execution.runs.total(),
            recomputed_operators=sum(count - 1 for count in execution.runs.values()),
            paged_out_bytes=pages.bytes_out if pages else 0,
            paged_in_bytes=pages.bytes_in if pages else 0,
            peak_bytes=meter.peak if meter else None,
            planned_peak_bytes=self.plan.peak_bytes,
        )


def _instructions(
    trainer: Trainer, plan: Plan | Sequence[Instruction] | str
) -> tuple[tuple[Instruction, ...], str]:
    if isinstance(plan, str):
        return find_method(plan)(trainer.problem), plan
    if isinstance(plan, Plan):
        return plan.instructions, plan.method
    return tuple(plan), "given"
