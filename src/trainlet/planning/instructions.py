# SPDX-License-Identifier: Apache-2.0
"""The instruction list: compute, free, page out, page in, and compute again.

Each instruction does one thing and names one thing. *Compute again* is a ``Compute`` of an
operator that has run before; it needs no instruction of its own, and the text form writes it
``again`` so that a person sees it.

What each one means:

* ``Compute(op)``: every input is resident and intact; every output is not resident and becomes
  so. Scratch lives during this instruction alone.
* ``Free(value)``: the resident copy goes; a copy in storage stays.
* ``PageOut(value)``: a copy goes to storage and stays there until the step ends; the resident copy
  remains until it is freed. Values never change, so a value is paged out once at most.
* ``PageIn(value)``: a value that lies in storage and is not resident becomes resident.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trainlet.errors import TrainletError


@dataclass(frozen=True)
class Compute:
    """Run an operator."""

    op: str


@dataclass(frozen=True)
class Free:
    """Give up the resident copy of a value."""

    value: str


@dataclass(frozen=True)
class PageOut:
    """Copy a resident value to storage."""

    value: str


@dataclass(frozen=True)
class PageIn:
    """Bring a value back from storage."""

    value: str


Instruction = Compute | Free | PageOut | PageIn

_WORDS: dict[type[Instruction], str] = {
    Compute: "compute",
    Free: "free",
    PageOut: "page-out",
    PageIn: "page-in",
}
_TYPES: dict[str, type[Instruction]] = {word: kind for kind, word in _WORDS.items()}
_AGAIN = "again"


def target(instruction: Instruction) -> str:
    """The operator or value that an instruction names."""
    return instruction.op if isinstance(instruction, Compute) else instruction.value


def describe(instruction: Instruction) -> str:
    """One instruction as text, such as ``page-out conv1``."""
    return f"{_WORDS[type(instruction)]} {target(instruction)}"


def to_text(instructions: Iterable[Instruction]) -> str:
    """One instruction a line; an operator that runs anew is written ``again NAME``."""
    lines: list[str] = []
    ran: set[str] = set()
    for instruction in instructions:
        if isinstance(instruction, Compute):
            lines.append(f"{_AGAIN if instruction.op in ran else 'compute'} {instruction.op}")
            ran.add(instruction.op)
        else:
            lines.append(describe(instruction))
    return "".join(line + "\n" for line in lines)


def parse_text(text: str) -> tuple[Instruction, ...]:
    """Read what ``to_text`` wrote; blank lines are skipped.

    Raises:
        TrainletError: a line is no instruction, or ``again`` names an operator not yet run.
    """
    instructions: list[Instruction] = []
    ran: set[str] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words:
            continue
        if len(words) != 2 or (words[0] != _AGAIN and words[0] not in _TYPES):
            raise TrainletError(
                f"line {number} of the instruction list is {line.strip()!r}; "
                f"write one of {', '.join([*_TYPES, _AGAIN])} and one name"
            )
        word, name = words
        if word in (_AGAIN, "compute"):
            if (name in ran) != (word == _AGAIN):
                state = "has run already" if name in ran else "has not run yet"
                raise TrainletError(
                    f"line {number} of the instruction list says {word} {name}, which {state}"
                )
            ran.add(name)
            instructions.append(Compute(name))
        else:
            instructions.append(_TYPES[word](name))
    return tuple(instructions)


def to_data(instructions: Iterable[Instruction]) -> list[list[str]]:
    """JSON form: a list of ``[word, name]``."""
    return [[_WORDS[type(item)], target(item)] for item in instructions]


def from_data(data: object) -> tuple[Instruction, ...]:
    """Read what ``to_data`` wrote.

    Raises:
        TrainletError: an entry is no instruction.
    """
    if not isinstance(data, Sequence) or isinstance(data, str):
        raise TrainletError("the instructions are no list; give a list of [word, name]")
    return tuple(_one_from_data(index, entry) for index, entry in enumerate(data))


def _one_from_data(index: int, entry: object) -> Instruction:
    match entry:
        case [str(word), str(name)] if word in _TYPES:
            return _TYPES[word](name)
        case _:
            raise TrainletError(
                f"instruction {index} is {entry!r}; give [word, name] with a word of "
                f"{', '.join(_TYPES)}"
            )
