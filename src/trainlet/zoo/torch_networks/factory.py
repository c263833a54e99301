# SPDX-License-Identifier: Apache-2.0
"""A user's own network by ``package.module:factory``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from trainlet.errors import TrainletError
from trainlet.zoo.torch_networks.catalogue import TrainingTask

_FORM = "give package.module:factory"
_WANTED = "(model, loss, inputs, targets), the latter two tensors or sequences of tensors"


def load_task(reference: str) -> TrainingTask:
    """Call the factory, which takes nothing and returns (model, loss, inputs, targets).

    Raises:
        TrainletError: it cannot be found, fails, or returns something else.
    """
    module_name, _, name = reference.partition(":")
    if not module_name or not name:
        raise TrainletError(f"{reference!r} names no factory; {_FORM}")
    try:
        found: Any = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise TrainletError(f"cannot find the factory {reference}: {error}") from error
    return _called(reference, found)


def _called(reference: str, factory: Callable[[], Any]) -> TrainingTask:
    try:
        made = factory()
    except Exception as error:
        raise TrainletError(
            f"the factory {reference} failed: {type(error).__name__}: {error}"
        ) from error
    if isinstance(made, TrainingTask):
        return made
    match made:
        case (nn.Module() as model, loss, inputs, targets) if callable(loss):
            return TrainingTask(
                model, loss, _tensors(reference, inputs), _tensors(reference, targets)
            )
    raise TrainletError(
        f"the factory {reference} returned {type(made).__name__}; it must return {_WANTED}"
    )


def _tensors(reference: str, given: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    if isinstance(given, Tensor):
        return (given,)
    if isinstance(given, Sequence) and all(isinstance(item, Tensor) for item in given):
        return tuple(given)
    raise TrainletError(f"the factory {reference} must return {_WANTED}")
