# SPDX-License-Identifier: Apache-2.0
"""What the checker derives from problem and plan before it replays: blocks, versions, savings."""

from __future__ import annotations

from collections import Counter

from trainlet.planning.check_bytes import Block
from trainlet.planning.instructions import Compute, PageIn
from trainlet.planning.plan import Plan, copy_key, scratch_key
from trainlet.planning.problem import OpSpec, Overwrite, PagingCost, Problem
from trainlet.planning.violations import Violation


def rounded(size: int, alignment: int) -> int:
    """Bytes up to the next multiple of the alignment."""
    return (size + alignment - 1) // alignment * alignment


def blocks_of(problem: Problem, plan: Plan) -> tuple[dict[str, Block], list[Violation]]:
    """Every copy and scratch that the list makes, where the plan puts it; keys that do not fit."""
    made = _made(problem, plan)
    faults = [
        Violation("no-address", None, f"{key!r} has no address")
        for key in made
        if key not in plan.addresses
    ]
    faults += [
        Violation("unknown-address", None, f"{key!r} has an address, but the list never makes it")
        for key in plan.addresses
        if key not in made
    ]
    blocks = {
        key: Block(number, key, name, plan.addresses[key], rounded(size, problem.alignment))
        for number, (key, (name, size)) in enumerate(made.items())
        if key in plan.addresses
    }
    return blocks, faults


def _made(problem: Problem, plan: Plan) -> dict[str, tuple[str, int]]:
    """Key -> value or operator and bytes, for all that the list brings into the arena."""
    sizes: dict[str, tuple[str, int]] = {}
    copies: Counter[str] = Counter()
    runs: Counter[str] = Counter()

    def add(value: str) -> None:
        sizes[copy_key(value, copies[value])] = value, problem.value_by_name[value].bytes
        copies[value] += 1

    for name in problem.inputs:
        add(name)
    for instruction in plan.instructions:
        if isinstance(instruction, Compute) and instruction.op in problem.op_by_name:
            op = problem.op_by_name[instruction.op]
            for output in op.outputs:
                add(output)
            if op.scratch_bytes:
                sizes[scratch_key(op.name, runs[op.name])] = op.name, op.scratch_bytes
            runs[op.name] += 1
        elif isinstance(instruction, PageIn) and instruction.value in problem.value_by_name:
            add(instruction.value)
    return sizes


def state_versions(problem: Problem) -> dict[str, dict[str, int]]:
    """Operator -> state it uses -> how often that was written before, in the problem's order."""
    written: Counter[str] = Counter()
    versions: dict[str, dict[str, int]] = {}
    for op in problem.ops:
        versions[op.name] = {state: written[state] for state in (*op.reads, *op.writes)}
        written.update(op.writes)
    return versions


def declared_overwrite(op: OpSpec | None, output: str, source: str) -> Overwrite | None:
    """The overwrite of this input by this output, if the operator declares one."""
    for overwrite in op.overwrites if op is not None else ():
        if (overwrite.output, overwrite.input) == (output, source):
            return overwrite
    return None


def paging_price(cost: PagingCost, size: int, own_joules: float | None) -> tuple[float, float]:
    """Seconds and joules to move ``size`` bytes; the value's own joules, if any, come first."""
    joules = own_joules
    if joules is None:
        joules = cost.latency_joules + cost.joules_per_byte * size
    return cost.latency_seconds + cost.seconds_per_byte * size, joules


def best_saving(problem: Problem, op: OpSpec, freed_next: set[str]) -> int:
    """Most bytes that the declared overlaps can save at a run, each value in one at most.

    The inputs concerned are freed before anything else is made, so the saving counts for this
    instruction only.
    """
    by_output: dict[str, list[Overwrite]] = {}
    for overwrite in op.overwrites:
        if overwrite.input in freed_next:
            by_output.setdefault(overwrite.output, []).append(overwrite)
    best: dict[frozenset[str], int] = {frozenset(): 0}  # inputs taken -> bytes saved
    outputs = list(by_output)
    for place, output in enumerate(outputs):
        # Only inputs that a later output could want tell one state from another.
        wanted = {over.input for later in outputs[place + 1 :] for over in by_output[later]}
        grown: dict[frozenset[str], int] = {}
        for taken, total in best.items():
            free = [over for over in by_output[output] if over.input not in taken]
            choices = [(taken, total)]
            choices += [(taken | {o.input}, total + _saving(problem, o)) for o in free]
            for names, saved in choices:
                key = names & wanted
                grown[key] = max(grown.get(key, 0), saved)
        best = grown
    return max(best.values())


def _saving(problem: Problem, overwrite: Overwrite) -> int:
    """Bytes the pair can share with the output just lag bytes below the input."""
    values, step = problem.value_by_name, problem.alignment
    output = rounded(values[overwrite.output].bytes, step)
    source = rounded(values[overwrite.input].bytes, step)
    return max(0, min(output - overwrite.lag, source))
