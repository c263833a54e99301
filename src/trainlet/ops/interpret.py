# SPDX-License-Identifier: Apache-2.0
"""Run a graph on PyTorch tensors, operator by operator, through the exact references.

The passes' tests use it (a pass must not change what comes out), and the tests
of the emitted C (the device must compute the same).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trainlet.graph import DType, Graph
from trainlet.ops.base import RunState, definition


def interpret(
    graph: Graph,
    tensors: Mapping[str, npt.NDArray[np.generic]],
    inputs: Mapping[str, Tensor],
    state: RunState,
) -> dict[str, Tensor]:
    """Every value of the graph by name.

    ``tensors`` holds constants and parameters in their storage types, ``inputs``
    the image [1, C, H, W] (integers in float32) and the label [1] (int64).
    """
    values: dict[str, Tensor] = dict(inputs)
    for name, data in tensors.items():
        dtype = graph.values[name].dtype if name in graph.values else None
        values[name] = torch.from_numpy(np.array(data)).to(_working_type(dtype))
    for op in graph.ops:
        arguments = [None if name is None else values[name] for name in op.inputs]
        made = definition(op.kind).reference(state, op, *arguments)
        outputs = made if isinstance(made, tuple) else (made,)
        values.update(zip(op.outputs, outputs, strict=True))
    return values


def _working_type(dtype: DType | None) -> torch.dtype:
    """The type in which the references hold a stored value."""
    return torch.float64 if dtype is DType.I32 else torch.float32
