# SPDX-License-Identifier: Apache-2.0
"""`trainlet emulate`: run a compiled library's firmware and let it learn."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from trainlet.cli.console import checked_rate
from trainlet.cli.options import HeadLearningRate, Json, LearningRate, ReportPath


class RunsOn(StrEnum):
    """Where a library can run."""

    EMULATED = "emulated"
    HOST = "host"


def emulate(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="What `trainlet compile` wrote.")
    ],
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="A folder or a zip of split/class/image, or an .npz with x_train and y_train."
            " Default: random images.",
        ),
    ] = None,
    split: Annotated[str, typer.Option(metavar="NAME", help="What to learn from.")] = "train",
    classes_limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Take the first N classes.")
    ] = None,
    images_limit: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Take N images, dealt out over the classes."),
    ] = None,
    steps: Annotated[int, typer.Option(metavar="N", min=0, help="Training steps.")] = 10,
    seed: Annotated[
        int,
        typer.Option(
            metavar="S", min=0, max=2**32 - 1, help="Of the images' order and of the rounding."
        ),
    ] = 0,
    learning_rate: LearningRate = None,
    head_learning_rate: HeadLearningRate = None,
    device: Annotated[
        RunsOn | None,
        typer.Option(help="Default: emulated, if the library is for a microcontroller."),
    ] = None,
    evaluate: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Accuracy before and after, on N images of the split val or test.",
        ),
    ] = None,
    report: ReportPath = None,
    as_json: Json = False,
) -> None:
    """Run a compiled library as firmware on the emulated device, and let it learn.

    Instructions are counted exactly; they are not cycles, so they are no time.

    Example: [bold]trainlet emulate build/mcunet --images flowers.zip --classes-limit 10
    --steps 100[/bold]
    """
    checked_rate(learning_rate, "--learning-rate")
    checked_rate(head_learning_rate, "--head-learning-rate")
    from trainlet.cli.work.emulation import Session, run_session
    from trainlet.cli.work.emulation_view import print_outcome, write_outcome
    from trainlet.cli.work.examples import choose_examples

    session = Session.open(folder, device, (learning_rate, head_learning_rate), steps, seed)
    examples = choose_examples(
        session.manifest, images, split, (classes_limit, images_limit), evaluate, seed
    )
    outcome = run_session(session, examples, quiet=as_json)
    if report is not None:
        write_outcome(outcome, report)
    print_outcome(outcome, as_json)
