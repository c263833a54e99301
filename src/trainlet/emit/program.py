# SPDX-License-Identifier: Apache-2.0
"""Everything the emitter prints: two graphs over one arena, their data, and who learns where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from trainlet.emit.literals import identifier
from trainlet.graph import Graph, Role, Value
from trainlet.ops import definition
from trainlet.ops.overlap import align
from trainlet.ops.weight_layout import WeightLayout, apply_layout
from trainlet.planning import Plan, Problem


@dataclass(frozen=True)
class Planned:
    """A graph in its final order with the problem and the plan made of it."""

    graph: Graph
    problem: Problem
    plan: Plan


@dataclass(frozen=True)
class Program:
    """One training step and its inference, ready to be written as C.

    ``input_shape`` is channels, rows, columns; real = input_scale * (integer - input_zero).
    """

    name: str
    step: Planned
    inference: Planned
    tensors: Mapping[str, npt.NDArray[np.generic]]
    input_shape: tuple[int, int, int]
    input_scale: float
    input_zero: int
    classes: int

    @cached_property
    def layouts(self) -> dict[str, WeightLayout]:
        """How each weight lies in memory; its readers must want the same."""
        found: dict[str, WeightLayout] = {}
        graph = self.step.graph
        for op in graph.ops:
            for position, layout in definition(op.kind).layouts(graph, op).items():
                name = op.inputs[position]
                if name is not None and found.setdefault(name, layout) != layout:
                    raise AssertionError(f"{op} wants %{name} as {layout}, not {found[name]}")
        return found

    @cached_property
    def constant_names(self) -> dict[str, str]:
        """Every constant's name in C without the prefix; those that would be equal are numbered."""
        names: dict[str, str] = {}
        taken = {"initial"}
        for value in self.step.graph.with_role(Role.CONSTANT):
            plain = unique = identifier(value.name)
            count = 1
            while unique in taken:
                count += 1
                unique = f"{plain}_{count}"
            taken.add(unique)
            names[value.name] = unique
        return names

    def stored_bytes(self, value: Value) -> int:
        """Bytes of a constant or parameter in its kernel's layout."""
        layout = self.layouts.get(value.name)
        return value.bytes if layout is None else layout.bytes(value.shape)

    def stored(self, value: Value) -> npt.NDArray[np.generic]:
        """The data of a constant or parameter, one-dimensional, in its kernel's layout."""
        data, layout = self.tensors[value.name], self.layouts.get(value.name)
        if layout is None:
            return data.reshape(-1)
        return apply_layout(layout, data)

    @cached_property
    def trainable_offsets(self) -> dict[str, int]:
        """Offset of every parameter in the block of everything that learns."""
        offsets, at = {}, 0
        for value in self.step.graph.with_role(Role.PARAMETER):
            offsets[value.name] = at
            at = align(at + self.stored_bytes(value))
        return offsets

    @property
    def trainable_bytes(self) -> int:
        """Bytes of everything that learns, alignment included."""
        values = self.step.graph.with_role(Role.PARAMETER)
        return align(sum(align(self.stored_bytes(value)) for value in values))

    @property
    def arena_bytes(self) -> int:
        """Bytes of the arena that both graphs share."""
        return max(self.step.plan.arena_bytes, self.inference.plan.arena_bytes)
