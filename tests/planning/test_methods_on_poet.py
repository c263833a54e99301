# SPDX-License-Identifier: Apache-2.0
"""The baseline methods on POET's own instances, against its proven optima (total joules)."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainlet.errors import TrainletError
from trainlet.planning import Problem, make_plan, read_poet_instance

_BASELINES = ("keep-all", "chen-sqrt", "capuchin", "pofo", "dtr")

# Proven optima of POET's formulation; a finer list may be a little below, no baseline far.
_OPTIMA = [
    ("linear", "m4", 3300, 0.0004607328338),
    ("linear", "m4", 4000, 0.0004559570603),
    ("linear", "a72", 3600, 0.006599727975),
    ("transformer", "m4", 34_000_000, 8.488221886),
    ("transformer", "a72", 31_457_280, 119.424346),
]


def plannable(problem: Problem) -> dict[str, float]:
    """Joules of every baseline that finds a plan."""
    joules = {}
    for method in _BASELINES:
        try:
            joules[method] = make_plan(problem, method).joules
        except TrainletError:
            continue
    return joules


@pytest.mark.parametrize(("name", "platform", "ram", "optimum"), _OPTIMA)
def test_no_baseline_beats_the_optimum(
    shared_dir: Path, name: str, platform: str, ram: int, optimum: float
) -> None:
    path = shared_dir / "poet-instances" / f"{name}.json"
    found = plannable(read_poet_instance(path, platform, ram, 2.0))
    assert "dtr" in found
    assert "capuchin" in found
    assert "keep-all" not in found
    # What an instruction list may save over POET's stages is far less than this.
    assert min(found.values()) >= optimum * (1 - 1e-3)


def test_pofo_is_optimal_on_pure_chains(shared_dir: Path) -> None:
    folder = shared_dir / "poet-instances"
    linear = read_poet_instance(folder / "linear.json", "m4", 3300, 2.0)
    assert make_plan(linear, "pofo").joules <= 0.0004607328338 * (1 + 1e-9)
    vgg = read_poet_instance(folder / "vgg16_cifar.json", "a72", 1_200_000, 2.0)
    assert make_plan(vgg, "pofo").joules <= 49.745219 * (1 + 1e-7)


def test_a_tight_deadline_stops_recomputing(shared_dir: Path) -> None:
    path = shared_dir / "poet-instances" / "vgg16_cifar.json"
    tight = read_poet_instance(path, "a72", 1_200_000, 1.0)
    with pytest.raises(TrainletError, match="more than the deadline"):
        make_plan(tight, "dtr")
    assert make_plan(tight, "capuchin").seconds <= (tight.deadline_seconds or 0)
    assert make_plan(tight, "pofo").seconds <= (tight.deadline_seconds or 0)
