# SPDX-License-Identifier: Apache-2.0
"""Compiling a library into a folder, and what to say about it."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

from trainlet.build import Settings, compile_network, read_manifest, require_empty
from trainlet.cli.console import Row, count, print_json, print_rows, progress_bar
from trainlet.cli.work.request import Request
from trainlet.emit import Rates, check_prefix
from trainlet.errors import TrainletError

DEVICE_FILE = "device.toml"
"""A device that Trainlet does not know by name lies beside the library it was compiled for."""


def compile_library(
    request: Request,
    folder: Path,
    prefix: str | None,
    rates: tuple[float | None, float | None],
    *,
    quiet: bool,
) -> None:
    """Write the library; None stands for the default prefix or rate."""
    require_empty(folder)
    own = Rates()
    backbone, head = rates
    settings = Settings(
        name=request.model,
        prefix=default_prefix(folder, request.model) if prefix is None else prefix,
        rates=Rates(
            own.backbone if backbone is None else backbone, own.head if head is None else head
        ),
        stack_bytes=request.stack_bytes,
    )
    with progress_bar(quiet) as report:
        compile_network(
            request.network, request.scheme, request.device, folder.resolve(), settings, report
        )
    if request.device_file is not None:
        shutil.copyfile(request.device_file, folder / DEVICE_FILE)


def default_prefix(folder: Path, model: str) -> str:
    """Make a C prefix of the folder's name, or of the model's."""
    for name in (folder.resolve().name, model):
        prefix = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
        for candidate in (prefix, f"net_{prefix}") if prefix else ():
            try:
                return check_prefix(candidate)
            except TrainletError:
                continue
    return "network"


def print_library(folder: Path, as_json: bool) -> None:
    """Print the manifest as JSON, or its chief figures and the next command."""
    manifest = read_manifest(folder)
    if as_json:
        print_json({"folder": str(folder), **manifest})
        return
    planned, linked = manifest["planned"], manifest["linked"]
    above = planned["arena_bytes"] - planned["arena_lower_bound_bytes"]
    rows: list[Row] = [
        ("SRAM planned", count(planned["sram_bytes"]), "bytes, the stack included"),
        ("arena", count(planned["arena_bytes"]), f"{count(above)} above its lower bound"),
        ("what learns", count(planned["trainable_bytes"])),
        ("stack", count(planned["stack_bytes"]), "set aside"),
    ]
    if linked is not None:
        rows.append(("SRAM linked", count(linked["sram_bytes"]), "the test bench included"))
        rows.append(("flash linked", count(linked["flash_bytes"])))
    rows.append(("forward", count(planned["macs_forward"]), "multiply-accumulates"))
    rows.append(("backward", count(planned["macs_backward"]), "multiply-accumulates"))
    print_rows(f"{manifest['model']}, scheme {manifest['scheme']}, on {manifest['device']}", rows)
    print(f"\nThe library is in {folder}: start with {manifest['prefix']}.h. Run it with")
    print(f"  trainlet emulate {shlex.quote(str(folder))} --images PATH")
