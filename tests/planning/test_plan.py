# SPDX-License-Identifier: Apache-2.0
"""Lists, addresses and plans on problems whose best answer is known."""

from __future__ import annotations

import pytest
from planning_problems import chain, training_step

from trainlet.errors import TrainletError
from trainlet.planning import (
    Compute,
    Free,
    OpSpec,
    Overwrite,
    PageIn,
    PageOut,
    Plan,
    Problem,
    ValueSpec,
    make_plan,
    timeline_of,
)
from trainlet.planning import exact as exact_module
from trainlet.planning.instructions import from_data, parse_text, to_text
from trainlet.planning.lifetimes import best_overlaps, lifetimes_of
from trainlet.planning.methods.keep_all import keep_all
from trainlet.planning.packing import geometry_of
from trainlet.planning.planner import plan_of


def test_keep_all_frees_at_the_last_use() -> None:
    text = to_text(keep_all(training_step()))
    assert text.split("\n")[:6] == [
        "compute conv1", "free image", "compute conv2", "compute head", "compute loss",
        "free logits",
    ]  # fmt: skip
    assert text.endswith("compute conv1_update\nfree grad_a\nfree a.mask\n")


def test_keep_all_frees_what_nothing_uses() -> None:
    values = tuple(ValueSpec(name, 8) for name in ("x", "y", "z"))
    problem = Problem("p", values, (OpSpec("f", ("x",), ("y", "z")),), ("x",), ("y",))
    assert keep_all(problem) == (Compute("f"), Free("x"), Free("z"))
    idle = Problem("p", values[:1], (), ("x",))
    assert make_plan(idle).instructions == (Free("x"),)
    assert make_plan(idle).lower_bound_bytes == 8


def test_computing_again_is_told_apart_in_text() -> None:
    text = "compute f\nfree x\npage-out y\nagain f\npage-in y\n"
    steps = parse_text(text)
    assert steps == (Compute("f"), Free("x"), PageOut("y"), Compute("f"), PageIn("y"))
    assert to_text(steps) == text


@pytest.mark.parametrize("text", ["again f", "compute f\ncompute f", "drop x", "free", "free x y"])
def test_text_that_is_no_list(text: str) -> None:
    with pytest.raises(TrainletError, match=r"line [12] of the instruction list"):
        parse_text(text)


@pytest.mark.parametrize("data", ["free x", None, [["free"]], [["drop", "x"]], [["free", 3]]])
def test_data_that_is_no_list(data: object) -> None:
    with pytest.raises(TrainletError):
        from_data(data)


def test_overlap_takes_the_larger_of_lag_and_output() -> None:
    for sizes, lag, bound in (
        ([64, 64], 0, 64),
        ([64, 128], 32, 128),
        ([64, 128], 80, 144),
        ([128, 64], 16, 144),
        ([64, 64], 64, 128),
    ):
        plan = make_plan(chain(sizes, [lag]))
        assert (plan.lower_bound_bytes, plan.arena_bytes) == (bound, bound)
        assert bool(plan.overlaps) == (bound < sum(sizes))


def test_the_overlaps_that_save_most_are_chosen() -> None:
    values = tuple(ValueSpec(n, b) for n, b in (("x", 64), ("y", 32), ("p", 64), ("q", 64)))
    overwrites = (
        Overwrite("p", "x", 0), Overwrite("p", "y", 0), Overwrite("q", "x", 0)
    )  # fmt: skip
    op = OpSpec("f", ("x", "y"), ("p", "q"), 0, overwrites)
    problem = Problem("p", values, (op,), ("x", "y"), ("p", "q"))
    assert best_overlaps(problem, op, {"x", "y"}) == [("p", "y", 0, 32), ("q", "x", 0, 64)]
    assert best_overlaps(problem, op, {"x"}) == [("p", "x", 0, 64)]
    assert best_overlaps(problem, op, set()) == []
    plan = make_plan(problem)
    assert plan.arena_bytes == plan.lower_bound_bytes == 128


