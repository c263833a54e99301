# SPDX-License-Identifier: Apache-2.0
"""Who lives when: residency intervals of every copy, live bytes, and the lower bound of an arena.

**How overlaps are chosen.** A run of an operator may write an output over an input where the
operator declares it *and* the list frees the input in the unbroken row of frees right after that
run. Where they share as many bytes as the lag permits, the two take up
``max(lag + input, output)`` bytes instead of the sum. Each input and each output takes part in
one overlap at most; of all such choices the one that saves most bytes is taken, the one declared
first where several save the same. An overlap that saves nothing is not taken.

The choice is a permission: the address search uses it or places the two apart. The plan records
those that are used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from trainlet.errors import TrainletError
from trainlet.planning.instructions import Compute, Free, Instruction, PageIn, PageOut, describe
from trainlet.planning.plan import copy_key, scratch_key
from trainlet.planning.problem import OpSpec, Problem


@dataclass(frozen=True)
class Residency:
    """A copy of a value, or a scratch, in the arena from instruction ``start`` until ``end``.

    The problem's inputs start at -1, before the first instruction. ``end`` is exclusive: the index
    of the ``Free``, or the length of the list for what is left at the end. ``extent`` is in bytes,
    a multiple of the alignment.
    """

    key: str
    name: str  # the value, or the operator whose scratch it is
    start: int
    end: int
    extent: int
    is_scratch: bool = False


@dataclass(frozen=True)
class Permit:
    """The output's residency may start lag bytes or more below the input's, sharing bytes."""

    instruction: int
    output: int  # index into Lifetimes.residencies
    input: int
    lag: int
    saved_bytes: int


@dataclass(frozen=True)
class Lifetimes:
    """Every residency in order of its start, the chosen overlaps, and the bytes they add up to."""

    residencies: tuple[Residency, ...]
    permits: tuple[Permit, ...]
    start_bytes: int  # the problem's inputs, before the first instruction
    live_bytes: tuple[int, ...]  # per instruction, overlaps at their best

    @property
    def lower_bound_bytes(self) -> int:
        """The most bytes alive at any time; no arena is smaller."""
        return max((self.start_bytes, *self.live_bytes))

    @property
    def peak(self) -> int:
        """The first instruction with the most live bytes; -1 where that is before the first."""
        if self.start_bytes == self.lower_bound_bytes:
            return -1
        return self.live_bytes.index(self.lower_bound_bytes)


def lifetimes_of(problem: Problem, instructions: tuple[Instruction, ...]) -> Lifetimes:
    """Follow the list and note when every copy comes and goes.

    Raises:
        TrainletError: the list frees, reads or pages what is not there, or makes what is.
    """
    walk = _Walk(problem, instructions)
    walk.follow()
    saved = [permit.saved_bytes for permit in walk.permits]
    start, *live = bytes_over_time(walk.residencies, walk.permits, saved, len(instructions))
    return Lifetimes(tuple(walk.residencies), tuple(walk.permits), start, tuple(live))


def bytes_over_time(
    residencies: Sequence[Residency], permits: Sequence[Permit], shared: Sequence[int], length: int
) -> list[int]:
    """Bytes before the first instruction and at each one, where permits share so many bytes.

    A ``Free`` counts as done; a ``Compute`` counts its scratch.
    """
    change = [0] * (length + 2)
    for residency in residencies:
        change[residency.start + 1] += residency.extent
        change[residency.end + 1] -= residency.extent
    for permit, saved in zip(permits, shared, strict=True):
        change[permit.instruction + 1] -= saved
        change[residencies[permit.input].end + 1] += saved
    return list(accumulate(change[: length + 1]))


@dataclass
class _Walk:
    problem: Problem
    instructions: tuple[Instruction, ...]
    residencies: list[Residency] = field(default_factory=list)
    permits: list[Permit] = field(default_factory=list)
    resident: dict[str, int] = field(default_factory=dict)
    copies: Counter[str] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)
    stored: set[str] = field(default_factory=set)

    def follow(self) -> None:
        for name in self.problem.inputs:
            self._appear(-1, name)
        for index, instruction in enumerate(self.instructions):
            try:
                self._step(index, instruction)
            except KeyError as error:
                raise TrainletError(
                    f"instruction {index} ({describe(instruction)}) needs {error.args[0]!r}, "
                    "which is not there"
                ) from error

    def _step(self, index: int, instruction: Instruction) -> None:
        match instruction:
            case Compute(name):
                self._compute(index, self.problem.op_by_name[name])
            case Free(value):
                self._vanish(index, value)
            case PageOut(value):
                _ = self.resident[value]
                self.stored.add(value)
            case PageIn(value):
                if value not in self.stored:
                    raise KeyError(value)
                self._appear(index, value)

    def _compute(self, index: int, op: OpSpec) -> None:
        sources = {name: self.resident[name] for name in op.inputs}
        for output in op.outputs:
            self._appear(index, output)
        if op.scratch_bytes:
            key = scratch_key(op.name, self.runs[op.name])
            extent = self.problem.align(op.scratch_bytes)
            self.residencies.append(Residency(key, op.name, index, index + 1, extent, True))
        self.runs[op.name] += 1
        if op.overwrites:
            dying = freed_right_after(self.instructions, index)
            for output, source, lag, saved in best_overlaps(self.problem, op, dying):
                permit = Permit(index, self.resident[output], sources[source], lag, saved)
                self.permits.append(permit)

    def _appear(self, index: int, value: str) -> None:
        if value in self.resident:
            raise TrainletError(f"instruction {index} makes {value!r}, which is resident already")
        key = copy_key(value, self.copies[value])
        self.copies[value] += 1
        self.resident[value] = len(self.residencies)
        extent = self.problem.extent(value)
        self.residencies.append(Residency(key, value, index, len(self.instructions), extent))

    def _vanish(self, index: int, value: str) -> None:
        slot = self.resident.pop(value)
        old = self.residencies[slot]
        self.residencies[slot] = Residency(old.key, old.name, old.start, index, old.extent)


def freed_right_after(instructions: tuple[Instruction, ...], index: int) -> set[str]:
    """Values freed in the unbroken row of frees that follows an instruction."""
    freed: set[str] = set()
    for instruction in instructions[index + 1 :]:
        if not isinstance(instruction, Free):
            break
        freed.add(instruction.value)
    return freed


def best_overlaps(problem: Problem, op: OpSpec, dying: set[str]) -> list[tuple[str, str, int, int]]:
    """The overlaps that save most: (output, input, lag, saved bytes) each."""
    choices: dict[str, list[tuple[str, int, int]]] = {}
    for overwrite in op.overwrites:
        output, source = problem.extent(overwrite.output), problem.extent(overwrite.input)
        saved = output + source - max(overwrite.lag + source, output)
        if overwrite.input in dying and saved > 0:
            choices.setdefault(overwrite.output, []).append((overwrite.input, overwrite.lag, saved))
    return _match(list(choices.items()), frozenset())[1]


def _match(
    choices: list[tuple[str, list[tuple[str, int, int]]]], taken: frozenset[str]
) -> tuple[int, list[tuple[str, str, int, int]]]:
    """Best assignment of outputs to distinct inputs, by trying all (operators are small)."""
    if not choices:
        return 0, []
    (output, candidates), rest = choices[0], choices[1:]
    free = [candidate for candidate in candidates if candidate[0] not in taken]
    options = []
    for source, lag, saved in free:
        total, tail = _match(rest, taken | {source})
        options.append((total + saved, [(output, source, lag, saved), *tail]))
    wanted = {source for _, others in rest for source, _, _ in others}
    if not free or any(source in wanted for source, _, _ in free):
        options.append(_match(rest, taken))
    return max(options, key=lambda option: option[0])  # the first of equals
