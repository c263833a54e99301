# SPDX-License-Identifier: Apache-2.0
"""Problems as JSON text, read back exactly; what is malformed is named by its place."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import MISSING, asdict, fields
from typing import Any, TypeVar

from trainlet.errors import TrainletError
from trainlet.planning.problem import OpSpec, Overwrite, PagingCost, Problem, ValueSpec

_T = TypeVar("_T")


def problem_to_json(problem: Problem) -> str:
    """JSON text of a problem; every field is written."""
    return json.dumps(asdict(problem), indent=1, allow_nan=False)


def problem_from_json(text: str) -> Problem:
    """Read a problem.

    Raises:
        TrainletError: the text is no JSON, a field is missing, unknown or of the wrong kind, or
            the problem contradicts itself.
    """
    try:
        data = json.loads(text, parse_constant=_no_constant)
    except ValueError as error:
        raise TrainletError(f"the problem is no JSON: {error}") from error
    return _read(Problem, data, "the problem")


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is no number a problem may hold")


def _text(data: Any, where: str) -> str:
    if not isinstance(data, str):
        raise TrainletError(f"{where} is {data!r}; give a string")
    return data


def _number(data: Any, where: str) -> float:
    if isinstance(data, bool) or not isinstance(data, int | float):
        raise TrainletError(f"{where} is {data!r}; give a number")
    return data


def _whole(data: Any, where: str) -> int:
    if isinstance(data, bool) or not isinstance(data, int):
        raise TrainletError(f"{where} is {data!r}; give a whole number")
    return data


def _optional(reader: Callable[[Any, str], _T]) -> Callable[[Any, str], _T | None]:
    return lambda data, where: None if data is None else reader(data, where)


def _many(reader: Callable[[Any, str], _T]) -> Callable[[Any, str], tuple[_T, ...]]:
    def read(data: Any, where: str) -> tuple[_T, ...]:
        if not isinstance(data, list):
            raise TrainletError(f"{where} is {data!r}; give a list")
        return tuple(reader(item, f"{where}[{index}]") for index, item in enumerate(data))

    return read


def _object(kind: type[_T]) -> Callable[[Any, str], _T]:
    return lambda data, where: _read(kind, data, where)


_NAMES = _many(_text)
_RATES = {field.name: _number for field in fields(PagingCost)}
_READERS: dict[type, dict[str, Callable[[Any, str], Any]]] = {
    ValueSpec: {
        "name": _text,
        "bytes": _whole,
        "page_out_joules": _optional(_number),
        "page_in_joules": _optional(_number),
    },
    Overwrite: {"output": _text, "input": _text, "lag": _whole},
    PagingCost: dict(_RATES),
    OpSpec: {
        "name": _text,
        "inputs": _NAMES,
        "outputs": _NAMES,
        "scratch_bytes": _whole,
        "overwrites": _many(_object(Overwrite)),
        "seconds": _number,
        "joules": _number,
        "reads": _NAMES,
        "writes": _NAMES,
    },
    Problem: {
        "name": _text,
        "values": _many(_object(ValueSpec)),
        "ops": _many(_object(OpSpec)),
        "inputs": _NAMES,
        "outputs": _NAMES,
        "fixed_bytes": _whole,
        "alignment": _whole,
        "budget_bytes": _optional(_whole),
        "storage_bytes": _whole,
        "deadline_seconds": _optional(_number),
        "page_out": _object(PagingCost),
        "page_in": _object(PagingCost),
        "write_limit_bytes": _optional(_whole),
    },
}


_NEEDED: dict[type, list[str]] = {
    kind: [
        field.name
        for field in fields(kind)
        if field.default is MISSING and field.default_factory is MISSING
    ]
    for kind in (ValueSpec, Overwrite, PagingCost, OpSpec, Problem)
}


def _read(kind: type[_T], data: Any, where: str) -> _T:
    """A dataclass from a JSON object; fields with a default may be left out."""
    if not isinstance(data, dict):
        raise TrainletError(f"{where} is {data!r}; give an object")
    readers = _READERS[kind]
    unknown = [name for name in data if name not in readers]
    missing = [name for name in _NEEDED[kind] if name not in data]
    if unknown or missing:
        parts = [f"{where} has no field {name!r}" for name in missing]
        parts += [f"{where} has the unknown field {name!r}" for name in unknown]
        raise TrainletError("; ".join(parts))
    return kind(**{name: readers[name](item, f"{where}.{name}") for name, item in data.items()})
