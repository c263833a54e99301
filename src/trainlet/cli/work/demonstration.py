# SPDX-License-Identifier: Apache-2.0
"""Running the demo, its report, and what to say about it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from trainlet.build import linked_figures, require_empty
from trainlet.cli.console import Row, count, print_json, print_rows, progress_bar
from trainlet.devices import load_device
from trainlet.learn.demo import RATES, SCHEME, STEPS, DemoResult, run_demo
from trainlet.report import Instructions, ReportData, write_report

LIBRARY = "library"
REPORT = "report.html"
_ASSUMED = "one instruction a cycle is assumed: the emulator counts instructions, not cycles"


def demonstrate(folder: Path, device: str, steps: int | None, *, quiet: bool) -> DemoResult:
    """Run the demo; the library and the report lie in ``folder`` then, which must be empty."""
    target = load_device(device)
    require_empty(folder)
    with progress_bar(quiet) as report:
        library = folder.resolve() / LIBRARY
        result = run_demo(target, library, STEPS if steps is None else steps, report)
    write_report(folder / REPORT, report_of(result))
    return result


def report_of(result: DemoResult) -> ReportData:
    """Everything that the report shows."""
    clock = f"{result.device.clock_hz / 1e6:g} MHz"
    planned = ReportData.of_program(
        result.program,
        title="Digits, turned by 90 degrees",
        device=result.device,
        scheme=SCHEME.name,
        stack_bytes=result.analysis.stack_bytes,
    )
    notes = (
        f"{len(result.losses):,} steps, one image each, on {result.training_images} images that "
        f"the network had never been shown; accuracies are of {result.test_images} others.",
        f"At {clock} an inference takes {_time(result, result.instructions_per_inference)} and a "
        f"training step {_time(result, result.instructions_per_step)}, where {_ASSUMED}.",
        "The same library on this machine ended with the same bits as on the emulated device.",
    )
    return replace(
        planned,
        linked=linked_figures(result.sizes),
        losses=result.losses,
        accuracies=result.curve,
        before_after={"turned": result.turned, "upright": result.upright},
        instructions=Instructions(
            result.instructions_per_inference, result.instructions_per_step, result.by_function
        ),
        stack_high_water=result.stack_high_water,
        notes=notes,
    )


def demo_data(result: DemoResult, folder: Path) -> dict[str, Any]:
    """The figures as plain data."""
    analysis, sizes = result.analysis, result.sizes
    return {
        "model": result.program.name,
        "scheme": SCHEME.name,
        "device": result.device.name,
        "sram_bytes": sizes.sram_bytes,
        "arena_bytes": analysis.arena_bytes,
        "arena_lower_bound_bytes": analysis.arena_lower_bound_bytes,
        "weight_bytes": analysis.weight_bytes,
        "bias_bytes": analysis.bias_bytes,
        "head_bytes": analysis.head_bytes,
        "trainable_bytes": analysis.trainable_bytes,
        "state_bytes": analysis.state_bytes,
        "stack_bytes": analysis.stack_bytes,
        "stack_high_water_bytes": result.stack_high_water,
        "flash_bytes": sizes.flash_bytes,
        "instructions_per_inference": result.instructions_per_inference,
        "instructions_per_step": result.instructions_per_step,
        "clock_hz": result.device.clock_hz,
        "seconds_per_inference": result.seconds(result.instructions_per_inference),
        "seconds_per_step": result.seconds(result.instructions_per_step),
        "seconds_assume": _ASSUMED,
        "training_images": result.training_images,
        "test_images": result.test_images,
        "steps": len(result.losses),
        "learning_rate": RATES.backbone,
        "head_learning_rate": RATES.head,
        "accuracy_turned": _pair(result.turned),
        "accuracy_upright": _pair(result.upright),
        "accuracy_curve": [list(point) for point in result.curve],
        "losses": list(result.losses),
        "library": str(folder / LIBRARY),
        "report": str(folder / REPORT),
    }


def print_demo(result: DemoResult, folder: Path, as_json: bool) -> None:
    """Print the figures as JSON or as tables."""
    if as_json:
        print_json(demo_data(result, folder))
        return
    print(
        f"A network that read digits upright; the sensor is now turned by 90 degrees, and the\n"
        f"emulated {result.device.name} has learned in place: {len(result.losses):,} steps, one "
        f"image each."
    )
    print_rows(f"\nAccuracy, of {result.test_images} images it never learned", _learning(result))
    print_rows("\nSRAM, bytes", _memory(result))
    print_rows(f"\nCost at {result.device.clock_hz / 1e6:g} MHz", _cost(result))
    print(f"({_ASSUMED})\n\nThe library is in {folder / LIBRARY}, the report is {folder / REPORT}")


def _learning(result: DemoResult) -> list[Row]:
    some = max(1, len(result.losses) // 10)
    first, last = fmean(result.losses[:some]), fmean(result.losses[-some:])
    way = ", ".join(f"{share:.0%}" for _, share in result.curve)
    return [
        ("turned", _change(result.turned), f"on the way {way}"),
        ("upright", _change(result.upright)),
        ("loss", f"{first:.2f} → {last:.2f}", f"means of the first and last {some} steps"),
    ]


def _memory(result: DemoResult) -> list[Row]:
    analysis, sizes = result.analysis, result.sizes
    bound = f"lower bound {count(analysis.arena_lower_bound_bytes)}"
    return [
        ("arena", count(analysis.arena_bytes), f"activations, gradients, scratch; {bound}"),
        ("weights that learn", count(analysis.weight_bytes)),
        ("biases that learn", count(analysis.bias_bytes)),
        ("head", count(analysis.head_bytes), "float32"),
        ("state", count(analysis.state_bytes)),
        ("stack", count(analysis.stack_bytes), f"{count(result.stack_high_water)} used"),
        ("test bench", count(sizes.sram_bytes - analysis.sram_bytes), "to talk to the emulator"),
        ("linked", count(sizes.sram_bytes), f"of {count(result.device.ram_bytes)}"),
        ("flash", count(sizes.flash_bytes), f"of {count(result.device.flash_bytes)}"),
    ]


def _cost(result: DemoResult) -> list[Row]:
    return [
        (name, count(number), f"instructions, about {_time(result, number)}")
        for name, number in (
            ("an inference", result.instructions_per_inference),
            ("a training step", result.instructions_per_step),
        )
    ]


def _time(result: DemoResult, instructions: int) -> str:
    return f"{1000 * result.seconds(instructions):.1f} ms"


def _change(pair: tuple[float, float]) -> str:
    return f"{pair[0]:.1%} → {pair[1]:.1%}"


def _pair(pair: tuple[float, float]) -> dict[str, float]:
    return {"before": pair[0], "after": pair[1]}
