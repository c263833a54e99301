# SPDX-License-Identifier: Apache-2.0
"""`trainlet demo`: a turned sensor, and a microcontroller that learns to read with it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainlet.cli.options import DeviceName, Json


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="A folder, new or empty.")
    ] = Path("build/demo"),
    steps: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Training steps, one image each. Default: 1000."),
    ] = None,
    device: DeviceName = "stm32f746",
    as_json: Json = False,
) -> None:
    """Learn handwritten digits anew, turned by 90 degrees, on an emulated microcontroller.

    Writes the C library and report.html. The numbers are the same on every run.

    Example: [bold]trainlet demo -o build/demo[/bold]
    """
    from trainlet.cli.work.demonstration import demonstrate, print_demo

    result = demonstrate(output, device, steps, quiet=as_json)
    print_demo(result, output, as_json)
