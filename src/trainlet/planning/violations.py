# SPDX-License-Identifier: Apache-2.0
"""What the checker found wrong, and the error that says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainlet.errors import TrainletError
from trainlet.planning.instructions import Instruction, describe

_SHOWN = 20


@dataclass(frozen=True)
class Violation:
    """One broken rule: its kind (a short word), the instruction's index if any, the culprits."""

    kind: str
    instruction: int | None
    message: str


class PlanRejected(TrainletError):  # noqa: N818 - reads as a verdict at the call
    """The checker's verdict; ``violations`` lists every broken rule."""

    def __init__(
        self, name: str, violations: Sequence[Violation], instructions: Sequence[Instruction]
    ) -> None:
        self.violations = tuple(violations)
        lines = []
        for violation in violations[:_SHOWN]:
            at = violation.instruction
            where = "" if at is None else f"instruction {at} ({describe(instructions[at])}): "
            lines.append(f"\n  - [{violation.kind}] {where}{violation.message}")
        if len(violations) > _SHOWN:
            lines.append(f"\n  - and {len(violations) - _SHOWN} more")
        super().__init__(f"the plan for {name!r} is rejected:" + "".join(lines))
