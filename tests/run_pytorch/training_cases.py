# SPDX-License-Identifier: Apache-2.0
"""Small networks of every kind, trained by plan and by PyTorch itself from the same start."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trainlet.planning import Instruction, PagingCost
from trainlet.run.pytorch import Limits, PlannedStep, Trainer
from trainlet.zoo.torch_networks.mobilenet_v2 import mobilenet_v2
from trainlet.zoo.torch_networks.resnet import resnet18
from trainlet.zoo.torch_networks.transformer import small_transformer

STORAGE = 1 << 40
MakeOptimizer = Callable[[list[nn.Parameter]], Optimizer]
SGD: MakeOptimizer = partial(torch.optim.SGD, lr=0.05, momentum=0.9, weight_decay=1e-3)
ADAMW: MakeOptimizer = partial(torch.optim.AdamW, lr=1e-2)


@dataclass
class Result:
    """All that a few steps leave behind."""

    losses: list[Tensor] = field(default_factory=list)
    state: dict[str, Tensor] = field(default_factory=dict)
    gradients: list[Tensor | None] = field(default_factory=list)
    generator: Tensor = field(default_factory=torch.get_rng_state)

    def assert_equals(self, other: Result) -> None:
        assert all(map(torch.equal, self.losses, other.losses)), (self.losses, other.losses)
        assert self.state.keys() == other.state.keys()
        for name, tensor in self.state.items():
            assert torch.equal(tensor, other.state[name]), name
        for mine, theirs in zip(self.gradients, other.gradients, strict=True):
            assert (mine is None) == (theirs is None)
            assert mine is None or torch.equal(mine, theirs)  # type: ignore[arg-type]
        assert torch.equal(self.generator, other.generator)


class Case:
    """A model and its data; every run starts from the same weights and draws the same numbers."""

    def __init__(
        self,
        model: nn.Module,
        inputs: Tensor,
        targets: Tensor,
        make_optimizer: MakeOptimizer = SGD,
        loss: Callable[..., Tensor] | None = None,
    ) -> None:
        torch.set_num_threads(1)
        self.model, self.inputs, self.targets = model, inputs, targets
        self.loss = loss or nn.CrossEntropyLoss()
        self.make_optimizer = make_optimizer
        self.start = copy.deepcopy(model.state_dict())
        self.optimizer = make_optimizer(list(model.parameters()))
        limits = Limits(
            storage_bytes=STORAGE, page_in=PagingCost(1e-4, 1e-9), page_out=PagingCost(1e-4, 1e-9)
        )
        self.trainer = Trainer(model, self.loss, self.optimizer, inputs, targets, limits)
        self.eager = self._eager()

    def _eager(self, steps: int = 2) -> Result:
        model = copy.deepcopy(self.model)
        optimizer = self.make_optimizer(list(model.parameters()))
        torch.manual_seed(7)
        result = Result()
        for _ in range(steps):
            optimizer.zero_grad()
            loss = self.loss(model(self.inputs), self.targets)
            loss.backward()
            optimizer.step()
            result.losses.append(loss.detach())
        optimizer.zero_grad()
        self.loss(model(self.inputs), self.targets).backward()
        return self._finish(result, model)

    def planned(
        self, plan: Sequence[Instruction] | str, folder: Path | None = None, steps: int = 2
    ) -> tuple[Result, PlannedStep]:
        self.reset()
        step = PlannedStep(self.trainer, plan, folder)
        torch.manual_seed(7)
        result = Result()
        for _ in range(steps):
            result.losses.append(step.step(self.inputs, self.targets))
        step.backward(self.inputs, self.targets)
        return self._finish(result, self.model), step

    def _finish(self, result: Result, model: nn.Module) -> Result:
        result.gradients = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        result.state = copy.deepcopy(model.state_dict())
        result.generator = torch.get_rng_state()
        return result

    def reset(self) -> None:
        self.model.load_state_dict(self.start)
        self.optimizer.state.clear()
        self.model.zero_grad()


def images(batch: int, side: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    drawn = torch.randn((batch, 3, side, side), generator=generator)
    return drawn, torch.randint(10, (batch,), generator=generator)


def resnet_case() -> Case:
    torch.manual_seed(0)
    return Case(resnet18(10, cifar=True), *images(2, 16))


def mobilenet_case() -> Case:
    torch.manual_seed(0)
    return Case(mobilenet_v2(10, cifar=True), *images(2, 16))


def transformer_case() -> Case:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(3)
    words = torch.randint(64, (3, 16), generator=generator)
    targets = torch.randint(4, (3,), generator=generator)
    return Case(small_transformer(), words, targets, ADAMW)


CASES = {"resnet18": resnet_case, "mobilenet-v2": mobilenet_case, "transformer": transformer_case}
