# SPDX-License-Identifier: Apache-2.0
"""What an emulated run says: its figures, and that plan, linker and emulator agree on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from trainlet.build import linked_figures
from trainlet.cli.console import Row, count, print_json, print_rows
from trainlet.cli.work.emulation import Outcome
from trainlet.errors import TrainletError
from trainlet.ops.overlap import align
from trainlet.report import Instructions, report_of_library, write_report
from trainlet.run import Firmware

_CONTEXT = "context"
_BENCH = "trainlet_"


def agreement(outcome: Outcome) -> dict[str, Any] | None:
    """The planner's, the linker's and the emulator's figures side by side; None without firmware.

    * `context_bytes`: arena + what learns + state of the plan = the symbol's size in the image.
    * `sram_bytes`: the plan's sum + what the test bench adds = what the linker took.
    * `stack_bytes`: planned = set aside by the linker >= the most that was used.
    """
    firmware, planned = outcome.firmware, outcome.session.manifest["planned"]
    if firmware is None:
        return None
    context = sum(planned[f"{part}_bytes"] for part in ("arena", "trainable", "state"))
    linked_context = _ram_bytes(firmware, _CONTEXT)
    bench = _ram_bytes(firmware, _BENCH)
    sram, stack = firmware.sizes.sram_bytes, firmware.sizes.stack
    used = outcome.stack_high_water_bytes or 0
    rows: dict[str, dict[str, Any]] = {
        "context_bytes": {
            "planned": context,
            "linked": linked_context,
            "agree": context == linked_context,
        },
        "sram_bytes": {
            "planned": planned["sram_bytes"],
            "test_bench": bench,
            "linked": sram,
            "agree": planned["sram_bytes"] + bench == sram,
        },
        "stack_bytes": {
            "planned": planned["stack_bytes"],
            "linked": stack,
            "high_water": used,
            "agree": planned["stack_bytes"] == stack and used <= stack,
        },
    }
    return {**rows, "agree": all(row["agree"] for row in rows.values())}


def _ram_bytes(firmware: Firmware, prefix: str) -> int:
    """Bytes of the objects in RAM whose name begins so, each rounded up to the alignment."""
    start = firmware.memory.ram_origin
    end = start + firmware.memory.ram_bytes
    return sum(
        align(symbol.size)
        for symbol in firmware.symbols.objects
        if symbol.name.startswith(prefix) and start <= symbol.address < end
    )


def outcome_data(outcome: Outcome) -> dict[str, Any]:
    """The figures as plain data; null where the library ran on this machine."""
    session, examples, firmware = outcome.session, outcome.examples, outcome.firmware
    manifest = session.manifest
    planned = manifest["planned"]
    judged = None if examples.judge is None else len(examples.judge.labels)
    return {
        "model": manifest["model"],
        "scheme": manifest["scheme"],
        "device": manifest["device"],
        "runs_on": session.runs_on.value,
        "sram_bytes": None if firmware is None else firmware.sizes.sram_bytes,
        "planned_sram_bytes": planned["sram_bytes"],
        "arena_bytes": planned["arena_bytes"],
        "arena_lower_bound_bytes": planned["arena_lower_bound_bytes"],
        "trainable_bytes": planned["trainable_bytes"],
        "stack_bytes": planned["stack_bytes"],
        "stack_high_water_bytes": outcome.stack_high_water_bytes,
        "flash_bytes": None if firmware is None else firmware.sizes.flash_bytes,
        "instructions_per_inference": outcome.instructions_per_inference,
        "instructions_per_step": outcome.instructions_per_step,
        "agrees": agreement(outcome),
        "images": examples.source,
        "images_used": len(examples.learn.labels),
        "images_skipped": list(examples.skipped),
        "steps": session.steps,
        "seed": session.seed,
        "learning_rate": session.rates[0],
        "head_learning_rate": session.rates[1],
        "evaluated_split": examples.judge_split,
        "evaluated_images": judged,
        "accuracy_before": outcome.accuracy_before,
        "accuracy_after": outcome.accuracy_after,
        "losses": outcome.losses,
    }


def write_outcome(outcome: Outcome, path: Path) -> None:
    """Write the report page of the run."""
    session, firmware = outcome.session, outcome.firmware
    data = report_of_library(session.folder, session.manifest, session.device)
    counted = Instructions(
        outcome.instructions_per_inference,
        outcome.instructions_per_step,
        outcome.instructions_by_function,
    )
    accuracies = {}
    if outcome.accuracy_before is not None and outcome.accuracy_after is not None:
        accuracies[outcome.examples.judge_split or "test"] = (
            outcome.accuracy_before,
            outcome.accuracy_after,
        )
    data = replace(
        data,
        linked=None if firmware is None else linked_figures(firmware.sizes),
        losses=outcome.losses,
        before_after=accuracies,
        instructions=None if firmware is None else counted,
        stack_high_water=outcome.stack_high_water_bytes,
    )
    write_report(path, data)


def print_outcome(outcome: Outcome, as_json: bool) -> None:
    """Print the figures as JSON or as tables; raises TrainletError if they disagree."""
    if as_json:
        print_json(outcome_data(outcome))
    else:
        _print_tables(outcome)
    agrees = agreement(outcome)
    if agrees is not None and not agrees["agree"]:
        raise TrainletError(
            "the plan's, the linker's and the emulator's figures disagree, as shown; compile the"
            " network again, and report it if that does not mend it"
        )


def _print_tables(outcome: Outcome) -> None:
    session, examples = outcome.session, outcome.examples
    manifest = session.manifest
    place = f"emulated {manifest['device']}" if outcome.firmware else "this machine"
    print(f"{manifest['model']}, scheme {manifest['scheme']}, on {place}")
    print(f"images: {examples.source}, {len(examples.learn.labels)} used")
    if examples.skipped:
        print(f"skipped, not to be decoded: {len(examples.skipped)}: {_some(examples.skipped)}")
    if outcome.firmware is not None:
        print_rows("\nPlan, linker and emulator side by side, bytes", _agreement_rows(outcome))
        rows: list[Row] = [
            ("flash", count(outcome.firmware.sizes.flash_bytes), "bytes"),
            ("an inference", count(outcome.instructions_per_inference or 0), "instructions"),
        ]
        if outcome.instructions_per_step is not None:
            rows.append(("a step", count(outcome.instructions_per_step), "instructions, the mean"))
        print_rows("\nCost (instructions, not cycles: they say nothing of wait states)", rows)
    if outcome.losses:
        print_rows("\nLearning", _learning_rows(outcome))


def _agreement_rows(outcome: Outcome) -> list[Row]:
    agrees = agreement(outcome)
    assert agrees is not None
    planned = outcome.session.manifest["planned"]
    context, sram, stack = (agrees[f"{name}_bytes"] for name in ("context", "sram", "stack"))
    bound = planned["arena_lower_bound_bytes"]
    return [
        ("arena", count(planned["arena_bytes"]), f"lower bound {count(bound)}"),
        ("what learns", count(planned["trainable_bytes"])),
        ("context planned", count(context["planned"]), "arena, what learns, state"),
        ("context linked", count(context["linked"]), _verdict(context["agree"])),
        ("SRAM planned", count(sram["planned"]), "context and stack"),
        ("test bench", count(sram["test_bench"]), "what the emulator talks to"),
        ("SRAM linked", count(sram["linked"]), _verdict(sram["agree"])),
        ("stack set aside", count(stack["linked"])),
        ("stack used", count(stack["high_water"]), _verdict(stack["agree"])),
    ]


def _verdict(agree: bool) -> str:
    return "agrees" if agree else "DISAGREES"


def _learning_rows(outcome: Outcome) -> list[Row]:
    losses = outcome.losses
    some = max(1, len(losses) // 10)
    remark = f"mean of {some} of {len(losses)} steps"
    rows: list[Row] = [
        ("loss at first", f"{fmean(losses[:some]):.4f}", remark),
        ("loss at last", f"{fmean(losses[-some:]):.4f}", remark),
    ]
    if outcome.accuracy_before is not None and outcome.examples.judge is not None:
        of = f"of {len(outcome.examples.judge.labels)} images of {outcome.examples.judge_split}"
        rows.append(("accuracy before", f"{outcome.accuracy_before:.1%}", of))
        rows.append(("accuracy after", f"{outcome.accuracy_after:.1%}", of))
    return rows


def _some(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
