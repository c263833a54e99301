# SPDX-License-Identifier: Apache-2.0
"""POET's problem instances: one network as POET's own cost model describes it, for one platform.

The file is a JSON object: ``name``; ``nodes``, each with ``name``, ``bytes`` and ``inputs`` (the
places of earlier nodes); ``platforms``, each with one number for every node in ``compute_s``,
``compute_j``, ``page_in_j`` and ``page_out_j``; and, where there is any, ``fixed_bytes``.

What the problem takes over from POET (S. G. Patil et al., "POET: Training Neural Networks on Tiny
Devices with Integrated Rematerialization and Paging", ICML 2022): a node makes one value, all its
inputs are resident while it runs, sizes are summed without alignment, nothing needs to be there at
the end, every node but none of the parameters counts, storage has room for everything, paging
costs joules and no seconds, and the deadline is a multiple of one pass of computing. The input is
a node like any other: computing it again costs what the file says, which is nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainlet.errors import TrainletError
from trainlet.planning.problem import OpSpec, Problem, ValueSpec

_COSTS = ("compute_s", "compute_j", "page_in_j", "page_out_j")


@dataclass(frozen=True)
class _Node:
    name: str
    bytes: int
    inputs: tuple[int, ...]


def read_poet_instance(
    path: Path | str, platform: str, ram_bytes: int | None, deadline_factor: float | None
) -> Problem:
    """The planning problem of an instance on one of its platforms.

    Args:
        path: the file.
        platform: one of the file's platforms: ``m0``, ``m4``, ``a72``, ``a72nocache``.
        ram_bytes: the budget for activations; None is no limit.
        deadline_factor: the deadline as a multiple of one pass of computing; None is no deadline.

    Raises:
        TrainletError: the file cannot be read, is malformed, cyclic, lacks the platform, or holds
            a negative number or none; or a limit makes no sense.
    """
    name = str(path)
    data = _load(Path(path))
    nodes = _nodes(name, data)
    costs = _costs(name, data, platform, nodes)
    one_pass = math.fsum(costs["compute_s"])
    fixed = data.get("fixed_bytes", 0)
    if not _is_count(fixed):
        raise TrainletError(f"{name}: fixed_bytes is {fixed!r}; give a whole number >= 0")
    return Problem(
        name=f"{data['name']}-{platform}",
        values=tuple(_value(index, node, costs) for index, node in enumerate(nodes)),
        ops=tuple(_op(index, node, nodes, costs) for index, node in enumerate(nodes)),
        fixed_bytes=fixed,
        alignment=1,
        budget_bytes=_budget(ram_bytes),
        storage_bytes=sum(node.bytes for node in nodes),
        deadline_seconds=_deadline(deadline_factor, one_pass),
    )


def _value(index: int, node: _Node, costs: Mapping[str, Sequence[float]]) -> ValueSpec:
    return ValueSpec(node.name, node.bytes, costs["page_out_j"][index], costs["page_in_j"][index])


def _op(
    index: int, node: _Node, nodes: Sequence[_Node], costs: Mapping[str, Sequence[float]]
) -> OpSpec:
    return OpSpec(
        name=node.name,
        inputs=tuple(nodes[source].name for source in node.inputs),
        outputs=(node.name,),
        seconds=costs["compute_s"][index],
        joules=costs["compute_j"][index],
    )


def _budget(ram_bytes: int | None) -> int | None:
    if ram_bytes is not None and not _is_count(ram_bytes):
        raise TrainletError(f"the RAM budget is {ram_bytes!r}; give a whole number of bytes >= 0")
    return ram_bytes


def _deadline(factor: float | None, one_pass: float) -> float | None:
    if factor is None:
        return None
    if not _is_number(factor):
        raise TrainletError(f"the deadline is {factor!r} passes; give a finite number >= 1")
    if factor < 1:
        raise TrainletError(
            f"the deadline of {factor:g} passes is under one pass of computing; give 1 or more"
        )
    return factor * one_pass


def _load(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
    except OSError as error:
        raise TrainletError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:  # JSON and UTF-8 errors are both of this kind
        raise TrainletError(f"{path} is no JSON: {error}") from error
    if not isinstance(data, dict):
        raise TrainletError(f"{path} is no POET instance: give an object with nodes and platforms")
    missing = [field for field in ("name", "nodes", "platforms") if field not in data]
    if missing:
        raise TrainletError(f"{path} is no POET instance: it has no field {missing[0]!r}")
    if not isinstance(data["name"], str) or not data["name"]:
        raise TrainletError(f"{path}: name is {data['name']!r}; give a string")
    return data


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is no number an instance may hold")


def _nodes(path: str, data: Mapping[str, Any]) -> list[_Node]:
    listed = data["nodes"]
    if not isinstance(listed, list) or not listed:
        raise TrainletError(f"{path}: nodes is no list of nodes; give one or more")
    nodes = [_node(path, index, item, len(listed)) for index, item in enumerate(listed)]
    seen: set[str] = set()
    for node in nodes:
        if node.name in seen:
            raise TrainletError(f"{path}: two nodes are called {node.name!r}; give each a name")
        seen.add(node.name)
    _refuse_disorder(path, nodes)
    return nodes


def _node(path: str, index: int, item: Any, count: int) -> _Node:
    where = f"{path}: nodes[{index}]"
    if not isinstance(item, dict):
        raise TrainletError(f"{where} is {item!r}; give an object with name, bytes and inputs")
    for field in ("name", "bytes", "inputs"):
        if field not in item:
            raise TrainletError(f"{where} has no field {field!r}")
    name, size, inputs = item["name"], item["bytes"], item["inputs"]
    if not isinstance(name, str) or not name or "#" in name or any(map(str.isspace, name)):
        raise TrainletError(f"{where}.name is {name!r}; give a string without blanks and '#'")
    if not _is_count(size):
        raise TrainletError(f"{where}.bytes is {size!r}; give a whole number >= 0")
    if not isinstance(inputs, list) or not all(_is_count(i) and i < count for i in inputs):
        raise TrainletError(
            f"{where}.inputs is {inputs!r}; give a list of places of nodes, 0 to {count - 1}"
        )
    return _Node(name, size, tuple(inputs))


def _refuse_disorder(path: str, nodes: Sequence[_Node]) -> None:
    """Every node reads earlier ones; what does not is a cycle or a wrong order."""
    late = [
        (index, source)
        for index, node in enumerate(nodes)
        for source in node.inputs
        if source >= index
    ]
    if not late:
        return
    cycle = _cycle(nodes)
    if cycle:
        names = " -> ".join(nodes[index].name for index in [*cycle, cycle[0]])
        raise TrainletError(f"{path}: nodes depend on one another in a cycle: {names}")
    index, source = late[0]
    raise TrainletError(
        f"{path}: node {nodes[index].name!r} reads {nodes[source].name!r}, which is listed after "
        "it; list the nodes in an order in which they can run"
    )


def _cycle(nodes: Sequence[_Node]) -> list[int]:
    """The places of nodes on one cycle, each read by the next; empty where there is none."""
    left = set(range(len(nodes)))
    while True:
        ready = {i for i in left if not any(source in left for source in nodes[i].inputs)}
        if not ready:
            break
        left -= ready
    if not left:
        return []
    walk = [min(left)]  # everything left reads something left: going back must meet itself
    while len(set(walk)) == len(walk):
        walk.append(min(source for source in nodes[walk[-1]].inputs if source in left))
    return walk[walk.index(walk[-1]) + 1 :][::-1]


def _costs(
    path: str, data: Mapping[str, Any], platform: str, nodes: Sequence[_Node]
) -> dict[str, list[float]]:
    platforms = data["platforms"]
    if not isinstance(platforms, dict) or not platforms:
        raise TrainletError(f"{path}: platforms is no object with a platform or more")
    if platform not in platforms:
        raise TrainletError(
            f"{path} has no platform {platform!r}; there are {', '.join(platforms)}"
        )
    table = platforms[platform]
    if not isinstance(table, dict):
        raise TrainletError(f"{path}: platform {platform!r} is no object with costs")
    return {kind: _row(path, platform, kind, table.get(kind), nodes) for kind in _COSTS}


def _row(path: str, platform: str, kind: str, row: Any, nodes: Sequence[_Node]) -> list[float]:
    where = f"{path}: {kind} of platform {platform!r}"
    if not isinstance(row, list) or len(row) != len(nodes):
        raise TrainletError(f"{where} is no list of {len(nodes)} numbers, one for each node")
    for node, number in zip(nodes, row, strict=True):
        if not _is_number(number) or number < 0:
            raise TrainletError(
                f"{where} is {number!r} for node {node.name!r}; give a finite number >= 0"
            )
    return [float(number) for number in row]


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


def _is_number(number: object) -> bool:
    if isinstance(number, bool) or not isinstance(number, int | float):
        return False
    return math.isfinite(number)
