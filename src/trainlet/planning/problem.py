# SPDX-License-Identifier: Apache-2.0
"""What a planner sees of one training step: values with bytes, operators with costs, limits.

A problem knows neither PyTorch nor C. The operators stand in one topological order; a plan may
repeat some of them, page values out and in, and free them, and must leave ``outputs`` behind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from trainlet.planning.problem_rules import problems_of


@dataclass(frozen=True)
class ValueSpec:
    """A value and its size in bytes; in the arena it takes up the next multiple of alignment.

    ``page_out_joules`` and ``page_in_joules``, where given, are what moving this value costs, in
    place of what the problem's rates say.
    """

    name: str
    bytes: int
    page_out_joules: float | None = None
    page_in_joules: float | None = None


@dataclass(frozen=True)
class Overwrite:
    """``output`` may share bytes with ``input`` where output address + lag <= input address.

    The operator promises that when it writes byte k of the output it will read no more byte of
    the input below k - lag. The input is destroyed, so it must be freed right after. ``lag`` is in
    bytes and a multiple of the problem's alignment.
    """

    output: str
    input: str
    lag: int


@dataclass(frozen=True)
class OpSpec:
    """One operator: what it reads and makes, its scratch bytes and its price.

    ``scratch_bytes`` live while the operator runs and no longer. ``reads`` and ``writes`` name
    state outside the arena (a weight, a running statistic): an operator that writes state runs
    exactly once, and one that reads it must see the version it sees in the problem's order.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    scratch_bytes: int = 0
    overwrites: tuple[Overwrite, ...] = ()
    seconds: float = 0.0
    joules: float = 0.0
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PagingCost:
    """Price of moving a value between arena and storage: latency plus a rate per byte."""

    latency_seconds: float = 0.0
    seconds_per_byte: float = 0.0
    latency_joules: float = 0.0
    joules_per_byte: float = 0.0

    def seconds(self, size: int) -> float:
        """Seconds to move ``size`` bytes."""
        return self.latency_seconds + self.seconds_per_byte * size

    def joules(self, size: int) -> float:
        """Joules to move ``size`` bytes."""
        return self.latency_joules + self.joules_per_byte * size


@dataclass(frozen=True)
class Problem:
    """A step to be planned; building one checks it and lists everything that is wrong at once.

    Args:
        name: the problem's name; a plan carries it.
        values: every value, in any order.
        ops: the operators in a topological order.
        inputs: values that exist, in the arena, before the first instruction (the image).
        outputs: values that must exist, in the arena, after the last one.
        fixed_bytes: RAM outside the arena that counts against the budget (weights that learn).
        alignment: bytes; every address is a multiple, every size is rounded up to a multiple.
        budget_bytes: RAM for arena and fixed bytes together; None is no limit.
        storage_bytes: capacity for paged-out values; 0 is no storage at all.
        deadline_seconds: limit for computing and paging together, one after the other.
        page_out: price of writing to storage.
        page_in: price of reading from storage.
        write_limit_bytes: limit on the bytes paged out in one step (wear); None is no limit.

    Raises:
        TrainletError: the description contradicts itself.
    """

    name: str
    values: tuple[ValueSpec, ...]
    ops: tuple[OpSpec, ...]
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    fixed_bytes: int = 0
    alignment: int = 8
    budget_bytes: int | None = None
    storage_bytes: int = 0
    deadline_seconds: float | None = None
    page_out: PagingCost = field(default_factory=PagingCost)
    page_in: PagingCost = field(default_factory=PagingCost)
    write_limit_bytes: int | None = None

    def __post_init__(self) -> None:
        error = problems_of(self)
        if error is not None:
            raise error

    @cached_property
    def value_by_name(self) -> dict[str, ValueSpec]:
        """Values by their names."""
        return {value.name: value for value in self.values}

    @cached_property
    def op_by_name(self) -> dict[str, OpSpec]:
        """Operators by their names."""
        return {op.name: op for op in self.ops}

    @cached_property
    def producer(self) -> dict[str, str]:
        """Value name -> name of the operator that makes it; inputs have none."""
        return {output: op.name for op in self.ops for output in op.outputs}

    def page_out_joules(self, value: str) -> float:
        """Joules to write a value to storage."""
        spec = self.value_by_name[value]
        own = spec.page_out_joules
        return self.page_out.joules(spec.bytes) if own is None else own

    def page_in_joules(self, value: str) -> float:
        """Joules to read a value from storage."""
        spec = self.value_by_name[value]
        own = spec.page_in_joules
        return self.page_in.joules(spec.bytes) if own is None else own

    def align(self, size: int) -> int:
        """``size`` rounded up to a multiple of the alignment."""
        return -(-size // self.alignment) * self.alignment

    def extent(self, value: str) -> int:
        """Bytes that a value takes up in the arena."""
        return self.align(self.value_by_name[value].bytes)
