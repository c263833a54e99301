# SPDX-License-Identifier: Apache-2.0
"""The demo: a sensor is mounted turned by 90 degrees, and its microcontroller learns in place.

The zoo's digits network was learned upright. The emulated device then meets turned digits that
were never shown to it, one at a time, and learns the first pointwise convolutions of the last
four blocks, their biases and the head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from trainlet.build import FIRMWARE, Analysis, Compiled, Settings, compile_network
from trainlet.devices import Device, MemoryMap
from trainlet.emit import Program, Rates
from trainlet.errors import TrainletError
from trainlet.importers import load_network
from trainlet.learn.digits import DigitSplits, load_digits
from trainlet.learn.images import to_int8
from trainlet.learn.on_device import accuracy, train
from trainlet.nn import Int8Network
from trainlet.run import EmulatedDevice, HostLibrary, Machine, Progress, Sizes, read_library
from trainlet.run.firmware import read_firmware
from trainlet.scheme import Scheme

NETWORK = "digits"
SCHEME = Scheme(
    "demo",
    biases=12,
    weights=tuple((f"blocks.{index}.pointwise1", 1.0) for index in (1, 2, 3, 4)),
)
STEPS = 1000
RATES = Rates(backbone=8e-3, head=1e-2)
"""From a search on this machine: 0.004 learns slower, 0.012 no better and forgets more."""
_LOWER_AFTER, _LOWER_BY = 0.75, 0.2  # the last quarter of the steps calms what the first found
_SEED = 0
_CURVE_POINTS = 10

Pair = tuple[float, float]
Data = tuple[NDArray[np.int8], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class DemoResult:
    """What the demo found.

    Accuracies are shares of the test images, ``turned`` and ``upright`` before and after;
    ``curve`` is (steps taken, accuracy turned). Instructions are those the emulator counted, a
    step's the mean of all; ``by_function`` is of the last step.
    """

    device: Device
    program: Program
    analysis: Analysis
    sizes: Sizes
    training_images: int
    test_images: int
    losses: tuple[float, ...]
    turned: Pair
    upright: Pair
    curve: tuple[tuple[int, float], ...]
    instructions_per_inference: int
    instructions_per_step: int
    by_function: dict[str, int]
    stack_high_water: int

    def seconds(self, instructions: int) -> float:
        """What so many instructions would take at the device's clock, one a cycle."""
        return instructions / self.device.clock_hz


@dataclass(frozen=True, eq=False)
class _Digits:
    """The images as the device gets them."""

    learn: Data
    turned: Data
    upright: Data

    @classmethod
    def of(cls, splits: DigitSplits, network: Int8Network) -> _Digits:
        parts = (splits.device.turned(), splits.test.turned(), splits.test)
        x = network.x
        return cls(*((to_int8(part.images, x.scale, x.zero), part.labels) for part in parts))


def run_demo(
    device: Device, folder: Path, steps: int = STEPS, progress: Progress | None = None
) -> DemoResult:
    """Compile into ``folder`` (new or empty), learn on the emulated device, and judge.

    The learning curve is measured on this machine by the same library, which must end with the
    same bits as the device.

    Raises:
        TrainletError: the device cannot be emulated or the step does not fit it.
    """
    if device.memory_map is None:
        raise TrainletError(
            f"the demo runs on an emulated microcontroller, and {device.name} is none: take "
            "stm32f746 or nrf52840"
        )
    if steps < 1:
        raise TrainletError(f"steps is {steps}; give 1 or more")
    network = load_network(NETWORK)
    digits = _Digits.of(load_digits(), network)
    settings = Settings(NETWORK, NETWORK, RATES)
    compiled = compile_network(network, SCHEME, device, folder, settings, progress)
    emulated = _emulate(compiled, device, device.memory_map)
    emulated.init(_SEED)
    turned = _judge(emulated, digits.turned, "before, turned", progress)
    inference = emulated.instructions()
    upright = _judge(emulated, digits.upright, "before, upright", progress)
    counts: list[int] = []
    losses = _learn(
        emulated,
        digits.learn,
        steps,
        lambda _: counts.append(emulated.instructions()),
        _named(progress, "the device learns"),
    )
    by_function = emulated.instructions_by_function()
    curve = _curve_on_this_machine(compiled.folder, emulated, losses, digits, progress)
    return DemoResult(
        device=device,
        program=compiled.program,
        analysis=compiled.analysis,
        sizes=emulated.firmware.sizes,
        training_images=len(digits.learn[0]),
        test_images=len(digits.turned[0]),
        losses=tuple(losses),
        turned=(turned, _judge(emulated, digits.turned, "after, turned", progress)),
        upright=(upright, _judge(emulated, digits.upright, "after, upright", progress)),
        curve=((0, turned), *curve),
        instructions_per_inference=inference,
        instructions_per_step=round(fmean(counts)),
        by_function=by_function,
        stack_high_water=emulated.stack_high_water(),
    )


def _emulate(compiled: Compiled, device: Device, memory: MemoryMap) -> EmulatedDevice:
    library = read_library(compiled.folder, NETWORK)
    return EmulatedDevice(read_firmware(compiled.folder / FIRMWARE, library, device.core, memory))


def _learn(
    machine: Machine,
    data: Data,
    steps: int,
    after_step: Callable[[int], None],
    progress: Progress | None,
) -> list[float]:
    """Train from the compiled rates on, which are lowered for the last quarter."""
    lower_at = int(steps * _LOWER_AFTER)

    def after(step: int) -> None:
        after_step(step)
        if step + 1 == lower_at:
            machine.set_learning_rate(RATES.backbone * _LOWER_BY, RATES.head * _LOWER_BY)

    return train(machine, *data, steps=steps, seed=_SEED, progress=progress, after_step=after)


def _curve_on_this_machine(
    folder: Path,
    device: EmulatedDevice,
    losses: list[float],
    digits: _Digits,
    progress: Progress | None,
) -> list[tuple[int, float]]:
    """Accuracy turned along the way: the same library here, which is quicker, bit for bit."""
    every = max(1, len(losses) // _CURVE_POINTS)
    curve: list[tuple[int, float]] = []
    with HostLibrary(folder, NETWORK, progress=progress) as host:
        host.init(_SEED)

        def after_step(step: int) -> None:
            if (step + 1) % every == 0 or step + 1 == len(losses):
                curve.append((step + 1, accuracy(host, *digits.turned)))

        name = "the same on this machine"
        again = _learn(host, digits.learn, len(losses), after_step, _named(progress, name))
        if again != losses or not np.array_equal(host.trainables(), device.trainables()):
            raise TrainletError(
                "the library learned something else on this machine than on the emulated "
                f"{device.firmware.core}: report it with the folder '{folder}'"
            )
    return curve


def _judge(machine: Machine, data: Data, what: str, progress: Progress | None) -> float:
    return accuracy(machine, *data, progress=_named(progress, what))


def _named(progress: Progress | None, name: str) -> Progress | None:
    """The same callback under a name of its own."""
    return None if progress is None else lambda _, done, total: progress(name, done, total)
