# SPDX-License-Identifier: Apache-2.0
"""What an operator is: its types, its shape rule, its cost, its reference and its kernel.

Every file of this room defines operators and registers each as an ``OpDef``;
capture, the passes, the plan and the emitter ask the registry and know no
operator by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from trainlet.errors import TrainletError
from trainlet.graph import DType, Graph, Op, Value
from trainlet.ops.weight_layout import WeightLayout

Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class RunState:
    """What changes from step to step beside the tensors."""

    learning_rate: float = 0.0
    head_learning_rate: float = 0.0
    seed: int = 0
    step: int = 0
    label: int = 0


# ---- how a kernel is called ------------------------------------------------


@dataclass(frozen=True)
class Pointer:
    """The address of a value, or NULL."""

    value: str | None
    ctype: str


@dataclass(frozen=True)
class Scratch:
    """The address of the operator's scratch memory."""

    ctype: str


@dataclass(frozen=True)
class Number:
    """A constant scalar; a float is written with all its bits."""

    value: int | float


@dataclass(frozen=True)
class Table:
    """A constant array in flash; ``None`` data is NULL."""

    ctype: str
    data: Sequence[int] | Sequence[float] | None


@dataclass(frozen=True)
class Struct:
    """A constant struct in flash, passed by address."""

    ctype: str
    fields: Mapping[str, int | float | Table | Pointer]


@dataclass(frozen=True)
class Label:
    """The label of the current image."""


@dataclass(frozen=True)
class LearningRate:
    """The run-time learning rate of the head or of the backbone."""

    head: bool


@dataclass(frozen=True)
class Sgd:
    """The run-time parameters of a scaled, stochastically rounded update."""

    scale: Pointer
    tensor: int


Argument = Pointer | Scratch | Number | Table | Struct | Label | LearningRate | Sgd


@dataclass(frozen=True)
class KernelCall:
    """One call of a C function: its arguments and the bytes of scratch it needs.

    ``result`` names a scalar output that the function returns.
    """

    function: str
    source: str
    arguments: tuple[Argument, ...]
    scratch_bytes: int = 0
    result: str | None = None


# ---- what an operator declares ----------------------------------------------


@dataclass(frozen=True)
class Overwrite:
    """The output may lie over this input if it starts ``lag`` bytes before it."""

    output: int
    input: int
    lag: int


ShapeRule = Callable[[Graph, Op], Sequence[tuple[int, ...]]]
Reference = Callable[..., "torch.Tensor | tuple[torch.Tensor, ...]"]


def _no_overwrite(_: Graph, __: Op) -> tuple[Overwrite, ...]:
    return ()


def _no_macs(_: Graph, __: Op) -> int:
    return 0


@dataclass(frozen=True)
class OpDef:
    """One operator kind.

    ``inputs`` and ``outputs`` are storage types in order; ``optional`` are the
    positions of inputs that may be absent.  ``reference(state, op, *tensors)``
    is the exact meaning on PyTorch tensors.  ``layouts`` says for each input
    that is a weight how the kernel wants it in memory.
    """

    kind: str
    inputs: tuple[DType, ...]
    outputs: tuple[DType, ...]
    shapes: ShapeRule
    reference: Reference
    kernel: Callable[[Graph, Op], KernelCall]
    optional: frozenset[int] = frozenset()
    macs: Callable[[Graph, Op], int] = _no_macs
    overwrites: Callable[[Graph, Op], tuple[Overwrite, ...]] = _no_overwrite
    layouts: Callable[[Graph, Op], Mapping[int, WeightLayout]] = field(default=lambda _, __: {})
    backward: bool = False


_REGISTRY: dict[str, OpDef] = {}


def register(definition: OpDef) -> OpDef:
    """Add an operator to the set; a kind can be defined once."""
    if definition.kind in _REGISTRY:
        raise ValueError(f"operator '{definition.kind}' is defined twice")
    _REGISTRY[definition.kind] = definition
    return definition


def definition(kind: str) -> OpDef:
    """The definition of an operator kind; ``TrainletError`` if there is none."""
    try:
        return _REGISTRY[kind]
    except KeyError:
        raise TrainletError(f"operator '{kind}' has no kernel") from None


def is_defined(kind: str) -> bool:
    """Whether the operator set has this kind."""
    return kind in _REGISTRY


def kinds() -> tuple[str, ...]:
    """Every operator kind, sorted."""
    return tuple(sorted(_REGISTRY))


def check_op(graph: Graph, op: Op) -> list[str]:
    """The operator set's rule for ``verify``: known kind, arity, types and shapes."""
    if not is_defined(op.kind):
        return []
    known = definition(op.kind)
    if len(op.inputs) != len(known.inputs) or len(op.outputs) != len(known.outputs):
        return [f"{op} has {len(op.inputs)} inputs and {len(op.outputs)} outputs"]
    problems = []
    for position, (value, dtype) in enumerate(zip(graph.inputs_of(op), known.inputs, strict=True)):
        if value is None and position not in known.optional:
            problems.append(f"{op} lacks its input {position}")
        elif value is not None and value.dtype is not dtype:
            problems.append(f"{op}: %{value.name} is {value.dtype.value}, not {dtype.value}")
    shapes = known.shapes(graph, op) if not problems else ()
    for value, dtype, shape in zip(graph.outputs_of(op), known.outputs, shapes, strict=False):
        if value.dtype is not dtype or value.shape != tuple(shape):
            problems.append(
                f"{op}: %{value.name} is {value.dtype.value}{list(value.shape)}, "
                f"by its rule {dtype.value}{list(shape)}"
            )
    return problems


def present(value: Value | None) -> Value:
    """The value of an input that the operator cannot do without."""
    assert value is not None
    return value
