# SPDX-License-Identifier: Apache-2.0
"""POET's instance files: what is read from them, and the one line for each that is malformed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainlet.errors import TrainletError
from trainlet.planning import (
    Compute,
    Free,
    PageIn,
    PageOut,
    Problem,
    ValueSpec,
    check,
    make_plan,
    problem_from_json,
    problem_to_json,
    read_poet_instance,
)
from trainlet.planning.planner import plan_of

# T, bytes without a plan, bytes of the biggest operator: shared/facts/poet.md, POET's own builder.
_KNOWN = {
    "linear": (27, 7_416, 3_256),
    "transformer": (19, 37_748_736, 31_457_280),
    "vgg16_cifar": (81, 2_465_832, 1_048_576),
    "vgg16": (81, 115_505_152, 51_380_224),
    "resnet18_cifar": (133, 2_453_760, 262_144),
    "resnet18": (127, 28_577_536, 10_408_192),
    "bert": (195, 383_778_816, 31_457_280),
    "resnet50": (335, 127_759_104, 12_390_400),
}


def instance() -> dict[str, Any]:
    """Two layers, a loss and two gradients, on one platform."""
    return {
        "name": "tiny",
        "nodes": [
            {"name": "in", "bytes": 30, "inputs": [], "backward": False},
            {"name": "loss", "bytes": 4, "inputs": [0], "backward": False},
            {"name": "grad", "bytes": 30, "inputs": [0, 1], "backward": True},
        ],
        "platforms": {
            "m4": {
                "compute_s": [0, 0.25, 0.5],
                "compute_j": [0, 1, 2],
                "page_in_j": [0.5, 0.25, 0.125],
                "page_out_j": [5, 4, 3],
            }
        },
    }


def written(folder: Path, data: object) -> Path:
    path = folder / "tiny.json"
    path.write_text(json.dumps(data))
    return path


def test_everything_is_taken_over(tmp_path: Path) -> None:
    problem = read_poet_instance(written(tmp_path, instance()), "m4", 70, 1.5)
    assert (problem.name, problem.budget_bytes, problem.alignment) == ("tiny-m4", 70, 1)
    assert problem.deadline_seconds == 1.5 * 0.75
    assert problem.values[0] == ValueSpec("in", 30, page_out_joules=5.0, page_in_joules=0.5)
    assert problem.op_by_name["grad"].inputs == ("in", "loss")
    assert (problem.op_by_name["loss"].seconds, problem.op_by_name["loss"].joules) == (0.25, 1.0)
    assert (problem.outputs, problem.inputs, problem.fixed_bytes) == ((), (), 0)
    assert problem_from_json(problem_to_json(problem)) == problem


def test_paging_costs_what_the_value_says_and_no_time(tmp_path: Path) -> None:
    problem = read_poet_instance(written(tmp_path, instance()), "m4", None, 1.0)
    listed = (
        Compute("in"), PageOut("in"), Compute("loss"), Free("in"), PageIn("in"), Compute("grad"),
        Free("in"), Free("loss"), Free("grad"),
    )  # fmt: skip
    plan = plan_of(problem, listed, "by hand")
    report = check(problem, plan)
    assert report.joules == plan.joules == 3 + 5 + 0.5
    assert report.seconds == problem.deadline_seconds


def test_no_limit_is_none(tmp_path: Path) -> None:
    data = instance() | {"fixed_bytes": 12}
    problem = read_poet_instance(written(tmp_path, data), "m4", None, None)
    assert problem.budget_bytes is problem.deadline_seconds is None
    assert problem.fixed_bytes == 12


def _set(*place: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        *path, last = place
        item: Any = data
        for step in path:
            item = item[step]
        item[last] = to

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_set("platforms", to={}), "platforms is no object"),
        (_set("nodes", to=[]), "nodes is no list of nodes"),
        (_set("name", to=3), "name is 3; give a string"),
        (_set("fixed_bytes", to=-1), "fixed_bytes is -1"),
        (_set("nodes", 0, to=7), r"nodes\[0\] is 7"),
        (_set("nodes", 1, "name", to="in"), "two nodes are called 'in'"),
        (_set("nodes", 1, "name", to="a b"), r"nodes\[1\].name is 'a b'"),
        (_set("nodes", 1, "bytes", to=-4), r"nodes\[1\].bytes is -4; give a whole number >= 0"),
        (_set("nodes", 1, "bytes", to=1.5), r"nodes\[1\].bytes is 1.5"),
        (_set("nodes", 1, "inputs", to=[3]), r"nodes\[1\].inputs is \[3\].*0 to 2"),
        (_set("nodes", 0, "inputs", to=[0]), "in a cycle: in -> in$"),
        (_set("nodes", 0, "inputs", to=[2]), "in a cycle: in -> grad -> in$|grad -> in -> grad$"),
        (_set("nodes", 1, "inputs", to=[2, 0]), "in a cycle: (loss -> grad|grad -> loss)"),
        (_set("platforms", "m4", "page_in_j", to=[1, 2]), "page_in_j of platform 'm4' is no list"),
        (_set("platforms", "m4", "compute_s", 1, to=-1), "is -1 for node 'loss'; give a finite"),
        (_set("platforms", "m4", "compute_j", 1, to=True), "is True for node 'loss'"),
        (_set("platforms", "m4", "compute_j", 1, to=float("nan")), "is no JSON: NaN"),
    ],
)
def test_what_is_wrong_is_one_line(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    data = instance()
    change(data)
    path = written(tmp_path, data)
    with pytest.raises(TrainletError, match=said) as caught:
        read_poet_instance(path, "m4", 70, 2.0)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_nodes_out_of_order_are_no_cycle(tmp_path: Path) -> None:
    data = instance()
    data["nodes"][0]["inputs"], data["nodes"][1]["inputs"] = [1], []
    data["nodes"][2]["inputs"] = [0, 1]
    with pytest.raises(TrainletError, match="'in' reads 'loss', which is listed after it"):
        read_poet_instance(written(tmp_path, data), "m4", 70, 2.0)


def test_a_missing_platform_names_those_there(tmp_path: Path) -> None:
    with pytest.raises(TrainletError, match=r"no platform 'm7'; there are m4$"):
        read_poet_instance(written(tmp_path, instance()), "m7", 70, 2.0)


@pytest.mark.parametrize(
    ("ram", "factor", "said"),
    [
        (-1, 2.0, "RAM budget is -1"),
        (70, 0.99, "under one pass"),
        (70, math.nan, "deadline is nan passes"),
    ],
)
def test_limits_that_make_no_sense(tmp_path: Path, ram: int, factor: float, said: str) -> None:
    with pytest.raises(TrainletError, match=said):
        read_poet_instance(written(tmp_path, instance()), "m4", ram, factor)


def test_files_that_are_no_instance(tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    with pytest.raises(TrainletError, match="cannot be read"):
        read_poet_instance(path, "m4", 70, 2.0)
    for text, said in (("{", "is no JSON"), ("[]", "no POET instance"), ("{}", "no field 'name'")):
        path.write_text(text)
        with pytest.raises(TrainletError, match=said):
            read_poet_instance(path, "m4", 70, 2.0)


def test_a_value_may_not_have_negative_joules() -> None:
    with pytest.raises(TrainletError, match="value 'a' has page_in_joules -1"):
        Problem("p", (ValueSpec("a", 1, None, -1.0),), (), ("a",))


@pytest.mark.parametrize("name", _KNOWN)
def test_bytes_are_those_of_poet(shared_dir: Path, name: str) -> None:
    path = shared_dir / "poet-instances" / f"{name}.json"
    problem = read_poet_instance(path, "a72", None, 2.0)
    count, peak, floor = _KNOWN[name]
    assert len(problem.ops) == count
    assert make_plan(problem).peak_bytes == peak
    working = (dict.fromkeys((*op.inputs, *op.outputs)) for op in problem.ops)
    assert max(sum(map(problem.extent, values)) for values in working) == floor
