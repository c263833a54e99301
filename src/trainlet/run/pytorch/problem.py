# SPDX-License-Identifier: Apache-2.0
"""The planning problem of a program: blocks, operators, the fixed floor, what work costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from torch import Tensor, fx

from trainlet.errors import TrainletError
from trainlet.planning import Instruction, OpSpec, PagingCost, Plan, Problem, ValueSpec, check
from trainlet.planning.addresses import Placement
from trainlet.planning.checker import CheckReport
from trainlet.planning.lifetimes import lifetimes_of
from trainlet.planning.planner import plan_from
from trainlet.run.pytorch.footprint import Footprint, needs_copy
from trainlet.run.pytorch.live_bytes import ALLOCATOR_GRANULE
from trainlet.run.pytorch.operators import results_of, storage_bytes
from trainlet.run.pytorch.program import UPDATE, Operator, Program, base_of, total_bytes

# What a saved state of PyTorch's CPU generator takes; one for each random operator.
GENERATOR_BYTES = 5056

Cost = Callable[[Operator], tuple[float, float]]


@dataclass(frozen=True)
class Limits:
    """What the device allows, and what its storage costs; as in ``planning.Problem``."""

    budget_bytes: int | None = None
    storage_bytes: int = 0
    deadline_seconds: float | None = None
    page_out: PagingCost = field(default_factory=PagingCost)
    page_in: PagingCost = field(default_factory=PagingCost)
    write_limit_bytes: int | None = None


def problem_of(
    program: Program,
    footprint: Footprint,
    limits: Limits | None = None,
    cost: Cost = lambda _: (0.0, 0.0),
    name: str = "step",
) -> Problem:
    """The problem; ``cost`` gives seconds and joules of an operator, the update's are zero.

    Bytes are those of PyTorch's CPU allocator, which hands out multiples of 64.
    """
    limits = limits or Limits()
    gradients = program.gradient_values
    update = OpSpec(
        UPDATE,
        inputs=gradients,
        outputs=(),
        scratch_bytes=footprint.scratch_bytes + _copied_gradient_bytes(program),
    )
    return Problem(
        name=name,
        values=tuple(ValueSpec(*item) for item in program.value_bytes.items()),
        ops=(*(_op_spec(operator, cost) for operator in program.operators), update),
        outputs=() if program.loss_value is None else (program.loss_value,),
        fixed_bytes=fixed_bytes(program, footprint),
        alignment=ALLOCATOR_GRANULE,
        budget_bytes=limits.budget_bytes,
        storage_bytes=limits.storage_bytes,
        deadline_seconds=limits.deadline_seconds,
        page_out=limits.page_out,
        page_in=limits.page_in,
        write_limit_bytes=limits.write_limit_bytes,
    )


def _op_spec(operator: Operator, cost: Cost) -> OpSpec:
    seconds, joules = cost(operator)
    return OpSpec(
        operator.name,
        operator.inputs,
        operator.outputs,
        scratch_bytes=operator.unplanned_bytes,
        seconds=seconds,
        joules=joules,
    )


def fixed_tensors(program: Program) -> list[Tensor]:
    """What lies in memory all the time but for arguments, generator states and the optimizer's."""
    captured = program.captured
    return [*(slot.get() for slot in captured.state.values()), *captured.constants.values()]


def fixed_bytes(program: Program, footprint: Footprint) -> int:
    """Parameters, buffers and their next values, inputs, constants, states of the generator."""
    blocks = {t.untyped_storage()._cdata: storage_bytes(t) for t in fixed_tensors(program)}
    captured = program.captured
    sizes = [
        *blocks.values(),
        *(_layout_bytes(layout.shape, layout.dtype.itemsize) for layout in captured.layouts),
        *(storage_bytes(slot.get()) for _, slot in captured.updates),
        *(GENERATOR_BYTES for operator in program.operators if operator.is_random),
    ]
    return total_bytes(sizes, ALLOCATOR_GRANULE) + footprint.state_bytes


def _layout_bytes(shape: tuple[int, ...], item: int) -> int:
    count = item
    for extent in shape:
        count *= extent
    return count


def _copied_gradient_bytes(program: Program) -> int:
    """Bytes of the gradients that the update copies, since they share or stride memory."""
    shared = Counter(base_of(node) for node in program.gradients.values())
    sizes = []
    for name, node in program.gradients.items():
        (_, fake), slot = next(results_of(node)), program.captured.parameters[name]
        if needs_copy(fake, slot, shared[base_of(node)] > 1 or program_owns_not(program, node)):
            sizes.append(storage_bytes(slot.get()))
    return total_bytes(sizes, ALLOCATOR_GRANULE)


def program_owns_not(program: Program, node: fx.Node) -> bool:
    """Whether a gradient lies in memory that is not the plan's: an input or a parameter."""
    return base_of(node) not in program.names


def check_list(
    problem: Problem, instructions: tuple[Instruction, ...], method: str
) -> tuple[Plan, CheckReport]:
    """Check an instruction list for an executor that needs no addresses.

    Every copy gets bytes of its own, so the checker judges everything but the arena's size; the
    budget is held against the most bytes in use.

    Raises:
        TrainletError: the list breaks a rule or a limit.
    """
    lifetimes = lifetimes_of(problem, instructions)
    addresses, end = {}, 0
    for residency in lifetimes.residencies:
        addresses[residency.key] = end
        end += residency.extent
    placement = Placement(addresses, (), end, lifetimes.lower_bound_bytes)
    plan = plan_from(problem, instructions, method, lifetimes, placement)
    report = check(replace(problem, budget_bytes=None), plan)
    budget = problem.budget_bytes
    if budget is not None and report.peak_bytes > budget:
        raise TrainletError(
            f"the plan's peak is {report.peak_bytes} bytes, {report.peak_bytes - budget} more "
            f"than the budget of {budget}"
        )
    return plan, report
