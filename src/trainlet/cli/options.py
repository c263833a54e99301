# SPDX-License-Identifier: Apache-2.0
"""Options that several verbs have in common."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="A network's file, or the name of one of the zoo.")
]
Classes = Annotated[
    int | None,
    typer.Option(metavar="N", help="Classes of a new head. Default: the network's own head."),
]
Resolution = Annotated[
    int | None,
    typer.Option(metavar="R", help="Rows and columns of the image. Default: the network's own."),
]
SchemeName = Annotated[
    str,
    typer.Option(
        "--scheme",
        metavar="S",
        help="What learns: head-only, everything, last-biases-N, one of the paper's such as"
        " mcunet-49kb, or a TOML file.",
    ),
]
DeviceName = Annotated[
    str,
    typer.Option(
        "--device", metavar="D", help="A name that `trainlet devices` lists, or a TOML file."
    ),
]
StackBytes = Annotated[
    int | None,
    typer.Option("--stack", metavar="BYTES", help="Stack to set aside. Default: 1024."),
]


class Requantize(StrEnum):
    """How accumulators become int8 (docs/arithmetic.md)."""

    FAST = "fast"
    TFLITE = "tflite"


RequantizeMode = Annotated[
    Requantize,
    typer.Option(
        "--requantize",
        help="fast: one rounding high multiply; tflite: the bits of TFLite's reference kernels.",
    ),
]
LearningRate = Annotated[
    float | None,
    typer.Option(metavar="RATE", help="Learning rate of the int8 layers."),
]
HeadLearningRate = Annotated[
    float | None, typer.Option(metavar="RATE", help="Learning rate of the float32 head.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]

ReportPath = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE", help="Write a page with the memory timeline too."),
]