def test_mcunet_forward_reaches_the_lower_bound() -> None:
    """Sizes and lags like those of int8 MCUNet's first blocks, scratch of each kernel included."""
    sizes = [49152, 65536, 32768, 131072, 32768, 98304, 16384, 65536, 16384, 49152, 10]
    lags = [18432, 4096, 98304, 2048, 65536, 1024, 49152, 1024, 32768, None]
    for scratch in (0, 1024, 3456):
        plan = make_plan(chain(sizes, lags, scratch))
        assert plan.arena_bytes == plan.lower_bound_bytes
        # The widest value is overwritten by one that starts a lag below it.
        assert plan.lower_bound_bytes == 131072 + 2048 + -(-scratch // 8) * 8


def test_lags_that_add_up_cannot_stay_at_the_bound() -> None:
    """Each output lies a lag lower, so a long chain must start anew: proven, not just missed."""
    plan = make_plan(chain([800] * 6, [400] * 5))
    assert plan.lower_bound_bytes == 1200
    assert plan.arena_bytes == 1600


def test_residual_blocks_reach_the_lower_bound() -> None:
    sizes = {"x": 256}
    ops = []
    for block in range(4):
        source, wide, deep, narrow, total = (
            "x" if block == 0 else f"sum{block - 1}", f"wide{block}", f"deep{block}",
            f"narrow{block}", f"sum{block}",
        )  # fmt: skip
        sizes |= {wide: 1536, deep: 1536, narrow: 256, total: 256}
        ops += [
            OpSpec(f"expand{block}", (source,), (wide,), 64),
            OpSpec(f"depthwise{block}", (wide,), (deep,), 96, (Overwrite(deep, wide, 192),)),
            OpSpec(f"project{block}", (deep,), (narrow,), 64, (Overwrite(narrow, deep, 24),)),
            OpSpec(f"add{block}", (narrow, source), (total,), 0,
                   (Overwrite(total, narrow, 0), Overwrite(total, source, 0))),
        ]  # fmt: skip
    values = tuple(ValueSpec(name, size) for name, size in sizes.items())
    plan = make_plan(Problem("residual", values, tuple(ops), ("x",), ("sum3",)))
    assert plan.arena_bytes == plan.lower_bound_bytes == 256 + 1536 + 192 + 96


def test_exact_finisher_mends_a_bad_placement() -> None:
    problem = chain([64, 128, 32, 96, 64], [32, 16, 64, 8], scratch=24)
    lifetimes = lifetimes_of(problem, keep_all(problem))
    geometry = geometry_of(lifetimes)
    tops = [0]
    for extent in geometry.extents:
        tops.append(tops[-1] + extent)
    found = exact_module.solve(lifetimes, geometry, tops[:-1])
    assert geometry.height(found) == lifetimes.lower_bound_bytes


def test_copies_have_addresses_of_their_own() -> None:
    problem = chain([32, 64, 32], [None, None], scratch=16, storage_bytes=64)
    steps = parse_text(
        "compute op0\nfree v1\nagain op0\nfree v0\npage-out v1\nfree v1\npage-in v1\n"
        "compute op1\nfree v1\n"
    )
    plan = plan_of(problem, steps, "by-hand")
    assert set(plan.addresses) == {
        "v0", "v1", "v1#1", "v1#2", "v2", "op0#scratch", "op0#scratch1", "op1#scratch"
    }  # fmt: skip
    runs = list(plan.operands(problem))
    assert [(run.instruction, run.op) for run in runs] == [(0, "op0"), (2, "op0"), (7, "op1")]
    assert runs[1].addresses == {"v0": plan.addresses["v0"], "v1": plan.addresses["v1#1"]}
    assert runs[2].addresses == {"v1": plan.addresses["v1#2"], "v2": plan.addresses["v2"]}
    assert runs[1].scratch == plan.addresses["op0#scratch1"]


def test_lists_that_make_no_sense_are_refused() -> None:
    problem = chain([8, 8], [0])
    for text in ("free v1", "page-in v0", "page-out v1", "compute nothing"):
        with pytest.raises(TrainletError, match="which is not there"):
            plan_of(problem, parse_text(text), "by-hand")
    with pytest.raises(TrainletError, match="resident already"):
        plan_of(problem, parse_text("compute op0\nagain op0"), "by-hand")
    with pytest.raises(TrainletError, match="no planning method 'magic'"):
        make_plan(problem, "magic")


def test_timeline_names_the_peak() -> None:
    problem = training_step()
    plan = make_plan(problem)
    timeline = timeline_of(problem, plan)
    assert timeline.peak_op == "conv2_update"
    assert [bar.name for bar in timeline.at_peak][:3] == ["a", "grad_a", "grad_b"]
    assert timeline.labels[timeline.peak_instruction] == "compute conv2_update"
    assert timeline.to_data()["bars"][0]["key"] == "image"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"method": 3}'])
def test_text_that_is_no_plan(text: str) -> None:
    with pytest.raises(TrainletError, match="this is no plan"):
        Plan.from_json(text)
