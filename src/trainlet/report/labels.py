# SPDX-License-Identifier: Apache-2.0
"""Names written into rectangles: along or upwards, where they fit and meet no other name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from trainlet.report.figures import coordinate

_LINE = 11.0  # height of a label
_LETTER = 5.7  # width of a letter, a little too wide
_MARGIN = 6.0

Area = tuple[float, float, float, float]
"""left, top, right, bottom"""


@dataclass(frozen=True)
class Label:
    """A name and its centre; lengths are text, ready to be written."""

    text: str
    x: str
    y: str
    is_upright: bool


def place_labels(rectangles: Iterable[tuple[str, Area]]) -> tuple[Label, ...]:
    """Label the rectangles, the largest first; what would cover another label has none."""
    taken: list[Area] = []
    labels = []
    for name, area in sorted(rectangles, key=lambda item: -_size(item[1])):
        for text, is_upright, place in _candidates(name, area):
            if not any(_meet(place, other) for other in taken):
                taken.append(place)
                x, y = (place[0] + place[2]) / 2, (place[1] + place[3]) / 2
                labels.append(Label(text, coordinate(x), coordinate(y), is_upright))
                break
    return tuple(labels)


def _candidates(name: str, area: Area) -> Iterator[tuple[str, bool, Area]]:
    """Places for the label, the better first: more of the name, then nearer to the middle."""
    left, top, right, bottom = area
    width, height = right - left, bottom - top
    along = _fitting(name, width - _MARGIN) if height >= _LINE else ""
    upwards = _fitting(name, height - _MARGIN) if width >= _LINE else ""
    options = sorted([(along, False), (upwards, True)], key=lambda option: -len(option[0]))
    for text, is_upright in options:
        if not text:
            continue
        long, across = len(text) * _LETTER, _LINE
        w, h = (across, long) if is_upright else (long, across)
        for share_x in (0.5, 1.0, 0.0):
            for share_y in (0.5, 0.0, 1.0):
                x, y = left + (width - w) * share_x, top + (height - h) * share_y
                yield text, is_upright, (x, y, x + w, y + h)


def _fitting(name: str, room: float) -> str:
    """The name, or as many of its last parts as there is room for; nothing if that is too few."""
    parts = name.split(".")
    for start in range(len(parts)):
        text = ".".join(parts[start:])
        if len(text) * _LETTER <= room:
            # The last part alone does not say which value it is.
            return text if start == 0 or len(parts) - start >= 2 else ""
    return ""


def _size(area: Area) -> float:
    return (area[2] - area[0]) * (area[3] - area[1])


def _meet(a: Area, b: Area) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
