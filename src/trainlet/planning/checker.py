# SPDX-License-Identifier: Apache-2.0
"""The checker: replays a plan over bytes and addresses and trusts no claim.

It shares no code with what makes plans: it reads the problem, the instructions and the plan as
data, and has its own books for liveness, bytes, overlaps and costs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from trainlet.planning.check_replay import Replay
from trainlet.planning.plan import Plan
from trainlet.planning.problem import Problem
from trainlet.planning.violations import PlanRejected, Violation

__all__ = ["CheckReport", "PlanRejected", "Violation", "check", "violations_of"]

_CLOSE = 1e-9  # relative; sums of floats are compared, not their order


@dataclass(frozen=True)
class CheckReport:
    """What the replay found, for a plan that keeps every rule.

    ``owned_bytes`` are the arena bytes in use at each instruction (overlaps counted once, scratch
    included); ``peak_bytes`` is their largest plus the fixed bytes.
    """

    arena_bytes: int
    lower_bound_bytes: int
    peak_bytes: int
    seconds: float
    joules: float
    paged_out_bytes: int
    stored_bytes: int
    recomputed_ops: int
    owned_bytes: tuple[int, ...]


def check(problem: Problem, plan: Plan) -> CheckReport:
    """Replay a plan.

    Raises:
        PlanRejected: it breaks a rule; the error lists every rule, instruction and culprit.
    """
    report, violations = _judge(problem, plan)
    if violations:
        raise PlanRejected(problem.name, violations, plan.instructions)
    return report


def violations_of(problem: Problem, plan: Plan) -> tuple[Violation, ...]:
    """Everything that ``check`` would reject the plan for; empty for a good one."""
    return tuple(_judge(problem, plan)[1])


def _judge(problem: Problem, plan: Plan) -> tuple[CheckReport, list[Violation]]:
    replay = Replay(problem, plan)
    replay.run()
    arena = max((block.end for block in replay.blocks.values()), default=0)
    report = CheckReport(
        arena_bytes=arena,
        lower_bound_bytes=replay.least,
        peak_bytes=problem.fixed_bytes + max(replay.owned),
        seconds=replay.seconds,
        joules=replay.joules,
        paged_out_bytes=replay.paged_out_bytes,
        stored_bytes=replay.stored_bytes,
        recomputed_ops=replay.recomputed,
        owned_bytes=tuple(replay.owned[1:]),
    )
    found = [
        *replay.violations,
        *_address_faults(problem, plan, replay),
        *_overlap_faults(problem, plan, replay),
        *_limit_faults(problem, report),
        *_claim_faults(problem, plan, report),
    ]
    return report, found


def _address_faults(problem: Problem, plan: Plan, replay: Replay) -> Iterator[Violation]:
    for block in replay.blocks.values():
        if block.start < 0:
            yield Violation("negative-address", None, f"{block} starts below 0")
        if block.start % problem.alignment:
            yield Violation(
                "alignment",
                None,
                f"{block} does not start at a multiple of {problem.alignment}",
            )
        if block.end > plan.arena_bytes:
            yield Violation(
                "outside-arena",
                None,
                f"{block} ends {block.end - plan.arena_bytes} bytes after the arena of "
                f"{plan.arena_bytes} bytes",
            )


def _overlap_faults(problem: Problem, plan: Plan, replay: Replay) -> Iterator[Violation]:
    """Recorded overlaps: declared, with the declared lag, used, one for each value and run."""
    declared = {
        (op.name, over.output, over.input): over.lag for op in problem.ops for over in op.overwrites
    }
    taken = Counter(
        (overlap.instruction, role, name)
        for overlap in plan.overlaps
        for role, name in (("output", overlap.output), ("input", overlap.input))
    )
    for (index, role, name), count in taken.items():
        if count > 1:
            yield Violation(
                "overlap-twice",
                _inside(plan, index),
                f"the {role} {name!r} takes part in {count} overlaps of this run",
            )
    for overlap in plan.overlaps:
        at = _inside(plan, overlap.instruction)
        op = getattr(plan.instructions[at], "op", None) if at is not None else None
        pair = f"{overlap.output!r} over {overlap.input!r}"
        lag = declared.get((str(op), overlap.output, overlap.input))
        if lag is None:
            yield Violation(
                "undeclared-overwrite", at, f"the overlap of {pair} is declared by no operator here"
            )
        elif lag != overlap.lag:
            yield Violation(
                "overlap-lag",
                at,
                f"the overlap of {pair} is recorded with lag {overlap.lag}, declared with {lag}",
            )
    for overlap in replay.unused_overlaps:
        yield Violation(
            "overlap-unused",
            _inside(plan, overlap.instruction),
            f"the recorded overlap of {overlap.output!r} over {overlap.input!r} shares no bytes",
        )


def _inside(plan: Plan, index: int) -> int | None:
    return index if 0 <= index < len(plan.instructions) else None


def _limit_faults(problem: Problem, report: CheckReport) -> Iterator[Violation]:
    needed = problem.fixed_bytes + report.arena_bytes
    budget, deadline = problem.budget_bytes, problem.deadline_seconds
    if budget is not None and needed > budget:
        yield Violation(
            "budget",
            None,
            f"arena ({report.arena_bytes}) and fixed bytes ({problem.fixed_bytes}) take {needed} "
            f"bytes, {needed - budget} more than the budget of {budget}",
        )
    if deadline is not None and report.seconds > deadline:
        yield Violation(
            "deadline",
            None,
            f"the step takes {report.seconds:.9g} s, {report.seconds - deadline:.3g} s more than "
            f"the deadline of {deadline:.9g} s",
        )


def _claim_faults(problem: Problem, plan: Plan, report: CheckReport) -> Iterator[Violation]:
    if plan.problem_name != problem.name:
        yield Violation(
            "wrong-problem", None, f"it is a plan for {plan.problem_name!r}, not {problem.name!r}"
        )
    for claim in ("arena_bytes", "lower_bound_bytes", "peak_bytes", "paged_out_bytes"):
        said, found = getattr(plan, claim), getattr(report, claim)
        if said != found:
            yield Violation(
                f"claim-{claim}", None, f"it claims {claim} = {said}; the replay finds {found}"
            )
    for claim in ("seconds", "joules"):
        said, found = getattr(plan, claim), getattr(report, claim)
        if not math.isclose(said, found, rel_tol=_CLOSE):
            yield Violation(
                f"claim-{claim}", None, f"it claims {claim} = {said!r}; the replay finds {found!r}"
            )
