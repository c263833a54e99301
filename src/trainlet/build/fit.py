# SPDX-License-Identifier: Apache-2.0
"""Does it fit, and if not: by how many bytes, what stands at the peak, and what would fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trainlet.build.analysis import Analysis, analyze_program
from trainlet.build.program import build_program
from trainlet.devices import Device
from trainlet.errors import TrainletError
from trainlet.nn import Int8Network, apply_scheme
from trainlet.scheme import Scheme, head_only, smaller_schemes

Progress = Callable[[str, int, int], None]


class MisfitError(TrainletError):
    """The step does not fit the device.

    ``sram_excess`` and ``flash_excess`` are the bytes that are missing,
    ``fitting`` the names of smaller schemes that fit.
    """

    def __init__(
        self, message: str, sram_excess: int, flash_excess: int, fitting: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.sram_excess = sram_excess
        self.flash_excess = flash_excess
        self.fitting = tuple(fitting)


def sram_excess(analysis: Analysis, device: Device) -> int:
    """Bytes of RAM that are missing; 0 if it fits or the device has an operating system."""
    if not device.is_microcontroller:
        return 0
    return max(analysis.sram_bytes - device.ram_bytes, 0)


def flash_excess(constant_bytes: int, device: Device) -> int:
    """Bytes of flash that are missing; 0 if it fits or the device has an operating system."""
    return max(constant_bytes - device.flash_bytes, 0) if device.is_microcontroller else 0


def require_fit(
    network: Int8Network,
    scheme: Scheme,
    analysis: Analysis,
    device: Device,
    progress: Progress | None = None,
) -> None:
    """Raise ``MisfitError`` if the plan alone already needs more than the device has."""
    excess = sram_excess(analysis, device), flash_excess(analysis.constant_bytes, device)
    if any(excess):
        raise misfit(network, scheme, analysis, device, excess, progress)


def misfit(
    network: Int8Network,
    scheme: Scheme,
    analysis: Analysis,
    device: Device,
    excess: tuple[int, int],
    progress: Progress | None = None,
) -> MisfitError:
    """The error for ``excess`` bytes of SRAM and flash too many, by plan or by linker.

    The network's scheme is changed while smaller ones are tried, and set back.
    """
    there = (("SRAM", device.ram_bytes), ("flash", device.flash_bytes))
    parts = [
        f"{missing:,} bytes of {kind} more than its {size:,}"
        for missing, (kind, size) in zip(excess, there, strict=True)
        if missing
    ]
    peak = analysis.peak_values[0]
    fitting = fitting_schemes(network, scheme, device, analysis.stack_bytes, progress)
    advice = (
        f"these smaller schemes fit: {', '.join(fitting)}"
        if fitting
        else "no smaller scheme fits either: take a lower resolution or a larger device"
    )
    return MisfitError(
        f"scheme '{scheme.name}' does not fit {device.name}: it needs {' and '.join(parts)}; "
        f"the arena peaks in {analysis.peak_operator}, where %{peak.name} alone takes "
        f"{peak.bytes:,} of {analysis.arena_bytes:,} bytes; {advice}",
        *excess,
        fitting,
    )


def fitting_schemes(
    network: Int8Network,
    scheme: Scheme,
    device: Device,
    stack_bytes: int,
    progress: Progress | None = None,
) -> list[str]:
    """Names of the smaller schemes that fit: the paper's of the same network, then the head."""
    candidates = [paper.scheme for paper in smaller_schemes(scheme.name)]
    if scheme.name != head_only().name:
        candidates.append(head_only())
    found = []
    for done, candidate in enumerate(candidates):
        if progress is not None:
            progress("trying smaller schemes", done, len(candidates))
        apply_scheme(network, candidate)
        analysis = analyze_program(build_program(network, "candidate"), stack_bytes)
        if not sram_excess(analysis, device) and not flash_excess(analysis.constant_bytes, device):
            found.append(candidate.name)
    apply_scheme(network, scheme)
    return found
