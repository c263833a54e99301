# SPDX-License-Identifier: Apache-2.0
"""Networks by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

from trainlet.errors import TrainletError
from trainlet.nn import Int8Network
from trainlet.ops.requantize import FAST, MODES
from trainlet.zoo import digits, mobilenet

MOST_CLASSES = 1 << 16
LARGEST_SIDE = 512


@dataclass(frozen=True)
class _Entry:
    make: Callable[[int, int, int, str], Int8Network]
    classes: int
    side: int
    least_side: int


_ENTRIES = {
    "digits": _Entry(digits.build_digits, digits.CLASSES, digits.SIDE, least_side=4),
    "mbv2-tiny": _Entry(mobilenet.build_mobilenet, mobilenet.CLASSES, mobilenet.SIDE, least_side=8),
}


def zoo_names() -> tuple[str, ...]:
    """Return the names that `build` knows."""
    return tuple(_ENTRIES)


def near_names(name: str) -> str:
    """Return "did you mean ...? " for a name much like one that exists, else nothing."""
    near = difflib.get_close_matches(name.lower(), _ENTRIES, n=2)
    return f"did you mean {' or '.join(near)}? " if near else ""


def build(
    name: str,
    classes: int | None = None,
    resolution: int | None = None,
    seed: int = 0,
    requantize: str = FAST,
) -> Int8Network:
    """Build a network of the zoo.

    Args:
        name: one of `zoo_names()`.
        classes: another number of classes than the network's own gives a new head.
        resolution: height and width of the input; the network's own if left out.
        seed: for everything that is drawn at random: a new head, and mbv2-tiny's weights.
        requantize: "fast" or "tflite" (see ops/requantize.py).

    Raises:
        TrainletError: no such network, or it cannot be had so.
    """
    entry = _ENTRIES.get(name)
    if entry is None:
        raise TrainletError(
            f"the zoo has no network {name!r}: {near_names(name)}it has {', '.join(_ENTRIES)}"
        )
    classes = entry.classes if classes is None else classes
    side = entry.side if resolution is None else resolution
    if not 2 <= classes <= MOST_CLASSES:
        raise TrainletError(f"classes is {classes}; it must lie in 2 .. {MOST_CLASSES}")
    if not entry.least_side <= side <= LARGEST_SIDE:
        raise TrainletError(
            f"resolution is {side}; for {name} it must lie in {entry.least_side} .. {LARGEST_SIDE}"
        )
    if not 0 <= seed < 1 << 63:
        raise TrainletError(f"seed is {seed}; it must lie in 0 .. 2^63 - 1")
    if requantize not in MODES:
        raise TrainletError(f"requantize is {requantize!r}; it must be one of {', '.join(MODES)}")
    return entry.make(classes, side, seed, requantize)
