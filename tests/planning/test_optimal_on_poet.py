# SPDX-License-Identifier: Apache-2.0
"""POET's own instances: no optimum is above POET's, each is proven, each in under 10 s."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from trainlet.planning import check, read_poet_instance
from trainlet.planning.optimal import solve
from trainlet.planning.planner import plan_of

# Instance, platform, RAM bytes, deadline in passes, joules of POET's formulation at its optimum.
_OPTIMA = [
    ("linear", "m0", 3300, 2.0, 0.1048733673),
    ("linear", "m0", 3600, 2.0, 0.1048577428),
    ("linear", "m0", 4000, 2.0, 0.10472616),
    ("linear", "m0", 4500, 2.0, 0.10467864),
    ("linear", "m4", 3300, 2.0, 0.0004607328338),
    ("linear", "m4", 3600, 2.0, 0.0004607155927),
    ("linear", "m4", 4000, 2.0, 0.0004559570603),
    ("linear", "m4", 4500, 2.0, 0.0004557501676),
    ("linear", "a72", 3300, 2.0, 0.006600730785),
    ("linear", "a72", 3600, 2.0, 0.006599727975),
    ("linear", "a72", 4000, 2.0, 0.006592416262),
    ("linear", "a72", 4500, 2.0, 0.006589424922),
    ("transformer", "m4", 31_457_280, 2.0, 8.614731913),
    ("transformer", "m4", 34_000_000, 2.0, 8.488221886),
    ("transformer", "m4", 36_000_000, 2.0, 8.258814211),
    ("transformer", "a72", 31_457_280, 2.0, 119.424346),
    ("transformer", "a72", 34_000_000, 2.0, 119.4095345),
    ("transformer", "a72", 36_000_000, 2.0, 119.3947159),
    ("linear", "m4", 3600, 1.02, 0.0004607155927),
    ("transformer", "m4", 34_000_000, 1.05, 8.488221886),
    ("vgg16_cifar", "a72", 2_000_000, 2.0, 49.738974),
    ("vgg16_cifar", "a72", 1_200_000, 2.0, 49.745219),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "platform", "ram", "passes", "optimum"), _OPTIMA)
def test_at_most_poets_optimum_proven_and_quick(
    shared_dir: Path, name: str, platform: str, ram: int, passes: float, optimum: float
) -> None:
    path = shared_dir / "poet-instances" / f"{name}.json"
    problem = read_poet_instance(path, platform, ram, passes)
    solution = solve(problem, time_limit=10.0)
    assert solution.status == "optimal"
    assert solution.instructions is not None
    assert solution.solve_seconds < 10
    # The copies' addresses are another matter: bytes alive keep the budget.
    plan = plan_of(problem, solution.instructions, "optimal")
    report = check(replace(problem, budget_bytes=None), plan)
    assert report.lower_bound_bytes <= ram
    assert report.joules <= optimum * (1 + 1e-6)
