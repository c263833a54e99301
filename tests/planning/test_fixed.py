# SPDX-License-Identifier: Apache-2.0
"""Plans at addresses that are given."""

from __future__ import annotations

import pytest

from trainlet.planning import (
    OpSpec,
    Overwrite,
    PlanRejected,
    Problem,
    ValueSpec,
    make_plan,
    plan_at,
)


def _sum(outputs: tuple[str, ...]) -> Problem:
    either = (Overwrite("y", "a", 0), Overwrite("y", "b", 0))
    return Problem(
        name="sum",
        values=tuple(ValueSpec(name, 64) for name in ("a", "b", "y")),
        ops=(OpSpec("add", ("a", "b"), ("y",), overwrites=either),),
        inputs=("a", "b"),
        outputs=outputs,
    )


@pytest.mark.parametrize("kept", ["a", "b"])
def test_the_overwrite_is_the_one_that_the_addresses_say(kept: str) -> None:
    """A part of a problem may permit an overwrite that the whole could not choose."""
    whole = make_plan(_sum(("y", kept)))
    part = plan_at(_sum(("y",)), whole.addresses)
    other = {"a": "b", "b": "a"}[kept]
    assert [(o.output, o.input) for o in part.overlaps] == [("y", other)]
    assert part.lower_bound_bytes == 128


def test_addresses_that_collide_are_rejected() -> None:
    with pytest.raises(PlanRejected):
        plan_at(_sum(("y",)), {"a": 0, "b": 32, "y": 64})
