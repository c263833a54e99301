# SPDX-License-Identifier: Apache-2.0
"""Curves over training steps as geometry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trainlet.report.figures import coordinate, percent, tick_text, ticks
from trainlet.report.memory_picture import Tick

WIDTH, HEIGHT = 560, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 546, 16, 218
_DOTS_AT_MOST = 40

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Dot:
    """A measured point."""

    x: str
    y: str
    title: str


@dataclass(frozen=True)
class Curve:
    """A path, and its points where they are few."""

    path: str
    kind: str
    name: str
    dots: tuple[Dot, ...]


@dataclass(frozen=True)
class LinePicture:
    """What the template draws."""

    title: str
    description: str
    y_label: str
    curves: tuple[Curve, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]


def loss_picture(losses: Sequence[float]) -> LinePicture | None:
    """The loss of every step and its running mean; None without a finite loss."""
    finite = [(float(i), float(loss)) for i, loss in enumerate(losses) if math.isfinite(loss)]
    if not finite:
        return None
    window = max(len(finite) // 20, 1)
    smooth = _running_mean(finite, window)
    first, last = smooth[min(window, len(smooth)) - 1][1], smooth[-1][1]
    mean = f"mean of {window} steps" if window > 1 else "loss"
    description = (
        f"Over {len(losses)} steps the loss goes from {first:.3g} to {last:.3g} ({mean})."
        + ("" if len(finite) == len(losses) else " Steps without a finite loss are left out.")
    )
    curves = [("faint", "each step", finite)] if window > 1 else []
    curves.append(("strong", mean, smooth))
    top = max(value for _, value in finite)
    return _picture("Loss", description, "loss", curves, max(len(losses) - 1, 1), top * 1.05, False)


def accuracy_picture(accuracies: Sequence[tuple[int, float]]) -> LinePicture | None:
    """Accuracy while learning; None where there is none."""
    points = [(float(step), float(share)) for step, share in accuracies if math.isfinite(share)]
    if not points:
        return None
    (first_step, first), (last_step, last) = points[0], points[-1]
    description = (
        f"From {percent(first)} at step {first_step:g} to {percent(last)} at step {last_step:g}; "
        f"the best is {percent(max(share for _, share in points))}."
    )
    curves = [("strong", "accuracy", points)]
    return _picture("Accuracy", description, "accuracy", curves, max(last_step, 1), 1.0, True)


def _running_mean(points: Points, window: int) -> list[tuple[float, float]]:
    """Mean of the last so many points, of fewer at the start."""
    values = [value for _, value in points]
    return [
        (x, math.fsum(values[max(i + 1 - window, 0) : i + 1]) / min(i + 1, window))
        for i, (x, _) in enumerate(points)
    ]


def _picture(
    title: str,
    description: str,
    y_label: str,
    curves: Sequence[tuple[str, str, Points]],
    x_high: float,
    y_high: float,
    is_share: bool,
) -> LinePicture:
    y_high = y_high if y_high > 0 else 1.0

    def x(value: float) -> str:
        return coordinate(LEFT + (RIGHT - LEFT) * value / x_high)

    def y(value: float) -> str:
        return coordinate(BOTTOM - (BOTTOM - TOP) * value / y_high)

    def text(value: float) -> str:
        return percent(value) if is_share else f"{value:.4g}"

    drawn = []
    for kind, name, points in curves:
        path = "M" + "L".join(f"{x(a)} {y(b)}" for a, b in points)
        few = points if len(points) <= _DOTS_AT_MOST and kind == "strong" else ()
        dots = tuple(Dot(x(a), y(b), f"step {a:g}: {text(b)}") for a, b in few)
        drawn.append(Curve(path, kind, name, dots))
    return LinePicture(
        title,
        description,
        y_label,
        tuple(drawn),
        tuple(Tick(x(t), tick_text(t)) for t in ticks(0, x_high) if float(t).is_integer()),
        tuple(
            Tick(y(t), f"{100 * t:.0f} %" if is_share else tick_text(t))
            for t in ticks(0, y_high, 5)
        ),
    )
