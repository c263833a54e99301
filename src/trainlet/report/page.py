# SPDX-License-Identifier: Apache-2.0
"""One self-contained HTML page: no external resource, readable without JavaScript."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from trainlet._version import VERSION
from trainlet.report import line_picture, memory_picture
from trainlet.report.cards import cards_of
from trainlet.report.data import ReportData
from trainlet.report.figures import grouped, short_bytes
from trainlet.report.files import write_text
from trainlet.report.parts import agreement, function_shares, sram_bar
from trainlet.report.steps import Span, Steps, steps_of


def write_report(path: Path, data: ReportData) -> None:
    """Write the page of a report; the same data give the same bytes."""
    write_text(path, report_html(data))


def report_html(data: ReportData) -> str:
    """The page as text."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("trainlet.report"),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"grouped": grouped, "short_bytes": short_bytes}
    return environment.get_template("report.html.j2").render(_values(environment, data))


def _values(environment: jinja2.Environment, data: ReportData) -> dict[str, Any]:
    steps = steps_of(data.timeline, data.roles)
    operators = {note.name: note for note in data.operators}
    return {
        "data": data,
        "version": VERSION,
        # The project's own files, not data: they are not escaped.
        "style": Markup(environment.get_template("report.css.j2").render()),
        "script": Markup(environment.get_template("hover.js.j2").render()),
        "cards": cards_of(data),
        "memory": memory_picture.memory_picture(data.timeline, steps, operators),
        "frame": memory_picture,
        "steps": steps,
        "at_peak": _at_peak(data, steps),
        "peak_operator": data.analysis.peak_operator,
        "lines": [
            picture
            for picture in (
                line_picture.loss_picture(data.losses),
                line_picture.accuracy_picture(data.accuracies),
            )
            if picture is not None
        ],
        "line_frame": line_picture,
        "sram": sram_bar(data),
        "agreement": agreement(data),
        "functions": function_shares(data.instructions),
        "runs": [(run, operators.get(run)) for run in steps.runs],
    }


def _at_peak(data: ReportData, steps: Steps) -> list[Span]:
    """The spans alive at the peak, biggest first."""
    spans = {span.bar.key: span for span in steps.spans}
    return [spans[bar.key] for bar in data.timeline.at_peak]
