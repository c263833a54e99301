# SPDX-License-Identifier: Apache-2.0
"""What a compiled library's folder says of itself, for a report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainlet.build import Analysis
from trainlet.devices import Device
from trainlet.errors import TrainletError
from trainlet.graph import parse_graph
from trainlet.planning import Plan, problem_from_json, timeline_of
from trainlet.report.data import ReportData
from trainlet.report.roles import graph_operators, graph_roles


def report_of_library(folder: Path, manifest: Mapping[str, Any], device: Device) -> ReportData:
    """The plan of a folder that ``compile_network`` wrote; add a run with ``dataclasses.replace``.

    Raises:
        TrainletError: a file of the plan is missing or was changed.
    """
    graph = parse_graph(_read(folder / "step.graph"))
    problem = problem_from_json(_read(folder / "problem.json"))
    plan = Plan.from_json(_read(folder / "plan.json"))
    return ReportData(
        title=f"{manifest['model']} on {device.name}",
        device=device,
        scheme=str(manifest["scheme"]),
        model=str(manifest["model"]),
        timeline=timeline_of(problem, plan),
        analysis=Analysis.from_data(manifest["planned"]),
        roles=graph_roles(graph),
        operators=graph_operators(graph),
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise TrainletError(
            f"'{path}' cannot be read ({error.strerror}): compile the network again"
        ) from None
