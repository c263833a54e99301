# SPDX-License-Identifier: Apache-2.0
"""A small step with every kind of value, planned for real, and a report of it."""

from collections.abc import Mapping

from trainlet.build import Analysis, PeakValue
from trainlet.devices import load_device
from trainlet.planning import (
    OpSpec,
    Overwrite,
    Problem,
    Timeline,
    ValueSpec,
    make_plan,
    timeline_of,
)
from trainlet.report import Instructions, OperatorNote, ReportData, ValueRole

HOSTILE = "<script>alert('x')</script>&\"</style>"

ROLES: Mapping[str, ValueRole] = {
    "image": ValueRole.INPUT,
    "conv": ValueRole.ACTIVATION,
    "kept": ValueRole.SAVED,
    "conv.mask": ValueRole.MASK,
    "grad": ValueRole.GRADIENT,
}
LINKED = {
    "text": 4_000,
    "rodata": 9_000,
    "data": 0,
    "bss": 6_000,
    "stack": 1_024,
    "flash_bytes": 13_000,
    "sram_bytes": 7_024,
}


def example_timeline(prefix: str = "") -> Timeline:
    """A forward operator, one that overwrites its input, a backward one with scratch."""

    def name(text: str) -> str:
        return prefix + text

    problem = Problem(
        name="example",
        values=(
            ValueSpec(name("image"), 512),
            ValueSpec(name("conv"), 1024),
            ValueSpec(name("conv.mask"), 128),
            ValueSpec(name("kept"), 1024),
            ValueSpec(name("grad"), 4096),
        ),
        ops=(
            OpSpec(
                "0:conv.conv2d",
                (name("image"),),
                (name("conv"), name("conv.mask")),
                scratch_bytes=64,
            ),
            OpSpec(
                "1:clamp.clamp",
                (name("conv"),),
                (name("kept"),),
                overwrites=(Overwrite(name("kept"), name("conv"), 0),),
            ),
            OpSpec(
                "2:conv.conv2d_grad_input",
                (name("kept"), name("conv.mask")),
                (name("grad"),),
                scratch_bytes=200,
            ),
            OpSpec("3:conv.channel_sum_sgd", (name("grad"),), (), writes=("bias",)),
        ),
        inputs=(name("image"),),
        outputs=(),
        fixed_bytes=0,
        alignment=8,
        budget_bytes=None,
    )
    return timeline_of(problem, make_plan(problem))


def example_analysis(timeline: Timeline) -> Analysis:
    """Figures that go with the timeline."""
    return Analysis(
        arena_bytes=timeline.arena_bytes,
        arena_lower_bound_bytes=timeline.lower_bound_bytes,
        weight_bytes=320,
        bias_bytes=64,
        head_bytes=40,
        state_bytes=24,
        stack_bytes=1_024,
        constant_bytes=8_800,
        macs_forward=123_456,
        macs_backward=65_432,
        operators=4,
        peak_operator="conv2d_grad_input of conv",
        peak_values=tuple(PeakValue(b.name, b.bytes, b.address) for b in timeline.at_peak),
    )


def example_report() -> ReportData:
    """A report with all its parts."""
    timeline = example_timeline()
    return ReportData(
        title="Example",
        device=load_device("stm32f746"),
        scheme="all",
        model="tiny",
        timeline=timeline,
        analysis=example_analysis(timeline),
        linked=LINKED,
        losses=[2.5, 1.5, 1.0, 0.5],
        accuracies=[(0, 0.1), (2, 0.5), (4, 0.75)],
        before_after={"turned": (0.1, 0.75)},
        instructions=Instructions(1_000, 3_000, {"tiny_conv": 2_000, "tiny_add": 1_000}),
        stack_high_water=400,
        roles=ROLES,
        operators=(
            OperatorNote("0:conv.conv2d", "conv2d", "conv", False, 123_456),
            OperatorNote("1:clamp.clamp", "clamp", "clamp", False, 0),
            OperatorNote("2:conv.conv2d_grad_input", "conv2d_grad_input", "conv", True, 65_432),
            OperatorNote("3:conv.channel_sum_sgd", "channel_sum_sgd", "conv", True, 0),
        ),
        notes=("A note.",),
    )
