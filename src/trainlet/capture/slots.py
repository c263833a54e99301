# SPDX-License-Identifier: Apache-2.0
"""The tensors that a model holds, found, replaced for a trace, and put back.

Parameters, buffers and plain tensor attributes of any submodule are *slots*; one tensor may sit
in several (tied weights).  During a trace every slot holds the tracer's tensor; afterwards the
model is as it was, and what its ``forward`` stored in the meantime is an error that names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from trainlet.errors import TrainletError


@dataclass(frozen=True)
class Slot:
    """One place that holds a tensor: ``module.attribute``, called ``name`` in the model."""

    module: nn.Module
    attribute: str
    name: str

    def get(self) -> Tensor:
        """The tensor that is there now."""
        tensor = self._table()[self.attribute]
        assert isinstance(tensor, Tensor)
        return tensor

    def put(self, tensor: Tensor) -> None:
        """Replace it without the checks of ``setattr``."""
        self._table()[self.attribute] = tensor

    def _table(self) -> dict[str, Any]:
        tables: tuple[dict[str, Any], ...]
        tables = (self.module._parameters, self.module._buffers, vars(self.module))
        return next(table for table in tables if self.attribute in table)


@dataclass(frozen=True)
class Held:
    """A tensor of the model and every slot that holds it; the first one names it."""

    tensor: Tensor
    slots: tuple[Slot, ...]

    @property
    def name(self) -> str:
        """Its name in the model."""
        return self.slots[0].name

    @property
    def learns(self) -> bool:
        """Whether it is a parameter that wants a gradient."""
        return self.tensor.requires_grad


def held_tensors(roots: Sequence[tuple[str, nn.Module]]) -> tuple[Held, ...]:
    """Every tensor of the named modules, parameters first, each once."""
    slots = [slot for prefix, root in roots for slot in _slots(prefix, root)]
    found: dict[int, list[Slot]] = {}
    for slot in slots:
        found.setdefault(id(slot.get()), []).append(slot)
    return tuple(Held(places[0].get(), tuple(places)) for places in found.values())


def _slots(prefix: str, root: nn.Module) -> Iterator[Slot]:
    modules = [(_join(prefix, path), module) for path, module in root.named_modules()]
    for kind in ("_parameters", "_buffers", ""):
        for path, module in modules:
            table = getattr(module, kind) if kind else vars(module)
            for attribute, tensor in table.items():
                if isinstance(tensor, Tensor):
                    yield Slot(module, attribute, _join(path, attribute))


def _join(path: str, name: str) -> str:
    return ".".join(part for part in (path, name) if part)


@contextmanager
def replaced(
    roots: Sequence[tuple[str, nn.Module]], held: Sequence[Held], tensors: Sequence[Tensor]
) -> Iterator[None]:
    """Within the context the slots hold ``tensors``; afterwards what they held before.

    Raises:
        TrainletError: in the meantime the model put another tensor into a slot, or a new one
            into an attribute that held none.
    """
    for one, tensor in zip(held, tensors, strict=True):
        for slot in one.slots:
            slot.put(tensor)
    try:
        yield
        _refuse_stored(roots, held, tensors)
    finally:
        known = {(id(slot.module), slot.attribute) for one in held for slot in one.slots}
        for slot in [slot for prefix, root in roots for slot in _slots(prefix, root)]:
            if (id(slot.module), slot.attribute) not in known:
                del slot._table()[slot.attribute]
        for one in held:
            for slot in one.slots:
                slot.put(one.tensor)


def _refuse_stored(
    roots: Sequence[tuple[str, nn.Module]], held: Sequence[Held], tensors: Sequence[Tensor]
) -> None:
    expected = {
        (id(slot.module), slot.attribute): tensor
        for one, tensor in zip(held, tensors, strict=True)
        for slot in one.slots
    }
    for prefix, root in roots:
        for slot in _slots(prefix, root):
            tensor = expected.get((id(slot.module), slot.attribute))
            if tensor is not slot.get():
                raise TrainletError(
                    f"the model cannot be captured: its forward assigns a tensor to "
                    f"'{slot.name}'; change a buffer in place (copy_, add_) and keep nothing else"
                )
