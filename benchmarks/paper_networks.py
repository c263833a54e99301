# SPDX-License-Identifier: Apache-2.0
"""The paper's three networks under its fifteen schemes: what fits, what it takes, what agrees.

    python benchmarks/paper_networks.py            # writes docs/evidence/paper-networks.{json,md}
    python benchmarks/paper_networks.py --only mcunet-49kb

Needs ../shared (or TRAINLET_SHARED).  Every scheme is planned for the stm32f746; every one that
fits is compiled, linked and trained on the emulated Cortex-M7 on ten flower classes.  On the
smallest scheme of each network the logits of 20 photographs are compared between PyTorch, host C
and Cortex-M7, and the weights after 20 steps between host C and Cortex-M7.  A scheme that is done
is kept in build/paper-networks and not measured again; remove the folder to start afresh.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch

from trainlet.build import MisfitError, Settings, analyze_program, build_program, compile_network
from trainlet.devices import Device, load_device
from trainlet.importers import load_network
from trainlet.learn.images import LabelledImages, load_images, to_int8
from trainlet.learn.on_device import train
from trainlet.nn import Int8Network, apply_scheme
from trainlet.run import EmulatedDevice, HostLibrary
from trainlet.run.firmware.image import read_firmware
from trainlet.run.library import read_library
from trainlet.scheme import PaperScheme, paper_schemes

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("TRAINLET_SHARED", ROOT.parent / "shared"))
RESOLUTION, CLASSES, STEPS, AGREEMENT = 128, 10, 20, 20
# What the released engine needs for MCUNet-5FPS at 128 x 128, 49 KB scheme, 10 classes.
RELEASED = {
    "sram_bytes": 237_456,
    "arena_bytes": 189_800,
    "instructions_per_inference": 65_035_260,
    "instructions_per_step": 106_370_597,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="measure schemes whose name begins so")
    chosen = parser.parse_args().only
    photos = load_images(
        SHARED / "datasets" / "flowers102_trainval_144.zip",
        rows=RESOLUTION,
        columns=RESOLUTION,
        channels=3,
        split="train",
        classes_limit=CLASSES,
    )
    rows = [_row(paper, photos) for paper in paper_schemes() if paper.name.startswith(chosen)]
    if not chosen:
        evidence = ROOT / "docs" / "evidence"
        data = {
            "command": "python benchmarks/paper_networks.py",
            "released": RELEASED,
            "rows": rows,
        }
        (evidence / "paper-networks.json").write_text(json.dumps(data, indent=1) + "\n")
        (evidence / "paper-networks.md").write_text(_page(rows))
    print(_table(rows))


def _row(paper: PaperScheme, photos: LabelledImages) -> dict[str, Any]:
    kept = ROOT / "build" / "paper-networks" / f"{paper.name}.json"
    if kept.exists():
        row: dict[str, Any] = json.loads(kept.read_text())
        return row
    row = _measure(paper, photos)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(row, indent=1))
    return row


def _measure(paper: PaperScheme, photos: LabelledImages) -> dict[str, Any]:
    device = load_device("stm32f746")
    model = SHARED / "models" / "tiny-training" / f"{paper.network}.pkl"
    network = load_network(model, classes=CLASSES, resolution=RESOLUTION)
    apply_scheme(network, paper.scheme)
    analysis = analyze_program(build_program(network, paper.name))
    row = {
        "network": paper.network,
        "scheme": paper.name,
        "planned_sram_bytes": analysis.sram_bytes,
        "arena_bytes": analysis.arena_bytes,
        "arena_lower_bound_bytes": analysis.arena_lower_bound_bytes,
        "trainable_bytes": analysis.trainable_bytes,
        "macs_forward": analysis.macs_forward,
        "macs_backward": analysis.macs_backward,
        "excess_bytes": max(analysis.sram_bytes - device.ram_bytes, 0),
    }
    with tempfile.TemporaryDirectory() as folder:
        try:
            row |= _run(network, paper, device, Path(folder) / "library", photos)
        except MisfitError as error:
            row |= {"fits": False, "why": str(error)}
    print(json.dumps(row), flush=True)
    return row


def _run(
    network: Int8Network, paper: PaperScheme, device: Device, folder: Path, photos: LabelledImages
) -> dict[str, Any]:
    settings = Settings(name=paper.name, prefix="net")
    compiled = compile_network(network, paper.scheme, device, folder, settings)
    assert compiled.sizes is not None
    assert device.memory_map is not None
    library = read_library(folder, "net")
    firmware = read_firmware(folder / "firmware.elf", library, device.core, device.memory_map)
    emulated, host = EmulatedDevice(firmware), HostLibrary(folder, "net")
    images = to_int8(photos.images, network.x.scale, network.x.zero)
    for machine in (emulated, host):
        machine.init(0)
    exact = [_logits_agree(network, host, emulated, image) for image in _some(images)]
    counted: list[int] = []
    emulated.predict(images[0])
    inference = emulated.instructions()
    losses = train(
        emulated,
        images,
        photos.labels,
        steps=STEPS,
        after_step=lambda _: counted.append(emulated.instructions()),
    )
    train(host, images, photos.labels, steps=STEPS)
    return {
        "fits": True,
        "sram_bytes": compiled.sizes.sram_bytes,
        "flash_bytes": compiled.sizes.flash_bytes,
        "stack_bytes": compiled.sizes.stack,
        "stack_high_water_bytes": emulated.stack_high_water(),
        "instructions_per_inference": inference,
        "instructions_per_step": round(fmean(counted)),
        "losses": [round(loss, 6) for loss in losses],
        "images_with_equal_logits": f"{sum(exact)} of {len(exact)}",
        "weights_equal_after_steps": bool(np.array_equal(host.trainables(), emulated.trainables())),
        "steps": STEPS,
    }


def _some(images: np.ndarray) -> Iterable[np.ndarray]:
    """Photographs spread over the classes."""
    return images[:: len(images) // AGREEMENT][:AGREEMENT]


def _logits_agree(
    network: Int8Network, host: HostLibrary, emulated: EmulatedDevice, image: np.ndarray
) -> bool:
    with torch.no_grad():
        reference = network(torch.from_numpy(image).permute(2, 0, 1)[None].float()).numpy()[0]
    for machine in (host, emulated):
        machine.predict(image)
    return bool(
        np.array_equal(reference, host.logits()) and np.array_equal(reference, emulated.logits())
    )


def _table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| scheme | SRAM, linked | arena = bound | learns | flash | inference | step | "
        "logits equal | weights equal |",
        "|---|---:|---:|---:|---:|---:|---:|---|---|",
    ]
    for row in rows:
        bound = "yes" if row["arena_bytes"] == row["arena_lower_bound_bytes"] else "no"
        arena = f"{row['arena_bytes']:,} {bound}"
        if not row["fits"]:
            lines.append(
                f"| {row['scheme']} | does not fit: {row['excess_bytes']:,} B too many | {arena} | "
                f"{row['trainable_bytes']:,} | | | | | |"
            )
            continue
        lines.append(
            f"| {row['scheme']} | {row['sram_bytes']:,} | {arena} | {row['trainable_bytes']:,} | "
            f"{row['flash_bytes']:,} | {row['instructions_per_inference'] / 1e6:.2f} M | "
            f"{row['instructions_per_step'] / 1e6:.2f} M | {row['images_with_equal_logits']} | "
            f"{'yes' if row['weights_equal_after_steps'] else 'NO'}, {row['steps']} steps |"
        )
    return "\n".join(lines)


def _page(rows: list[dict[str, Any]]) -> str:
    ours = next(row for row in rows if row["scheme"] == "mcunet-49kb")
    lines = [
        "# The paper's networks on an emulated STM32F746",
        "",
        "Made by `python benchmarks/paper_networks.py`; the figures are in paper-networks.json.",
        f"{RESOLUTION} x {RESOLUTION} pixels, {CLASSES} classes, float32 head, float32 gradients.",
        "SRAM is the linker's, stack included; instructions are counted by the emulator and are",
        "not cycles. `logits equal`: photographs whose logits have the same bits in PyTorch, host",
        "C and Cortex-M7. `weights equal`: all that learns has the same bits on host and M7.",
        "",
        _table(rows),
        "",
        "## Beside the released engine: MCUNet-5FPS, 49 KB scheme",
        "",
        "The released engine's figures: its own code generator's memory, and its generated code",
        "at -Ofast counted on an emulated Cortex-M7. Its head is int8, ours float32 (four times",
        "the bytes); it has no skip gradient and no zero point in the weight gradient, ours has.",
        "",
        "| | released engine | Trainlet | ratio |",
        "|---|---:|---:|---:|",
    ]
    for key, name in (
        ("sram_bytes", "SRAM, bytes"),
        ("instructions_per_inference", "instructions an inference"),
        ("instructions_per_step", "instructions a training step"),
    ):
        theirs, our = RELEASED[key], ours[key]
        lines.append(f"| {name} | {theirs:,} | {our:,} | {our / theirs:.2f} |")
    lines += [
        "",
        "The released figure for SRAM holds arena, kernel buffers and what learns, no stack;",
        f"ours holds {ours['stack_bytes']:,} bytes of stack, of which "
        f"{ours['stack_high_water_bytes']:,} were used.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
