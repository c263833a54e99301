# SPDX-License-Identifier: Apache-2.0
"""Bad problems are refused with every fault named at once; good ones survive JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from planning_problems import chain, training_step

from trainlet.errors import TrainletError
from trainlet.planning import (
    OpSpec,
    Overwrite,
    PagingCost,
    Problem,
    ValueSpec,
    problem_from_json,
    problem_to_json,
)


def refused(*expected: str, **changes: Any) -> None:
    with pytest.raises(TrainletError) as caught:
        replace(training_step(), **changes)
    for text in expected:
        assert text in str(caught.value)


def ops_with(**changes: Any) -> tuple[OpSpec, ...]:
    ops = training_step().ops
    return (replace(ops[0], **changes), *ops[1:])


def test_unknown_names() -> None:
    refused("'ghost', which does not exist", ops=ops_with(inputs=("ghost",), overwrites=()))
    refused("output 'ghost' of the problem", outputs=("ghost",))
    refused("input 'ghost' of the problem", inputs=("image", "ghost"))


def test_value_produced_twice_or_never() -> None:
    refused("'a' is produced 2 times", inputs=("image", "a"))
    refused("'lost' is produced by no operator", values=(*training_step().values, _lost()))
    refused("value 'a' is listed 2 times", values=(*training_step().values, ValueSpec("a", 8)))


def _lost() -> ValueSpec:
    return ValueSpec("lost", 8)


def test_use_before_production_and_cycles() -> None:
    first, second, *rest = training_step().ops
    refused("operator 'conv2' uses 'a' before operator 'conv1'", ops=(second, first, *rest))
    values = (ValueSpec("x", 8), ValueSpec("y", 8), ValueSpec("z", 8))
    ops = (OpSpec("f", ("y",), ("x",)), OpSpec("g", ("x",), ("y",)), OpSpec("h", ("y",), ("z",)))
    with pytest.raises(TrainletError, match=r"in a cycle: 'f', 'g'$"):
        Problem("loop", values, ops)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf"), "1", True])
def test_bad_costs(bad: Any) -> None:
    refused("operator 'conv1' has seconds", ops=ops_with(seconds=bad))
    refused("operator 'conv1' has joules", ops=ops_with(joules=bad))
    refused("deadline_seconds", deadline_seconds=bad)
    refused("page_out.joules_per_byte", page_out=PagingCost(0, 0, 0, bad))


@pytest.mark.parametrize("bad", [-1, 1.5, True, "8"])
def test_bad_byte_counts(bad: Any) -> None:
    for limit in ("fixed_bytes", "storage_bytes", "budget_bytes", "write_limit_bytes"):
        refused(f"{limit} is {bad!r}", **{limit: bad})
    refused("alignment is", alignment=bad)
    refused("bytes of scratch", ops=ops_with(scratch_bytes=bad))
    refused("value 'image' has", values=(ValueSpec("image", bad), *training_step().values[1:]))


def test_bad_overwrites() -> None:
    refused("give a multiple of the alignment, 8", ops=ops_with(overwrites=(_over("a", 12),)))
    refused("lag -8", ops=ops_with(overwrites=(_over("a", -8),)))
    refused("'b' is no output of it", ops=ops_with(overwrites=(_over("b", 0),)))
    refused("'image' 2 times", ops=ops_with(overwrites=(_over("a", 0), _over("a", 8))))
    refused("alignment is 0", alignment=0)


def _over(output: str, lag: int) -> Overwrite:
    return Overwrite(output, "image", lag)


def test_names_that_text_could_not_hold() -> None:
    for name in ("", "a b", "x#1"):
        with pytest.raises(TrainletError, match="is empty or holds a blank"):
            Problem("p", (ValueSpec(name, 8),), (), (name,), (name,))


def test_everything_wrong_is_said_at_once() -> None:
    refused(
        "'ghost'", "alignment is 0", "fixed_bytes is -1", "'conv1' has seconds nan",
        alignment=0, fixed_bytes=-1, outputs=("ghost",), ops=ops_with(seconds=float("nan")),
    )  # fmt: skip


def test_json_round_trip_is_exact() -> None:
    problem = training_step(budget_bytes=4096, deadline_seconds=0.1 + 0.2, write_limit_bytes=9)
    assert problem_from_json(problem_to_json(problem)) == problem
    assert problem_from_json('{"name": "empty", "values": [], "ops": []}').alignment == 8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"surprise": 1}, "unknown field 'surprise'"),
        ({"values": 3}, "the problem.values is 3; give a list"),
        ({"values": [{"name": "x"}]}, r"the problem.values\[0\] has no field 'bytes'"),
        ({"alignment": "8"}, "the problem.alignment is '8'; give a whole number"),
        ({"page_in": {"latency_seconds": None}}, "page_in.latency_seconds is None; give a number"),
        ({"ops": [[]]}, r"the problem.ops\[0\] is \[\]; give an object"),
    ],
)
def test_malformed_json(change: dict[str, Any], message: str) -> None:
    data = {**json.loads(problem_to_json(chain([8, 8], [0]))), **change}
    with pytest.raises(TrainletError, match=message):
        problem_from_json(json.dumps(data))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": NaN}', '{"values": []}'])
def test_text_that_is_no_problem(text: str) -> None:
    with pytest.raises(TrainletError):
        problem_from_json(text)
