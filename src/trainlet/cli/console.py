# SPDX-License-Identifier: Apache-2.0
"""How verbs print: JSON or tables on standard output, progress on standard error."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from trainlet.errors import TrainletError

Report = Callable[[str, int, int], None]

Row = tuple[str, str] | tuple[str, str, str]


def print_json(data: Any) -> None:
    """Print plain data as JSON; a number that is not finite becomes null."""
    print(json.dumps(_finite(data), indent=2, allow_nan=False))


def print_rows(title: str, rows: Sequence[Row]) -> None:
    """Print rows of a name, a figure and perhaps a remark."""
    table = Table(show_header=False, box=None)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim")
    for row in rows:
        table.add_row(*map(escape, row))
    print(title)
    console().print(table)


def console() -> Console:
    """Return a console on the current standard output; 120 columns wide where it is no terminal."""
    wide = None if sys.stdout.isatty() else 120
    return Console(file=sys.stdout, width=wide, highlight=False)


def count(number: int) -> str:
    """Write a whole number with its thousands apart."""
    return f"{number:,}"


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Report | None]:
    """Give a callback (what, done, total) that draws a bar on standard error.

    None where that is no terminal, or if `quiet`.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(escape(what), total=total)
            bar.update(tasks[what], completed=done, total=total)

        yield report


def checked_rate(rate: float | None, option: str) -> float | None:
    """Return a learning rate that can be used: finite and not negative."""
    if rate is not None and not (math.isfinite(rate) and rate >= 0):
        raise TrainletError(f"{option} is {rate}; give a finite number, 0 or more")
    return rate


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
