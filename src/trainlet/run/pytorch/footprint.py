# SPDX-License-Identifier: Apache-2.0
"""What the user's optimizer needs: bytes of its state, and bytes while it steps."""

from __future__ import annotations

import copy
import inspect
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trainlet.capture.slots import Slot
from trainlet.errors import TrainletError
from trainlet.run.pytorch.live_bytes import LiveBytes

_REHEARSALS = 2  # the first step makes the state, the second one only uses it


@dataclass(frozen=True)
class Footprint:
    """Bytes of the optimizer's state, and the most that a step needs beside it."""

    state_bytes: int
    scratch_bytes: int


def footprint_of(optimizer: Optimizer, parameters: Iterable[Tensor]) -> Footprint:
    """Rehearse the optimizer on parameters without data; the optimizer itself stays as it is.

    Raises:
        TrainletError: the optimizer wants to evaluate the model again, or cannot be rehearsed.
    """
    _refuse_closure(optimizer)
    learning = {id(parameter) for parameter in parameters}
    twin = _twin(optimizer, learning)
    held = [p for group in twin.param_groups for p in group["params"]]
    gradients = [p.grad for p in held if p.grad is not None]
    scratch = 0
    with LiveBytes([*held, *gradients]) as meter:
        fixed = meter.live
        for _ in range(_REHEARSALS):
            meter.peak = meter.live
            try:
                type(optimizer).step(twin)
            except Exception as error:
                raise TrainletError(
                    f"the optimizer {type(optimizer).__name__} cannot be planned: {error}"
                ) from error
            scratch = max(scratch, meter.peak - meter.live)
        return Footprint(meter.live - fixed, scratch)


def _refuse_closure(optimizer: Optimizer) -> None:
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise TrainletError(
            f"the optimizer {type(optimizer).__name__} evaluates the model several times a step "
            "(it needs a closure); a plan covers one evaluation"
        )


def _twin(optimizer: Optimizer, learning: set[int]) -> Optimizer:
    """The same optimizer over parameters on the meta device, with no state and no hooks."""
    twin: Any = object.__new__(type(optimizer))
    vars(twin).update(vars(optimizer))
    for name, hooks in vars(optimizer).items():
        if isinstance(hooks, OrderedDict):
            setattr(twin, name, OrderedDict())
    twin.state = defaultdict(dict)
    twin.param_groups = [
        {**_copied(group), "params": [_meta(p, id(p) in learning) for p in group["params"]]}
        for group in optimizer.param_groups
    ]
    return twin  # type: ignore[no-any-return] # made without its constructor


def _copied(group: Mapping[str, Any]) -> dict[str, Any]:
    return {name: copy.copy(value) for name, value in group.items() if name != "params"}


def _meta(parameter: Tensor, learns: bool) -> Tensor:
    twin = nn.Parameter(torch.empty_like(parameter, device="meta"), parameter.requires_grad)
    if learns:
        twin.grad = torch.empty_like(twin)
    return twin


def state_tensors(optimizer: Optimizer) -> list[Tensor]:
    """The tensors of the optimizer's state."""
    entries = (value for state in optimizer.state.values() for value in state.values())
    return [value for value in entries if isinstance(value, Tensor)]


def needs_copy(gradient: Tensor, slot: Slot, shared: bool) -> bool:
    """Whether a gradient must be copied before the optimizer may have it.

    As autograd does: a gradient has its memory for itself, laid out like its parameter.
    """
    whole = gradient.untyped_storage().nbytes() == gradient.numel() * gradient.element_size()
    return shared or not whole or gradient.stride() != slot.get().stride()
