# SPDX-License-Identifier: Apache-2.0
"""The memory timeline as geometry: live bytes above, addresses below, one column a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from trainlet.planning import Timeline
from trainlet.report.figures import byte_tick_text, byte_ticks, coordinate
from trainlet.report.labels import Area, Label, place_labels
from trainlet.report.roles import OperatorNote, ValueRole
from trainlet.report.steps import Span, Steps

WIDTH, HEIGHT = 1160, 652
LEFT, RIGHT = 66, 1146
LIVE_TOP, LIVE_BOTTOM = 52, 162
MAP_TOP, MAP_BOTTOM = 208, 608


@dataclass(frozen=True)
class Box:
    """A rectangle of the picture; lengths are text, ready to be written."""

    x: str
    y: str
    width: str
    height: str
    title: str
    kind: str = ""
    name: str = ""


@dataclass(frozen=True)
class Tick:
    """A mark on an axis."""

    at: str
    text: str


@dataclass(frozen=True)
class Phase:
    """A stretch of steps that are all forward or all backward."""

    x: str
    width: str
    middle: str
    text: str
    is_backward: bool


@dataclass(frozen=True)
class MemoryPicture:
    """What the template draws."""

    bars: tuple[Box, ...]
    labels: tuple[Label, ...]
    columns: tuple[Box, ...]
    curve: str
    area: str
    bound_y: str
    arena_y: str
    peak: Box
    peak_text: str
    peak_anchor: str
    peak_x: str
    phases: tuple[Phase, ...]
    live_ticks: tuple[Tick, ...]
    map_ticks: tuple[Tick, ...]
    step_ticks: tuple[Tick, ...]
    roles: tuple[ValueRole, ...]


@dataclass(frozen=True)
class _Scale:
    columns: int
    arena: int
    live: int

    def x(self, step: float) -> float:
        return LEFT + (RIGHT - LEFT) * step / self.columns

    def live_y(self, count: int) -> float:
        return LIVE_BOTTOM - (LIVE_BOTTOM - LIVE_TOP) * count / self.live

    def map_y(self, address: int) -> float:
        return MAP_BOTTOM - (MAP_BOTTOM - MAP_TOP) * address / self.arena


def memory_picture(
    timeline: Timeline, steps: Steps, operators: Mapping[str, OperatorNote]
) -> MemoryPicture:
    """Lay the picture out."""
    arena = max(timeline.arena_bytes, 1)
    scale = _Scale(steps.count, arena, max(timeline.lower_bound_bytes, arena))
    ends = [scale.x(step) for step in range(steps.count + 1)]
    heights = [scale.live_y(count) for count in steps.live]
    stairs = _staircase(ends, heights)
    left, floor = coordinate(ends[0]), coordinate(LIVE_BOTTOM)
    peak_x = scale.x(steps.peak + 0.5)
    return MemoryPicture(
        bars=tuple(_bar(scale, span) for span in steps.spans),
        labels=place_labels((s.bar.name, _area(scale, s)) for s in steps.spans if _is_named(s)),
        columns=tuple(_columns(scale, steps, operators)),
        curve=f"M{left} {stairs.removeprefix('V')}",
        area=f"M{left} {floor}{stairs}V{floor}Z",
        bound_y=coordinate(scale.live_y(timeline.lower_bound_bytes)),
        arena_y=coordinate(scale.live_y(timeline.arena_bytes)),
        peak=_box(scale.x(steps.peak), LIVE_TOP, scale.x(steps.peak + 1), MAP_BOTTOM, "the peak"),
        peak_text=f"peak: {timeline.lower_bound_bytes:,} bytes at step {steps.peak}",
        peak_anchor="start" if peak_x < (LEFT + RIGHT) / 2 else "end",
        peak_x=coordinate(peak_x),
        phases=tuple(_phases(scale, steps.runs, operators)),
        live_ticks=_byte_axis(scale.live, scale.live_y, 4),
        map_ticks=_byte_axis(scale.arena, scale.map_y, 10),
        step_ticks=_step_axis(scale),
        roles=tuple(role for role in ValueRole if any(s.role is role for s in steps.spans)),
    )


def _bar(scale: _Scale, span: Span) -> Box:
    bar = span.bar
    title = f"{bar.name}\n{span.role}, {bar.bytes:,} bytes\nbytes {span.where}\n{span.when}"
    return _box(*_area(scale, span), title, span.role.slug, bar.name)


def _area(scale: _Scale, span: Span) -> Area:
    bar = span.bar
    top, bottom = scale.map_y(bar.address + bar.bytes), scale.map_y(bar.address)
    return scale.x(span.first), top, scale.x(span.last + 1), bottom


def _is_named(span: Span) -> bool:
    return not span.bar.is_scratch


def _box(
    left: float,
    top: float,
    right: float,
    bottom: float,
    title: str,
    kind: str = "",
    name: str = "",
) -> Box:
    return Box(
        coordinate(left),
        coordinate(top),
        coordinate(right - left),
        coordinate(max(bottom - top, 0.4)),  # a hair, so that small values can be seen
        title,
        kind,
        name,
    )


def _columns(scale: _Scale, steps: Steps, operators: Mapping[str, OperatorNote]) -> list[Box]:
    """One invisible column a step over the curve, for its tooltip."""
    boxes = []
    for step, (run, live) in enumerate(zip(steps.runs, steps.live, strict=False)):
        title = f"step {step}: {readable(run, operators)}\n{live:,} bytes alive"
        boxes.append(_box(scale.x(step), LIVE_TOP, scale.x(step + 1), LIVE_BOTTOM, title))
    return boxes


def readable(run: str, operators: Mapping[str, OperatorNote]) -> str:
    """An operator as a person would say it."""
    note = operators.get(run)
    if note is None:
        return run
    return f"{note.kind} of {note.path}" if note.path else note.kind


def _staircase(ends: Sequence[float], heights: Sequence[float]) -> str:
    """Up to each height and along its column, from the left end."""
    return "".join(
        f"V{coordinate(height)}H{coordinate(right)}"
        for right, height in zip(ends[1:], heights, strict=True)
    )


def _phases(
    scale: _Scale, runs: Sequence[str], operators: Mapping[str, OperatorNote]
) -> list[Phase]:
    """Forward up to the first backward operator, backward from there; none if not known."""
    known = [operators.get(run) for run in runs]
    if not known or None in known:
        return []
    backward = [note is not None and note.backward for note in known]
    turn = backward.index(True) if True in backward else len(runs)
    phases = []
    for first, last, text in ((0, turn, "forward"), (turn, len(runs), "backward and update")):
        if first < last:
            x, right = scale.x(first), scale.x(last)
            middle = coordinate((x + right) / 2)
            width = coordinate(right - x)
            phases.append(Phase(coordinate(x), width, middle, text, first == turn))
    return phases


def _byte_axis(limit: int, y: Callable[[int], float], most: int) -> tuple[Tick, ...]:
    return tuple(Tick(coordinate(y(at)), byte_tick_text(at)) for at in byte_ticks(limit, most))


def _step_axis(scale: _Scale) -> tuple[Tick, ...]:
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100, 10**9) if scale.columns / s <= 16)
    return tuple(
        Tick(coordinate(scale.x(at + 0.5)), str(at)) for at in range(0, scale.columns, step)
    )
