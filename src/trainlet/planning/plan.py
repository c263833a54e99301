# SPDX-License-Identifier: Apache-2.0
"""A plan: the instruction list, an address for every copy of a value, and what it claims to cost.

A value that is paged in or computed again lives in the arena several times, one *copy* after
another, and each copy has an address of its own. Copies and scratch are named by keys:

* ``x``: the first copy of the value x; ``x#1``, ``x#2``: the later ones;
* ``conv#scratch``: the scratch of operator conv in its first run; ``conv#scratch1`` in its second.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from trainlet.errors import TrainletError
from trainlet.planning.instructions import (
    Compute,
    Free,
    Instruction,
    PageIn,
    PageOut,
    from_data,
    to_data,
)
from trainlet.planning.problem import Problem


def copy_key(value: str, copy: int) -> str:
    """Key of a value's copy, counted from 0."""
    return f"{value}#{copy}" if copy else value


def scratch_key(op: str, run: int) -> str:
    """Key of the scratch of an operator's run, counted from 0."""
    return f"{op}#scratch{run or ''}"


@dataclass(frozen=True)
class Overlap:
    """At this instruction the output's copy is written over bytes of the input's copy."""

    instruction: int
    output: str
    input: str
    lag: int


@dataclass(frozen=True)
class Operands:
    """One run of an operator with its arena offsets: what an emitter needs for one call."""

    instruction: int
    op: str
    addresses: Mapping[str, int]  # value name -> offset, for inputs and outputs
    scratch: int | None  # offset, or None where the operator has no scratch


@dataclass(frozen=True)
class Plan:
    """When everything happens, where everything lies, and the claims that the checker replays.

    Attributes:
        instructions: the list.
        addresses: key of a copy or a scratch -> offset in the arena, in bytes.
        overlaps: every place where an output is written over an input; no other bytes are shared.
        arena_bytes: size of the arena: the highest end of a placed copy.
        lower_bound_bytes: largest sum of live bytes at any instruction, each operator using the
            permitted overlaps that save most; no placement needs less.
        peak_bytes: fixed bytes + most arena bytes occupied at any instruction.
        seconds: computing and paging, one after the other.
        joules: computing and paging.
        paged_out_bytes: bytes written to storage.
    """

    problem_name: str
    method: str
    instructions: tuple[Instruction, ...]
    addresses: Mapping[str, int]
    overlaps: tuple[Overlap, ...]
    arena_bytes: int
    lower_bound_bytes: int
    peak_bytes: int
    seconds: float
    joules: float
    paged_out_bytes: int

    def operands(self, problem: Problem) -> Iterator[Operands]:
        """The offsets of each operator run, in the order of the list."""
        copies = Counter(problem.inputs)
        runs: Counter[str] = Counter()
        for index, instruction in enumerate(self.instructions):
            match instruction:
                case Compute(name):
                    op = problem.op_by_name[name]
                    copies.update(op.outputs)
                    used = dict.fromkeys((*op.inputs, *op.outputs))
                    at = {value: self._copy_address(value, copies[value] - 1) for value in used}
                    key = scratch_key(name, runs[name])
                    scratch = self.addresses[key] if op.scratch_bytes else None
                    runs[name] += 1
                    yield Operands(index, name, at, scratch)
                case PageIn(value):
                    copies[value] += 1
                case Free() | PageOut():
                    pass

    def _copy_address(self, value: str, copy: int) -> int:
        return self.addresses[copy_key(value, copy)]

    def to_json(self) -> str:
        """JSON text that ``from_json`` reads back exactly."""
        data = {field: getattr(self, field) for field in _CLAIMS}
        data["instructions"] = to_data(self.instructions)
        data["addresses"] = dict(self.addresses)
        data["overlaps"] = [asdict(overlap) for overlap in self.overlaps]
        return json.dumps(data, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Read a plan; nothing is checked but its form.

        Raises:
            TrainletError: the text is no plan.
        """
        try:
            data: Any = json.loads(text)
            claims = {field: _typed(field, data[field], kind) for field, kind in _CLAIMS.items()}
            overlaps = tuple(
                Overlap(
                    **{field: _typed(field, o[field], kind) for field, kind in _OVERLAP.items()}
                )
                for o in data["overlaps"]
            )
            addresses = {key: _typed(key, at, int) for key, at in data["addresses"].items()}
            instructions = from_data(data["instructions"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise TrainletError(f"this is no plan: {type(error).__name__}: {error}") from error
        return cls(instructions=instructions, addresses=addresses, overlaps=overlaps, **claims)


_CLAIMS: dict[str, type] = {
    "problem_name": str,
    "method": str,
    "arena_bytes": int,
    "lower_bound_bytes": int,
    "peak_bytes": int,
    "seconds": float,
    "joules": float,
    "paged_out_bytes": int,
}


_OVERLAP: dict[str, type] = {"instruction": int, "output": str, "input": str, "lag": int}


def _typed(field: str, value: object, kind: type) -> Any:
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise TypeError(f"{field} is {value!r}, not of type {kind.__name__}")
    return value
