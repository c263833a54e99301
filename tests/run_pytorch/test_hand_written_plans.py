# SPDX-License-Identifier: Apache-2.0
"""A small network with batch norm and dropout, its list edited by hand, and wrong lists."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from training_cases import ADAMW, Case

from trainlet.errors import TrainletError
from trainlet.planning import Compute, Free, Instruction, PageIn, PageOut
from trainlet.planning.instructions import to_text
from trainlet.planning.methods.keep_all import keep_all
from trainlet.run.pytorch import Limits, PlannedStep, Trainer


@pytest.fixture(scope="module")
def case() -> Case:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Dropout(0.3),
        nn.Flatten(), nn.Linear(4 * 36, 16), nn.Tanh(), nn.Dropout(0.5), nn.Linear(16, 5),
    )  # fmt: skip
    return Case(model, torch.randn(2, 3, 8, 8), torch.tensor([1, 4]), ADAMW)


def _named(case: Case, part: str) -> str:
    (name,) = [op.name for op in case.trainer.problem.ops if op.name.endswith(part)]
    return name


def _gap(case: Case, value: str) -> tuple[list[Instruction], list[Instruction], list[Instruction]]:
    """The keep-all list before, within and after the longest time in which nobody reads a value."""
    plan = list(keep_all(case.trainer.problem))
    ops = case.trainer.problem.op_by_name
    maker = plan.index(Compute(case.trainer.problem.producer[value]))
    readers = [
        i
        for i, item in enumerate(plan)
        if isinstance(item, Compute) and value in ops[item.op].inputs
    ]
    start, end = max(
        zip([maker, *readers], readers, strict=False), key=lambda pair: pair[1] - pair[0]
    )
    return plan[: start + 1], plan[start + 1 : end], plan[end:]


def _outputs(case: Case, op: str) -> tuple[str, ...]:
    return case.trainer.problem.op_by_name[op].outputs


def test_one_value_is_computed_again(case: Case) -> None:
    op = _named(case, "6.tanh")
    (value,) = _outputs(case, op)
    (source,) = case.trainer.problem.op_by_name[op].inputs
    before, within, after = _gap(case, value)
    keep_source = [item for item in [*before, *within] if item != Free(source)]
    split = len(before) - (len(before) + len(within) - len(keep_source))
    plan = [*keep_source[:split], Free(value), *keep_source[split:]]
    plan += [Compute(op), Free(source), *(item for item in after if item != Free(source))]
    planned, step = case.planned(plan)
    planned.assert_equals(case.eager)
    assert f"again {op}" in to_text(step.instructions)
    assert step.last is not None
    assert step.last.recomputed_operators == 1


def test_one_value_is_paged(case: Case, tmp_path: Path) -> None:
    (value,) = _outputs(case, _named(case, "0.convolution"))
    before, within, after = _gap(case, value)
    plan = [*before, PageOut(value), Free(value), *within, PageIn(value), *after]
    planned, step = case.planned(plan, tmp_path)
    planned.assert_equals(case.eager)
    assert step.last is not None
    assert step.last.paged_out_bytes == step.last.paged_in_bytes == 2 * 4 * 36 * 4


def test_dropout_and_batch_norm_are_replayed(case: Case, tmp_path: Path) -> None:
    """The first dropout and the norm before it run again, from a paged convolution."""
    problem = case.trainer.problem
    norm, relu = _named(case, "_native_batch_norm_legit_functional"), _named(case, "relu")
    drop = min((op.name for op in problem.ops if op.name.endswith("native_dropout")), key=_index)
    made = [*_outputs(case, norm), *_outputs(case, relu), *_outputs(case, drop)]
    (image,) = _outputs(case, _named(case, "0.convolution"))
    plan: list[Instruction] = []
    ran = False
    resident: set[str] = set()
    last = {name: op.name for op in problem.ops for name in op.inputs}
    for op in problem.ops:
        if ran and not set(op.inputs) & {*made, image} <= resident:
            if image not in resident:
                plan.append(PageIn(image))
            plan += [Free(name) for name in made if name in resident]
            plan += [Compute(norm), Compute(relu), Compute(drop)]
            resident |= {*made, image}
        plan.append(Compute(op.name))
        resident |= set(op.outputs)
        dying = [
            n for n in resident if last.get(n, op.name) == op.name and n not in problem.outputs
        ]
        plan += [Free(name) for name in sorted(dying) if not (name in made and not ran)]
        resident -= {name for name in dying if not (name in made and not ran)}
        if op.name == _named(case, "5.addmm"):
            leaving = [name for name in (*made, image) if name in resident]
            plan += [PageOut(image), *(Free(name) for name in leaving)]
            resident -= set(leaving)
            ran = True
    plan += [Free(name) for name in made if name in resident]
    planned, step = case.planned(plan, tmp_path)
    planned.assert_equals(case.eager)
    assert step.last is not None
    assert step.last.recomputed_operators == 3


def _index(name: str) -> int:
    return int(name.partition(":")[0])


def test_a_list_that_breaks_a_rule_is_refused(case: Case) -> None:
    plan = keep_all(case.trainer.problem)
    value = case.trainer.problem.values[0].name
    for wrong, message in (
        (plan[1:], "needs"),
        (plan[:-1], "never freed|is freed"),
        ((*plan, Compute(plan[0].op)), "needs|after the update|leak"),  # type: ignore[union-attr]
        ((*plan[:1], PageIn(value), *plan[1:]), "needs"),
    ):
        with pytest.raises(TrainletError, match=message):
            PlannedStep(case.trainer, wrong)
    with pytest.raises(TrainletError, match="no planning method"):
        PlannedStep(case.trainer, "keep-nothing")


def test_paging_without_storage_is_refused(case: Case, tmp_path: Path) -> None:
    (value,) = _outputs(case, _named(case, "0.convolution"))
    before, within, after = _gap(case, value)
    plan = [*before, PageOut(value), Free(value), *within, PageIn(value), *after]
    with pytest.raises(TrainletError, match="there is no storage: name a folder"):
        PlannedStep(case.trainer, plan)
    bare = Trainer(case.model, case.loss, case.optimizer, case.inputs, case.targets)
    with pytest.raises(TrainletError, match="storage"):
        PlannedStep(bare, plan, tmp_path)


def test_draws_out_of_order_are_refused() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.linear(x)
            return nn.functional.dropout(y, 0.5) + nn.functional.dropout(y, 0.25)

    case = Case(Two(), torch.randn(2, 3), torch.randn(2, 3), loss=nn.MSELoss())
    plan = list(keep_all(case.trainer.problem))
    first, second = (
        Compute(op.name) for op in case.trainer.problem.ops if op.name.endswith("native_dropout")
    )
    i, j = plan.index(first), plan.index(second)
    plan[i], plan[j] = second, first
    with pytest.raises(TrainletError, match="out of order; draws would change"):
        PlannedStep(case.trainer, plan)


def test_a_budget_under_the_peak_is_refused(case: Case) -> None:
    peak = PlannedStep(case.trainer).plan.peak_bytes
    for budget, fits in ((peak, True), (peak - 1, False)):
        trainer = Trainer(
            case.model, case.loss, case.optimizer, case.inputs, case.targets,
            Limits(budget_bytes=budget),
        )  # fmt: skip
        if fits:
            PlannedStep(trainer)
        else:
            with pytest.raises(TrainletError, match="1 more than the budget"):
                PlannedStep(trainer)
