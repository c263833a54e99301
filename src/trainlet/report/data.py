# SPDX-License-Identifier: Apache-2.0
"""Everything that a report can show; what is not known is left out of the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from trainlet.build import DEFAULT_STACK_BYTES, Analysis, analyze_program, step_timeline
from trainlet.devices import Device
from trainlet.emit import Program
from trainlet.planning import Timeline
from trainlet.report.roles import OperatorNote, ValueRole, operators_of, roles_of


@dataclass(frozen=True)
class Instructions:
    """Instructions that the emulator counted; ``by_function`` is of one training step."""

    inference: int | None = None
    step: int | None = None
    by_function: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ReportData:
    """One report.

    ``linked`` are the linker's figures (``build.linked_figures``), ``stack_high_water`` the bytes
    of stack that the emulator saw in use. Accuracies are shares from 0 to 1: ``accuracies`` is
    (step, accuracy) while learning, ``before_after`` maps a data set's name to the pair of before
    and after. ``roles`` and ``operators`` come from ``roles_of`` and ``operators_of``.
    """

    title: str
    device: Device
    scheme: str
    model: str
    timeline: Timeline
    analysis: Analysis
    linked: Mapping[str, int] | None = None
    losses: Sequence[float] = ()
    accuracies: Sequence[tuple[int, float]] = ()
    before_after: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    instructions: Instructions | None = None
    stack_high_water: int | None = None
    roles: Mapping[str, ValueRole] = field(default_factory=dict)
    operators: Sequence[OperatorNote] = ()
    notes: Sequence[str] = ()

    @classmethod
    def of_program(
        cls,
        program: Program,
        *,
        title: str,
        device: Device,
        scheme: str,
        stack_bytes: int = DEFAULT_STACK_BYTES,
    ) -> ReportData:
        """What a planned program says of itself; add the rest with ``dataclasses.replace``."""
        return cls(
            title=title,
            device=device,
            scheme=scheme,
            model=program.name,
            timeline=step_timeline(program),
            analysis=analyze_program(program, stack_bytes),
            roles=roles_of(program),
            operators=operators_of(program),
        )

    @property
    def sram_bytes(self) -> int:
        """The linker's sum where there is one, else the plan's."""
        return self.analysis.sram_bytes if self.linked is None else self.linked["sram_bytes"]

    @property
    def flash_bytes(self) -> int:
        """The linker's flash where there is one, else the plan's constants, without code."""
        return self.analysis.constant_bytes if self.linked is None else self.linked["flash_bytes"]

    def to_data(self) -> dict[str, Any]:
        """The report as plain data."""
        device = self.device
        return {
            "title": self.title,
            "model": self.model,
            "scheme": self.scheme,
            "device": {
                "name": device.name,
                "ram_bytes": device.ram_bytes,
                "flash_bytes": device.flash_bytes,
            },
            "planned": self.analysis.to_data(),
            "linked": None if self.linked is None else dict(self.linked),
            "stack_high_water": self.stack_high_water,
            "instructions": None if self.instructions is None else asdict(self.instructions),
            "losses": [loss if math.isfinite(loss) else None for loss in self.losses],
            "accuracies": [list(pair) for pair in self.accuracies],
            "before_after": {name: list(pair) for name, pair in self.before_after.items()},
            "roles": {name: str(role) for name, role in self.roles.items()},
            "operators": [asdict(note) for note in self.operators],
            "timeline": self.timeline.to_data(),
            "notes": list(self.notes),
        }
