# SPDX-License-Identifier: Apache-2.0
"""The scheme itself and the ones that need no network to be written down."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from trainlet.errors import TrainletError

RATIOS = (0.125, 0.25, 0.5, 1.0)
"""The shares of a weight's channels that are offered (On-Device Training Under 256KB, 2.2)."""

_RATIO_TEXTS = ("1/8", "1/4", "1/2", "1")

Channels = Literal["magnitude", "first", "random"]
CHANNELS: tuple[Channels, ...] = ("magnitude", "first", "random")


def ratio_text(ratio: float) -> str:
    """Return an offered ratio as people write it: "1/8", "1/4", "1/2" or "1"."""
    return _RATIO_TEXTS[RATIOS.index(ratio)]


@dataclass(frozen=True)
class Scheme:
    """What learns in a network.

    Attributes:
        name: how reports call it.
        biases: the last so many convolutions learn their bias; "all" of them may.
        weights: pairs of a layer (module path, or a convolution's index from 0 as a decimal
            text) and the share of its channels whose weights learn, one of `RATIOS`.
        all_weights: every weight learns; `weights` is then empty and `biases` is "all".
        channels: which channels of a share learn: the largest, the first, or seeded random ones.
        seed: for "random".
        head: whether the classifier learns.

    Raises:
        TrainletError: lists everything that is wrong with the values.
    """

    name: str
    biases: int | Literal["all"] = 0
    weights: tuple[tuple[str, float], ...] = ()
    all_weights: bool = False
    channels: Channels = "magnitude"
    seed: int = 0
    head: bool = True

    def __post_init__(self) -> None:
        problems = [*_general_problems(self), *_weight_problems(self)]
        if problems:
            raise TrainletError.of_all(f"scheme {self.name!r} cannot be used:", problems)


def _general_problems(scheme: Scheme) -> list[str]:
    problems = []
    if scheme.biases != "all" and scheme.biases < 0:
        problems.append(f'biases is {scheme.biases}; give a count from 0, or "all"')
    if scheme.channels not in CHANNELS:
        problems.append(f"channels {scheme.channels!r} is not one of {', '.join(CHANNELS)}")
    if not 0 <= scheme.seed < 1 << 64:
        problems.append(f"seed {scheme.seed} must lie in 0 .. 2^64 - 1")
    if not (scheme.head or scheme.biases or scheme.weights or scheme.all_weights):
        problems.append("nothing learns: turn the head on, or name biases or weights")
    return problems


def _weight_problems(scheme: Scheme) -> list[str]:
    problems = [
        f"layer {layer!r} is given ratio {ratio:g}, which is not offered: take "
        f"{', '.join(_RATIO_TEXTS)}" + (", or leave the layer out" if ratio == 0 else "")
        for layer, ratio in scheme.weights
        if ratio not in RATIOS
    ]
    counts = Counter(layer for layer, _ in scheme.weights)
    problems += [f"layer {layer!r} is named {n} times" for layer, n in counts.items() if n > 1]
    if scheme.all_weights and scheme.weights:
        problems.append("all weights learn, so no single ones may be listed")
    if scheme.all_weights and scheme.biases != "all":
        problems.append('all weights learn, so biases must be "all"')
    return problems


def head_only() -> Scheme:
    """Return the scheme in which only the classifier learns."""
    return Scheme("head-only")


def everything() -> Scheme:
    """Return the scheme in which every weight, every bias and the classifier learn."""
    return Scheme("everything", biases="all", all_weights=True)


def last_biases(count: int) -> Scheme:
    """Return the scheme in which the last `count` biases and the classifier learn."""
    return Scheme(f"last-biases-{count}", biases=count)
