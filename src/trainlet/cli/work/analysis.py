# SPDX-License-Identifier: Apache-2.0
"""Does a step fit? The plan's figures, and the linker's where there is a firmware."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trainlet.build import (
    Analysis,
    MisfitError,
    Settings,
    analyze_program,
    build_program,
    flash_excess,
    linked_figures,
    misfit,
    sram_excess,
)
from trainlet.build.compile import link as link_firmware
from trainlet.cli.console import Report, Row, count, print_json, print_rows, progress_bar
from trainlet.cli.work.request import Request
from trainlet.emit import Program, emit_library
from trainlet.nn import apply_scheme
from trainlet.report import ReportData, write_report
from trainlet.run import Sizes

_PREFIX = "analysis"
_SHOWN_VALUES = 6


@dataclass(frozen=True)
class Found:
    """What an analysis found; `sizes` is None where nothing was linked."""

    request: Request
    program: Program
    analysis: Analysis
    sizes: Sizes | None
    misfit: MisfitError | None

    @property
    def fits(self) -> bool:
        """Whether nothing is missing."""
        return self.misfit is None

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
        sizes, excess = None, _planned_excess(analysis, request)
        if link and not any(excess):
            try:
                sizes = _linked(program, request, report)
            except MisfitError as error:
                excess = error.sram_excess, error.flash_excess
        misfits = _misfit(request, analysis, excess, report) if any(excess) else None
    return Found(request, program, analysis, sizes, misfits)


def _planned_excess(analysis: Analysis, request: Request) -> tuple[int, int]:
    device = request.device
    return sram_excess(analysis, device), flash_excess(analysis.constant_bytes, device)


def _misfit(
    request: Request, analysis: Analysis, excess: tuple[int, int], report: Report | None
) -> MisfitError:
    return misfit(request.network, request.scheme, analysis, request.device, excess, report)


def _linked(program: Program, request: Request, report: Report | None) -> Sizes | None:
    """Emit into a folder that goes away, and link; None where there is no firmware."""
    settings = Settings(request.model, _PREFIX, stack_bytes=request.stack_bytes)
    with tempfile.TemporaryDirectory(prefix="trainlet-") as name:
        for file, text in emit_library(program, _PREFIX, settings.rates).items():
            (Path(name) / file).write_text(text, encoding="utf-8")
        return link_firmware(Path(name), request.device, settings, report)


def require_fitting(found: Found) -> None:
    """Raise MisfitError, with the bytes that are missing and what would fit, if it does not fit."""
    if found.misfit is not None:
        raise found.misfit


def write_analysis(found: Found, path: Path) -> None:
    """Write the report page: where every value of the step lies, and for how long."""
    request = found.request
    data = ReportData.of_program(
        found.program,
        title=f"{request.model} on {request.device.name}",
        device=request.device,
        scheme=request.scheme.name,
        stack_bytes=request.stack_bytes,
    )
    linked = None if found.sizes is None else linked_figures(found.sizes)
    write_report(path, replace(data, linked=linked))


def analysis_data(found: Found) -> dict[str, Any]:
    """Everything as plain data; sums by the linker where it ran, `planned_` ones by the plan."""
    analysis, device, sizes = found.analysis, found.request.device, found.sizes
    error = found.misfit
    return {
        "model": found.request.model,
        "scheme": found.request.scheme.name,
        "device": device.name,
        "classes": found.request.network.classes,
        "input_shape": list(found.request.network.input_shape),
        "fits": found.fits,
        "sram_excess_bytes": 0 if error is None else error.sram_excess,
        "flash_excess_bytes": 0 if error is None else error.flash_excess,
        "fitting_schemes": [] if error is None else list(error.fitting),
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
