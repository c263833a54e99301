# SPDX-License-Identifier: Apache-2.0
"""From network, scheme and device to a folder with the C library, its plan and its figures."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainlet._version import VERSION
from trainlet.build.analysis import DEFAULT_STACK_BYTES, Analysis, analyze_program
from trainlet.build.fit import MisfitError, misfit, require_fit
from trainlet.build.program import build_program
from trainlet.devices import Device
from trainlet.emit import Program, Rates, check_prefix, emit_library
from trainlet.errors import TrainletError
from trainlet.graph import format_graph
from trainlet.nn import Int8Network, apply_scheme
from trainlet.planning import problem_to_json
from trainlet.run import DoesNotFitError, Sizes, build_firmware
from trainlet.scheme import Scheme, to_toml

Progress = Callable[[str, int, int], None]
MANIFEST = "manifest.json"
FIRMWARE = "firmware.elf"


@dataclass(frozen=True)
class Settings:
    """What the user chose beside network, scheme and device."""

    name: str
    prefix: str
    rates: Rates = field(default_factory=Rates)
    stack_bytes: int = DEFAULT_STACK_BYTES
    cc: str | None = None


@dataclass(frozen=True)
class Compiled:
    """A finished library: the program, its figures, and the linked image's (microcontrollers)."""

    folder: Path
    program: Program
    analysis: Analysis
    sizes: Sizes | None


def compile_network(
    network: Int8Network,
    scheme: Scheme,
    device: Device,
    folder: Path,
    settings: Settings,
    progress: Progress | None = None,
) -> Compiled:
    """Write the library into ``folder``, which must not exist or be empty; all or nothing.

    For a microcontroller the firmware is linked too, so that the figures are
    the linker's.  Raises ``MisfitError`` if it does not fit.
    """
    check_prefix(settings.prefix)
    require_empty(folder)
    apply_scheme(network, scheme)
    program = build_program(network, settings.name)
    analysis = analyze_program(program, settings.stack_bytes)
    require_fit(network, scheme, analysis, device, progress)
    new_parents = [p for p in folder.parents if not p.exists()]
    work = _work_folder(folder)
    try:
        _write_library(work, program, settings)
        sizes = _linked(work, network, scheme, device, analysis, settings, progress)
        _write(work / MANIFEST, _manifest(program, analysis, sizes, scheme, device, settings))
        work.chmod(0o755)
        if folder.exists():
            folder.rmdir()
        work.rename(folder)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        with contextlib.suppress(OSError):  # another run may have put something there
            for parent in new_parents:
                parent.rmdir()
        raise
    return Compiled(folder, program, analysis, sizes)


def require_empty(folder: Path) -> None:
    """Refuse a folder that holds anything, or a path that is a file."""
    if folder.is_dir() and not any(folder.iterdir()):
        return
    if folder.exists():
        raise TrainletError(
            f"'{folder}' is not an empty folder: give another one with -o, or empty it"
        )


def _work_folder(folder: Path) -> Path:
    """A folder beside the one that is wanted, to be renamed once it is complete."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise TrainletError(
            f"'{folder}' cannot be made ({error.strerror}): give another folder with -o"
        ) from error


def link(
    folder: Path, device: Device, settings: Settings, progress: Progress | None = None
) -> Sizes | None:
    """Link the test firmware of a microcontroller; None for a device with an operating system."""
    if device.memory_map is None:
        return None
    try:
        firmware = build_firmware(
            folder,
            settings.prefix,
            core=device.core,
            memory=device.memory_map,
            target=folder / FIRMWARE,
            stack_bytes=settings.stack_bytes,
            cc=settings.cc,
            progress=progress,
        )
    except DoesNotFitError as error:
        raise MisfitError(str(error), error.sram_excess, error.flash_excess) from error
    return firmware.sizes


def _linked(
    folder: Path,
    network: Int8Network,
    scheme: Scheme,
    device: Device,
    analysis: Analysis,
    settings: Settings,
    progress: Progress | None,
) -> Sizes | None:
    """Link, and say what would fit where the linker finds that the step does not."""
    try:
        return link(folder, device, settings, progress)
    except MisfitError as error:
        excess = error.sram_excess, error.flash_excess
        raise misfit(network, scheme, analysis, device, excess, progress) from error


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a compiled library; ``TrainletError`` if the folder holds none."""
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TrainletError(
            f"'{folder}' holds no compiled library: run `trainlet compile MODEL -o {folder}` first"
        ) from None
    except (OSError, ValueError) as error:
        raise TrainletError(f"'{folder / MANIFEST}' cannot be read: {error}") from None
    return manifest


def _write_library(folder: Path, program: Program, settings: Settings) -> None:
    for name, text in emit_library(program, settings.prefix, settings.rates).items():
        _write(folder / name, text)
    _write(folder / "step.graph", format_graph(program.step.graph))
    _write(folder / "plan.json", program.step.plan.to_json())
    _write(folder / "problem.json", problem_to_json(program.step.problem))


def _manifest(
    program: Program,
    analysis: Analysis,
    sizes: Sizes | None,
    scheme: Scheme,
    device: Device,
    settings: Settings,
) -> str:
    channels, rows, columns = program.input_shape
    data = {
        "trainlet": VERSION,
        "model": settings.name,
        "prefix": settings.prefix,
        "scheme": scheme.name,
        "scheme_toml": to_toml(scheme),
        "device": device.name,
        "classes": program.classes,
        "input": {
            "rows": rows,
            "columns": columns,
            "channels": channels,
            "scale": program.input_scale,
            "zero": program.input_zero,
        },
        "learning_rate": settings.rates.backbone,
        "head_learning_rate": settings.rates.head,
        "planned": analysis.to_data(),
        "linked": None if sizes is None else linked_figures(sizes),
    }
    return json.dumps(data, indent=2) + "\n"


def linked_figures(sizes: Sizes) -> dict[str, int]:
    """The linker's figures as plain data."""
    names = ("text", "rodata", "data", "bss", "stack", "flash_bytes", "sram_bytes")
    return {name: int(getattr(sizes, name)) for name in names}


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
