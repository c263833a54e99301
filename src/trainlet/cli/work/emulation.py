# SPDX-License-Identifier: Apache-2.0
"""Running a compiled library: its firmware on the emulated device, or itself on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from trainlet.build import FIRMWARE, read_manifest
from trainlet.cli.console import Report, progress_bar
from trainlet.cli.emulate import RunsOn
from trainlet.cli.work.examples import Examples, Part
from trainlet.cli.work.library import DEVICE_FILE
from trainlet.devices import Device, MemoryMap, load_device
from trainlet.errors import TrainletError
from trainlet.learn.on_device import accuracy, train
from trainlet.run import (
    EmulatedDevice,
    Firmware,
    HostLibrary,
    Machine,
    build_firmware,
    read_library,
)
from trainlet.run.firmware.image import read_firmware

_KEYS = {
    "model": str,
    "prefix": str,
    "scheme": str,
    "device": str,
    "classes": int,
    "input": dict,
    "learning_rate": float,
    "head_learning_rate": float,
    "planned": dict,
}


@dataclass(frozen=True)
class Session:
    """A compiled library and how to run it; `rates` are those of the backbone and the head."""

    folder: Path
    manifest: Mapping[str, Any]
    device: Device
    runs_on: RunsOn
    rates: tuple[float, float]
    steps: int
    seed: int

    @classmethod
    def open(
        cls,
        folder: Path,
        runs_on: RunsOn | None,
        rates: tuple[float | None, float | None],
        steps: int,
        seed: int,
    ) -> Session:
        """Read the manifest; None stands for what the library was compiled with."""
        manifest = _checked(read_manifest(folder), folder)
        own = folder / DEVICE_FILE
        device = load_device(own if own.is_file() else manifest["device"])
        if runs_on is None:
            runs_on = RunsOn.EMULATED if device.is_microcontroller else RunsOn.HOST
        if runs_on is RunsOn.EMULATED and not device.is_microcontroller:
            raise TrainletError(
                f"the library was compiled for {device.name}, which is no microcontroller and"
                " cannot be emulated: use --device host"
            )
        backbone = manifest["learning_rate"] if rates[0] is None else rates[0]
        head = manifest["head_learning_rate"] if rates[1] is None else rates[1]
        return cls(folder, manifest, device, runs_on, (backbone, head), steps, seed)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What happened; `firmware` and the counts are None where the library ran on this machine."""

    session: Session
    examples: Examples
    firmware: Firmware | None
    losses: list[float]
    instructions_per_inference: int | None
    instructions_per_step: int | None
    stack_high_water_bytes: int | None
    instructions_by_function: Mapping[str, int]
    accuracy_before: float | None
    accuracy_after: float | None


def run_session(session: Session, examples: Examples, *, quiet: bool) -> Outcome:
    """Infer once, then judge, learn and judge again."""
    with progress_bar(quiet) as report:
        machine, firmware = _machine(session, report)
        emulated = machine if isinstance(machine, EmulatedDevice) else None
        machine.init(session.seed)
        machine.set_learning_rate(*session.rates)
        machine.predict(examples.learn.images[0])
        inference = None if emulated is None else emulated.instructions()
        before = _judge(machine, examples.judge, report)
        counts: list[int] = []

        def after_step(_: int) -> None:
            if emulated is not None:
                counts.append(emulated.instructions())

        losses = train(
            machine,
            examples.learn.images,
            examples.learn.labels,
            steps=session.steps,
            seed=session.seed,
            progress=report,
            after_step=after_step,
        )
        by_function = emulated.instructions_by_function() if emulated and losses else {}
        after = _judge(machine, examples.judge, report)
    return Outcome(
        session,
        examples,
        firmware,
        losses,
        instructions_per_inference=inference,
        instructions_per_step=round(fmean(counts)) if counts else None,
        stack_high_water_bytes=None if emulated is None else emulated.stack_high_water(),
        instructions_by_function=by_function,
        accuracy_before=before,
        accuracy_after=after,
    )


def _judge(machine: Machine, part: Part | None, report: Report | None) -> float | None:
    return None if part is None else accuracy(machine, part.images, part.labels, report)


def _machine(session: Session, report: Report | None) -> tuple[Machine, Firmware | None]:
    prefix = session.manifest["prefix"]
    memory = session.device.memory_map
    if session.runs_on is RunsOn.HOST or memory is None:
        return HostLibrary(session.folder, prefix, progress=report), None
    firmware = _firmware(session, memory, report)
    return EmulatedDevice(firmware), firmware


def _firmware(session: Session, memory: MemoryMap, report: Report | None) -> Firmware:
    """Take the image in the folder, or build it where it is missing or older than a source."""
    folder, core = session.folder, session.device.core
    library = read_library(folder, session.manifest["prefix"])
    image = folder / FIRMWARE
    if image.is_file():
        sources = (path for ending in ("*.c", "*.h") for path in folder.glob(ending))
        if image.stat().st_mtime_ns >= max(path.stat().st_mtime_ns for path in sources):
            return read_firmware(image, library, core, memory)
    return build_firmware(
        folder,
        session.manifest["prefix"],
        core=core,
        memory=memory,
        target=image,
        stack_bytes=session.manifest["planned"]["stack_bytes"],
        progress=report,
    )


def _checked(manifest: Any, folder: Path) -> dict[str, Any]:
    """Refuse a manifest that something else wrote, or that was cut."""
    wrong = (
        list(_KEYS)
        if not isinstance(manifest, dict)
        else [key for key, kind in _KEYS.items() if not isinstance(manifest.get(key), kind)]
    )
    if wrong:
        raise TrainletError(
            f"the manifest in '{folder}' is not one of `trainlet compile` ({', '.join(wrong)}"
            " missing or wrong): compile the network again"
        )
    return dict(manifest)
