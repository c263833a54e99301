# SPDX-License-Identifier: Apache-2.0
"""Float networks by name, with random weights and batches of their shape, ready to be trained."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from trainlet.errors import TrainletError
from trainlet.zoo.torch_networks.mobilenet_v2 import mobilenet_v2
from trainlet.zoo.torch_networks.resnet import resnet18, resnet50
from trainlet.zoo.torch_networks.transformer import (
    BERT_BASE,
    SMALL,
    bert_base,
    small_transformer,
)
from trainlet.zoo.torch_networks.vgg import vgg16

Draw = Callable[[int, torch.Generator], Tensor]


@dataclass(frozen=True)
class TrainingTask:
    """What a training step needs: ``loss(model(*inputs), *targets)``."""

    model: nn.Module
    loss: Callable[..., Tensor]
    inputs: tuple[Tensor, ...]
    targets: tuple[Tensor, ...]


@dataclass(frozen=True)
class _Entry:
    make: Callable[[], nn.Module]
    draw: Draw
    classes: int


def _images(side: int) -> Draw:
    return lambda batch, generator: torch.randn((batch, 3, side, side), generator=generator)


def _words(words: int, length: int) -> Draw:
    return lambda batch, generator: torch.randint(words, (batch, length), generator=generator)


_IMAGE_NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "vgg16": vgg16,
    "resnet18": resnet18,
    "resnet50": resnet50,
    "mobilenet-v2": mobilenet_v2,
}
_ENTRIES: dict[str, _Entry] = {
    **{name: _Entry(make, _images(224), 1000) for name, make in _IMAGE_NETWORKS.items()},
    **{
        f"{name}-cifar": _Entry(partial(make, 10, cifar=True), _images(32), 10)
        for name, make in _IMAGE_NETWORKS.items()
    },
    "bert-base": _Entry(bert_base, _words(BERT_BASE.words, BERT_BASE.positions), 2),
    "transformer-small": _Entry(small_transformer, _words(SMALL.words, SMALL.positions), 4),
}


def torch_network_names() -> tuple[str, ...]:
    """The names that ``training_task`` knows."""
    return tuple(_ENTRIES)


def training_task(name: str, batch: int = 1, seed: int = 0) -> TrainingTask:
    """A network in training mode with a batch of random data; the default generator stays put.

    Raises:
        TrainletError: no such network, or no such batch.
    """
    entry = _ENTRIES.get(name)
    if entry is None:
        near = difflib.get_close_matches(name.lower(), _ENTRIES, n=2)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise TrainletError(f"no network {name!r}: {hint}there are {', '.join(_ENTRIES)}")
    if batch < 1:
        raise TrainletError(f"the batch is {batch}; give 1 or more")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = entry.make().train()
    generator = torch.Generator().manual_seed(seed)
    inputs = entry.draw(batch, generator)
    targets = torch.randint(entry.classes, (batch,), generator=generator)
    return TrainingTask(model, nn.CrossEntropyLoss(), (inputs,), (targets,))
