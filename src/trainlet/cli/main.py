# SPDX-License-Identifier: Apache-2.0
"""`trainlet`: the verbs, and how an error reaches a person."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from trainlet._version import VERSION
from trainlet.cli.analyze import analyze
from trainlet.cli.compile import compile_
from trainlet.cli.demo import demo
from trainlet.cli.devices import devices
from trainlet.cli.emulate import emulate
from trainlet.errors import TrainletError

BAD_INPUT = 2
INTERRUPTED = 130
PIPE_CLOSED = 141

app = typer.Typer(
    name="trainlet",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
for name, verb in (
    ("devices", devices),
    ("analyze", analyze),
    ("compile", compile_),
    ("emulate", emulate),
    ("demo", demo),
):
    app.command(name)(verb)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"trainlet {VERSION}")
        raise typer.Exit


@app.callback()
def _trainlet(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Give a network, a device and a budget; get one training step that fits.

    Example: [bold]trainlet compile mcunet-5fps.pkl --classes 10 --scheme mcunet-49kb
    --device stm32f746 -o build/mcunet[/bold]
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Carry out a command line and return its exit status: 2 for bad input, 130 for Ctrl-C."""
    try:
        app(None if arguments is None else list(arguments), prog_name="trainlet")
    except TrainletError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Python flushes standard output once more at exit; let it succeed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except OSError as error:
        place = f"'{error.filename}': " if error.filename else ""
        return _fail(f"{place}{error.strerror or error}")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


def _fail(message: str) -> int:
    print(f"trainlet: error: {message}", file=sys.stderr)
    return BAD_INPUT


def main() -> None:
    """Run the command line of this process and exit."""
    sys.exit(run())


if __name__ == "__main__":
    main()
