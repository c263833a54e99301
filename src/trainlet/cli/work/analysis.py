# SPDX-License-Identifier: Apache-2.0
"""Does a step fit? The plan's figures, and the linker's where there is a firmware."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainlet.build import (
    Analysis,
    MisfitError,
    Settings,
    analyze_program,
    build_program,
    fitting_schemes,
    flash_excess,
    linked_figures,
    sram_excess,
)
from trainlet.build.compile import link as link_firmware
from trainlet.cli.console import Report, Row, count, print_json, print_rows, progress_bar
from trainlet.cli.work.request import Request
from trainlet.emit import Program, emit_library
from trainlet.nn import apply_scheme
from trainlet.run import Sizes

_PREFIX = "analysis"
_SHOWN_VALUES = 6


@dataclass(frozen=True)
class Found:
    """What an analysis found; `sizes` is None where nothing was linked."""

    request: Request
    analysis: Analysis
    sizes: Sizes | None
    sram_excess: int
    flash_excess: int
    fitting: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether nothing is missing."""
        return not self.sram_excess and not self.flash_excess

    @property
    def sram_bytes(self) -> int:
        """The linker's figure, or the plan's where nothing was linked."""
        return self.analysis.sram_bytes if self.sizes is None else self.sizes.sram_bytes


def analyze_step(request: Request, *, link: bool, quiet: bool) -> Found:
    """Plan the step and, if it may fit a microcontroller and `link`, link its firmware."""
    with progress_bar(quiet) as report:
        apply_scheme(request.network, request.scheme)
        if report is not None:
            report("capture and plan", 0, 1)
        program = build_program(request.network, request.model)
        if report is not None:
            report("capture and plan", 1, 1)
        analysis = analyze_program(program, request.stack_bytes)
        ram = sram_excess(analysis, request.device)
        flash = flash_excess(analysis.constant_bytes, request.device)
        sizes = None
        if link and not ram and not flash:
            try:
                sizes = _linked(program, request, report)
            except MisfitError as error:
                ram, flash = error.sram_excess, error.flash_excess
        fitting: list[str] = []
        if ram or flash:
            fitting = fitting_schemes(
                request.network, request.scheme, request.device, request.stack_bytes, report
            )
    return Found(request, analysis, sizes, ram, flash, tuple(fitting))


def _linked(program: Program, request: Request, report: Report | None) -> Sizes | None:
    """Emit into a folder that goes away, and link; None where there is no firmware."""
    settings = Settings(request.model, _PREFIX, stack_bytes=request.stack_bytes)
    with tempfile.TemporaryDirectory(prefix="trainlet-") as name:
        for file, text in emit_library(program, _PREFIX, settings.rates).items():
            (Path(name) / file).write_text(text, encoding="utf-8")
        return link_firmware(Path(name), request.device, settings, report)


def require_fitting(found: Found) -> None:
    """Raise MisfitError, with the bytes that are missing and what would fit, if it does not fit."""
    if found.fits:
        return
    kinds = (("SRAM", found.sram_excess), ("flash", found.flash_excess))
    missing = " and ".join(f"{count(n)} bytes of {kind} too many" for kind, n in kinds if n)
    peak = found.analysis.peak_values[0]
    advice = (
        f"these smaller schemes fit: {', '.join(found.fitting)}"
        if found.fitting
        else "no smaller scheme fits either: take a lower resolution or a larger device"
    )
    raise MisfitError(
        f"scheme '{found.request.scheme.name}' does not fit {found.request.device.name}: {missing},"
        f" %{peak.name} alone takes {count(peak.bytes)} at the peak; {advice}",
        found.sram_excess,
        found.flash_excess,
    )


def analysis_data(found: Found) -> dict[str, Any]:
    """Everything as plain data; sums by the linker where it ran, `planned_` ones by the plan."""
    analysis, device, sizes = found.analysis, found.request.device, found.sizes
    return {
        "model": found.request.model,
        "scheme": found.request.scheme.name,
        "device": device.name,
        "classes": found.request.network.classes,
        "input_shape": list(found.request.network.input_shape),
        "fits": found.fits,
        "sram_excess_bytes": found.sram_excess,
        "flash_excess_bytes": found.flash_excess,
        "fitting_schemes": list(found.fitting),
        "device_ram_bytes": device.ram_bytes,
        "device_flash_bytes": device.flash_bytes,
        **analysis.to_data(),
        "planned_sram_bytes": analysis.sram_bytes,
        "sram_bytes": found.sram_bytes,
        "flash_bytes": None if sizes is None else sizes.flash_bytes,
        "linked": None if sizes is None else linked_figures(sizes),
    }


def print_analysis(found: Found, as_json: bool) -> None:
    """Print the figures as JSON or as tables."""
    if as_json:
        print_json(analysis_data(found))
        return
    request, analysis = found.request, found.analysis
    print(f"{request.model}, scheme {request.scheme.name}, on {request.device.name}\n")
    print_rows("SRAM, bytes", sram_rows(analysis, found.sizes, request.device.ram_bytes))
    print_rows("\nFlash, bytes", flash_rows(analysis, found.sizes, request.device.flash_bytes))
    print_rows("\nWork of a step, multiply-accumulates", work_rows(analysis))
    peak = analysis.peak_values[:_SHOWN_VALUES]
    rows = [(f"%{value.name}", count(value.bytes)) for value in peak]
    print_rows(f"\nAt the arena's peak, in {analysis.peak_operator}, bytes", rows)
    if found.fits:
        print("\nIt fits.")


def sram_rows(analysis: Analysis, sizes: Sizes | None, there: int) -> list[Row]:
    """SRAM by part, its sum, and the linker's."""
    bound = analysis.arena_lower_bound_bytes
    above = analysis.arena_bytes - bound
    remark = "its lower bound" if not above else f"{count(above)} above its lower bound"
    rows: list[Row] = [
        ("arena", count(analysis.arena_bytes), remark),
        ("weights that learn", count(analysis.weight_bytes)),
        ("biases that learn", count(analysis.bias_bytes)),
        ("head", count(analysis.head_bytes)),
        ("state", count(analysis.state_bytes)),
        ("stack", count(analysis.stack_bytes), "set aside"),
        ("planned", count(analysis.sram_bytes), "the sum"),
    ]
    if sizes is not None:
        rows.append(("linked", count(sizes.sram_bytes), "the test bench's mailbox included"))
    return [*rows, ("device", count(there))]


def flash_rows(analysis: Analysis, sizes: Sizes | None, there: int) -> list[Row]:
    """Flash by part."""
    rows: list[Row] = [("constants", count(analysis.constant_bytes), "frozen and first weights")]
    if sizes is not None:
        rows.append(("code", count(sizes.text)))
        rows.append(("linked", count(sizes.flash_bytes), "everything that is flashed"))
    return [*rows, ("device", count(there))]


def work_rows(analysis: Analysis) -> list[Row]:
    """Multiply-accumulates of a training step."""
    return [
        ("forward", count(analysis.macs_forward)),
        ("backward", count(analysis.macs_backward)),
    ]
