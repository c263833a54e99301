# SPDX-License-Identifier: Apache-2.0
"""Exports for other tools: the Trace Event Format that Perfetto and Chrome read, and plain JSON.

Time in a trace is the step of the plan, a millisecond each: it says in which order, not how long.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainlet.planning import Timeline
from trainlet.report.data import ReportData
from trainlet.report.files import write_text
from trainlet.report.roles import ValueRole
from trainlet.report.steps import Span, Steps, steps_of

STEP_MICROSECONDS = 1000
_OPERATORS, _VALUES = 1, 2  # process identifiers


def write_trace(
    path: Path, timeline: Timeline, roles: Mapping[str, ValueRole] | None = None
) -> None:
    """Write a timeline for https://ui.perfetto.dev or chrome://tracing."""
    trace = {"displayTimeUnit": "ms", "traceEvents": trace_events(timeline, roles)}
    _write(path, trace)


def write_json(path: Path, data: ReportData) -> None:
    """Write everything that the report shows as one JSON object."""
    _write(path, data.to_data())


def trace_events(
    timeline: Timeline, roles: Mapping[str, ValueRole] | None = None
) -> list[dict[str, Any]]:
    """Operators on one track, values on as many as do not overlap, live bytes as a counter."""
    steps = steps_of(timeline, roles or {})
    lanes = _lanes(steps)
    return [
        _named("process_name", _OPERATORS, 0, "operators"),
        _named("process_name", _VALUES, 0, "arena"),
        *(
            _named("thread_name", _VALUES, tid, f"{role} {number}")
            for tid, (role, number, _) in enumerate(lanes, start=1)
        ),
        *(_slice(run, _OPERATORS, 1, step, step, {}) for step, run in enumerate(steps.runs)),
        *(
            _slice(span.bar.name, _VALUES, tid, span.first, span.last, _arguments(span))
            for tid, (_, _, spans) in enumerate(lanes, start=1)
            for span in spans
        ),
        *(
            _counter(step, {"live": live, "lower bound": timeline.lower_bound_bytes})
            for step, live in enumerate(steps.live)
        ),
        _counter(steps.count, {"live": 0, "lower bound": timeline.lower_bound_bytes}),
    ]


def _lanes(steps: Steps) -> list[tuple[ValueRole, int, list[Span]]]:
    """Tracks whose spans follow one another: a track of the format cannot hold crossing ones."""
    lanes: list[tuple[ValueRole, int, list[Span]]] = []
    for role in ValueRole:
        own: list[list[Span]] = []
        for span in sorted(
            (s for s in steps.spans if s.role is role), key=lambda s: (s.first, s.last, s.bar.key)
        ):
            lane = next((lane for lane in own if lane[-1].last < span.first), None)
            if lane is None:
                own.append([span])
            else:
                lane.append(span)
        lanes.extend((role, number, lane) for number, lane in enumerate(own))
    return lanes


def _arguments(span: Span) -> dict[str, Any]:
    bar = span.bar
    return {"role": str(span.role), "bytes": bar.bytes, "address": bar.address}


def _slice(
    name: str, process: int, track: int, first: int, last: int, arguments: dict[str, Any]
) -> dict[str, Any]:
    return {
        "name": name,
        "ph": "X",
        "pid": process,
        "tid": track,
        "ts": first * STEP_MICROSECONDS,
        "dur": (last + 1 - first) * STEP_MICROSECONDS,
        "args": arguments,
    }


def _named(kind: str, process: int, track: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": process, "tid": track, "args": {"name": name}}


def _counter(step: int, arguments: dict[str, int]) -> dict[str, Any]:
    ts = step * STEP_MICROSECONDS
    return {"name": "bytes", "ph": "C", "pid": _VALUES, "tid": 0, "ts": ts, "args": arguments}


def _write(path: Path, data: dict[str, Any]) -> None:
    write_text(path, json.dumps(data, indent=1) + "\n")
