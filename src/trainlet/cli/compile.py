# SPDX-License-Identifier: Apache-2.0
"""`trainlet compile`: write the C library of a training step."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainlet.cli.console import checked_rate
from trainlet.cli.options import (
    Classes,
    DeviceName,
    HeadLearningRate,
    Json,
    LearningRate,
    Model,
    Requantize,
    RequantizeMode,
    Resolution,
    SchemeName,
    StackBytes,
)


def compile_(
    model: Model,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="A folder, new or empty.")
    ],
    classes: Classes = None,
    resolution: Resolution = None,
    scheme: SchemeName = "head-only",
    device: DeviceName = "stm32f746",
    prefix: Annotated[
        str | None,
        typer.Option(metavar="P", help="Of the library's C names. Default: the folder's name."),
    ] = None,
    learning_rate: LearningRate = None,
    head_learning_rate: HeadLearningRate = None,
    stack: StackBytes = None,
    requantize: RequantizeMode = Requantize.FAST,
    as_json: Json = False,
) -> None:
    """Write the C library of a network's training step into a folder.

    Example: [bold]trainlet compile mcunet-5fps.pkl --classes 10 --resolution 128
    --scheme mcunet-49kb --device stm32f746 -o build/mcunet[/bold]
    """
    checked_rate(learning_rate, "--learning-rate")
    checked_rate(head_learning_rate, "--head-learning-rate")
    from trainlet.cli.work.library import compile_library, print_library
    from trainlet.cli.work.request import Request

    request = Request.of(model, classes, resolution, scheme, device, stack, requantize.value)
    rates = (learning_rate, head_learning_rate)
    compile_library(request, output, prefix, rates, quiet=as_json)
    print_library(output, as_json)
