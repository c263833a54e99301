# SPDX-License-Identifier: Apache-2.0
"""The checker's replay: one instruction after another, over bytes, noting all that goes wrong."""

from __future__ import annotations

import math
from collections import Counter

from trainlet.planning.check_bytes import Block, ByteMap
from trainlet.planning.check_rules import (
    best_saving,
    blocks_of,
    declared_overwrite,
    paging_price,
    rounded,
    state_versions,
)
from trainlet.planning.instructions import Compute, Free, Instruction, PageIn, PageOut, describe
from trainlet.planning.plan import Overlap, Plan, copy_key, scratch_key
from trainlet.planning.problem import OpSpec, Problem
from trainlet.planning.violations import Violation


class Replay:
    """Runs a plan and keeps the books; ``violations`` holds what went wrong.

    Attributes:
        blocks: every placed copy and scratch by its key.
        owned: bytes of the arena in use at each instruction, before the first one at index 0.
        least: largest sum of live bytes, overlaps at their best.
    """

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.problem, self.plan = problem, plan
        self.violations: list[Violation] = []
        self.owned: list[int] = []
        self.least = 0
        self.paged_out_bytes = self.stored_bytes = self.recomputed = 0
        self._seconds: list[float] = []
        self._joules: list[float] = []
        self._index = -1
        self._copies: Counter[str] = Counter()
        self._runs: Counter[str] = Counter()
        self._resident: dict[str, Block | None] = {}  # None: the plan gives it no address
        self._overwritten: dict[str, str] = {}
        self._stored: set[str] = set()
        self._state: Counter[str] = Counter()
        self._permits = {(o.instruction, o.output, o.input): o for o in plan.overlaps}
        self._used: set[Overlap] = set()
        self.blocks, faults = blocks_of(problem, plan)
        self.violations += faults
        self._by_number = {block.number: block for block in self.blocks.values()}
        self._map = ByteMap(self.blocks.values())
        self._versions = state_versions(problem)

    @property
    def seconds(self) -> float:
        """Seconds of computing and paging."""
        return math.fsum(self._seconds)

    @property
    def joules(self) -> float:
        """Joules of computing and paging."""
        return math.fsum(self._joules)

    def run(self) -> None:
        """Replay everything."""
        for name in self.problem.inputs:
            self._appear(name)
        self._count_bytes()
        for index, instruction in enumerate(self.plan.instructions):
            self._index = index
            self._step(instruction)
        self._index = len(self.plan.instructions)
        self._finish()

    @property
    def unused_overlaps(self) -> list[Overlap]:
        """Recorded overlaps where no byte was shared."""
        return [overlap for overlap in self.plan.overlaps if overlap not in self._used]

    # -- instructions ---------------------------------------------------------------------------

    def _step(self, instruction: Instruction) -> None:
        known = (
            instruction.op in self.problem.op_by_name
            if isinstance(instruction, Compute)
            else instruction.value in self.problem.value_by_name
        )
        if not known:
            self._blame("unknown-name", "the problem has nothing of that name")
        elif isinstance(instruction, Compute):
            self._compute(self.problem.op_by_name[instruction.op])
            return
        elif isinstance(instruction, Free):
            self._free(instruction.value)
        elif isinstance(instruction, PageOut):
            self._page_out(instruction.value)
        else:
            self._page_in(instruction.value)
        self._count_bytes(grew=isinstance(instruction, PageIn))

    def _compute(self, op: OpSpec) -> None:
        for name in dict.fromkeys(op.inputs):
            self._read(name)
        self._touch_state(op)
        scratch = None
        if op.scratch_bytes:
            scratch = self.blocks.get(scratch_key(op.name, self._runs[op.name]))
            if scratch is not None:
                self._write(scratch, op)
        self.recomputed += self._runs[op.name] > 0
        self._runs[op.name] += 1
        for output in op.outputs:
            self._appear(output, op)
        self._pay(op.seconds, op.joules)
        size = rounded(op.scratch_bytes, self.problem.alignment)
        self._count_bytes(size, best_saving(self.problem, op, self._freed_next()))
        if scratch is not None:
            self._map.release(scratch)

    def _free(self, value: str) -> None:
        if value not in self._resident:
            if self._copies[value]:
                self._blame("double-free", f"{value!r} has been freed already")
            else:
                self._blame("free-unknown", f"{value!r} has never been there")
            return
        block = self._resident.pop(value)
        self._overwritten.pop(value, None)
        if block is not None:
            self._map.release(block)

    def _page_out(self, value: str) -> None:
        self._read(value)
        spec = self.problem.value_by_name[value]
        size = spec.bytes
        if value in self._stored:
            self._blame("paged-out-twice", f"{value!r} lies in storage already")
        else:
            self._stored.add(value)
            self.stored_bytes += size
        self.paged_out_bytes += size
        self._pay(*paging_price(self.problem.page_out, size, spec.page_out_joules))
        capacity, limit = self.problem.storage_bytes, self.problem.write_limit_bytes
        if self.stored_bytes > capacity:
            self._blame(
                "storage",
                f"with {value!r} storage would hold {self.stored_bytes} bytes, "
                f"{self.stored_bytes - capacity} more than its {capacity}",
            )
        if limit is not None and self.paged_out_bytes > limit:
            self._blame(
                "write-limit",
                f"with {value!r} {self.paged_out_bytes} bytes are written to storage, "
                f"{self.paged_out_bytes - limit} more than the {limit} allowed",
            )

    def _page_in(self, value: str) -> None:
        if value not in self._stored:
            self._blame("page-in-unstored", f"{value!r} was never paged out")
        spec = self.problem.value_by_name[value]
        self._pay(*paging_price(self.problem.page_in, spec.bytes, spec.page_in_joules))
        self._appear(value)

    # -- bytes ----------------------------------------------------------------------------------

    def _read(self, name: str) -> None:
        if name not in self._resident:
            if self._copies[name]:
                self._blame("use-after-free", f"it reads {name!r}, which has been freed")
            else:
                self._blame("read-before-write", f"it reads {name!r}, which is not there yet")
            return
        block = self._resident[name]
        if name in self._overwritten:
            self._blame(
                "read-overwritten", f"it reads {name!r}, overwritten by {self._overwritten[name]}"
            )
        elif block is not None and not self._map.intact(block):
            owners = sorted(self._map.owners(block) - {block.number})
            others = " and ".join(str(self._by_number[owner]) for owner in owners) or "nobody"
            self._blame("read-damaged", f"it reads {block}, parts of which now belong to {others}")

    def _appear(self, value: str, op: OpSpec | None = None) -> None:
        if value in self._resident:
            self._blame("resident-twice", f"it makes {value!r}, which is resident already")
            old = self._resident[value]
            if old is not None:
                self._map.release(old)
        block = self.blocks.get(copy_key(value, self._copies[value]))
        self._copies[value] += 1
        self._overwritten.pop(value, None)
        self._resident[value] = block
        if block is not None:
            self._write(block, op)

    def _write(self, block: Block, op: OpSpec | None) -> None:
        for number in sorted(self._map.owners(block)):
            victim = self._by_number[number]
            self._judge_overwrite(block, victim, op)
        self._map.claim(block)

    def _judge_overwrite(self, block: Block, victim: Block, op: OpSpec | None) -> None:
        """The one way in which bytes may be shared; anything else is a violation."""
        permit = self._permits.get((self._index, block.name, victim.name))
        declared = declared_overwrite(op, block.name, victim.name)
        is_scratch = "#scratch" in block.key or "#scratch" in victim.key
        if is_scratch or op is None or (permit is None and declared is None):
            kind = "scratch-overlap" if is_scratch else "overlap"
            self._blame(kind, f"{block} is written over {victim}, which is alive")
            return
        self._overwritten[victim.name] = str(block)
        if declared is None:
            self._blame(
                "undeclared-overwrite",
                f"{block} is written over {victim}, an overwrite the operator does not declare",
            )
            return
        if permit is None:
            self._blame(
                "unrecorded-overlap",
                f"{block} is written over {victim}, which the plan does not record as an overlap",
            )
        else:
            self._used.add(permit)
        if block.start + declared.lag > victim.start:
            self._blame(
                "lag",
                f"{block} is written over {victim}: it must start {declared.lag} bytes below, at "
                f"{victim.start - declared.lag} or less",
            )
        if victim.name not in self._freed_next():
            later = self._next_use(victim.name)
            self._blame(
                "overwritten-input-used",
                f"{block} is written over {victim}, which is not freed right after{later}",
            )

    def _freed_next(self) -> set[str]:
        freed = set()
        for follower in self.plan.instructions[self._index + 1 :]:
            if not isinstance(follower, Free):
                break
            freed.add(follower.value)
        return freed

    def _next_use(self, value: str) -> str:
        for index in range(self._index + 1, len(self.plan.instructions)):
            follower = self.plan.instructions[index]
            if isinstance(follower, Compute):
                op = self.problem.op_by_name.get(follower.op)
                uses = op is not None and value in op.inputs
            else:
                uses = isinstance(follower, PageOut) and follower.value == value
            if uses:
                return f" but used by instruction {index} ({describe(follower)})"
        if value in self.problem.outputs:
            return " because it is an output of the problem"
        return ""

    # -- books ----------------------------------------------------------------------------------

    def _count_bytes(self, scratch: int = 0, saved: int = 0, grew: bool = True) -> None:
        self.owned.append(self._map.owned_bytes())
        values, step = self.problem.value_by_name, self.problem.alignment
        live = sum(rounded(values[name].bytes, step) for name in self._resident)
        if grew:  # within the frees after an overlap the savings are no longer known
            self.least = max(self.least, live + scratch - saved)

    def _touch_state(self, op: OpSpec) -> None:
        if op.writes and self._runs[op.name]:
            self._blame("ran-twice", f"it writes {op.writes[0]!r} and has run before")
        for state, version in self._versions[op.name].items():
            if self._state[state] != version and not (op.writes and self._runs[op.name]):
                self._blame(
                    "state-order",
                    f"it uses {state!r} after {self._state[state]} writes; in the problem's order "
                    f"that is after {version}",
                )
        self._state.update(op.writes)

    def _pay(self, seconds: float, joules: float) -> None:
        self._seconds.append(seconds)
        self._joules.append(joules)

    def _finish(self) -> None:
        for op in self.problem.ops:
            if not self._runs[op.name]:
                self._blame("missing-compute", f"operator {op.name!r} never ran")
        for name in self.problem.outputs:
            if name not in self._resident:
                self._blame("output-missing", f"the output {name!r} is not there at the end")
            else:
                self._read(name)
        for name in self._resident:
            if name not in self.problem.outputs:
                self._blame("leak", f"{name!r} is never freed")

    def _blame(self, kind: str, message: str) -> None:
        inside = 0 <= self._index < len(self.plan.instructions)
        self.violations.append(Violation(kind, self._index if inside else None, message))
