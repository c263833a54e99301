# SPDX-License-Identifier: Apache-2.0
"""From a scheme and a network's convolutions to the exact channels that learn.

The simulation and the device both take the plan made here, so they train the same set.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trainlet.errors import TrainletError
from trainlet.scheme.scheme import Scheme


@dataclass(frozen=True, eq=False)
class LayerInfo:
    """A convolution as a scheme sees it.

    `weight` is OIHW (int8, or floats that hold integers); `weight_scales` holds one scale for
    each output channel.
    """

    path: str
    weight: npt.NDArray[np.generic]
    groups: int
    weight_scales: npt.NDArray[np.floating]

    @property
    def is_depthwise(self) -> bool:
        """Whether every channel is a group of its own, in and out."""
        return tuple(self.weight.shape[:2]) == (self.groups, 1)

    @property
    def width(self) -> int:
        """Channels a share is taken of: a group's input channels, or all if depthwise."""
        return int(self.weight.shape[0 if self.is_depthwise else 1])


@dataclass(frozen=True)
class LayerPlan:
    """What learns in one convolution.

    `channels` are indices, ascending, into the input-channel axis of a group (into the channel
    axis of a depthwise convolution); empty means that the weight is frozen.
    """

    path: str
    bias: bool
    channels: tuple[int, ...]


def resolve(scheme: Scheme, layers: Sequence[LayerInfo]) -> tuple[LayerPlan, ...]:
    """Decide for each convolution, in execution order, what learns.

    A share keeps int(width * ratio) channels as the paper's code does, but at least 1.

    Raises:
        TrainletError: lists every layer that does not exist, is named twice or lies outside
            the last `scheme.biases` convolutions.
    """
    paths = [layer.path for layer in layers]
    problems: list[str] = []
    count = len(paths) if scheme.biases == "all" else scheme.biases
    if count > len(paths):
        problems.append(
            f"the last {count} biases shall learn, but there are {len(paths)} convolutions"
        )
    first = max(len(paths) - count, 0)
    shares = dict.fromkeys(range(len(paths)), 1.0) if scheme.all_weights else {}
    shares.update(_named_shares(scheme, paths, problems))
    outside = sorted(index for index in shares if index < first)
    if outside:
        names = ", ".join(f"{paths[index]} (convolution {index})" for index in outside)
        problems.append(
            f"the weight of {names} learns but lies outside the last {count} convolutions, "
            f"where gradients arrive: biases must be at least {len(paths) - outside[0]}"
        )
    if problems:
        raise TrainletError.of_all(f"scheme {scheme.name!r} does not suit this network:", problems)
    return tuple(
        LayerPlan(
            path=layer.path,
            bias=index >= first,
            channels=_kept(scheme, layer, index, shares[index]) if index in shares else (),
        )
        for index, layer in enumerate(layers)
    )


def layer_index(layer: str, paths: Sequence[str]) -> int | None:
    """Return the convolution a scheme's layer names: a module path, or an index as text."""
    if layer in paths:
        return paths.index(layer)
    if layer.isascii() and layer.isdigit() and int(layer) < len(paths):
        return int(layer)
    return None


def _named_shares(scheme: Scheme, paths: Sequence[str], problems: list[str]) -> dict[int, float]:
    shares: dict[int, float] = {}
    for layer, ratio in scheme.weights:
        index = layer_index(layer, paths)
        if index is None:
            problems.append(_unknown(layer, paths))
        elif index in shares:
            problems.append(f"{paths[index]} (convolution {index}) is named twice")
        else:
            shares[index] = ratio
    return shares


def _unknown(layer: str, paths: Sequence[str]) -> str:
    if not paths:
        return f"there is no layer {layer!r}: the network has no convolution"
    if layer.isascii() and layer.isdigit():
        return f"there is no convolution {layer}: they count from 0 to {len(paths) - 1}"
    near = difflib.get_close_matches(layer, paths, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"the first is {paths[0]}"
    return f"there is no layer {layer!r}: {hint}"


def _kept(scheme: Scheme, layer: LayerInfo, index: int, ratio: float) -> tuple[int, ...]:
    width = layer.width
    count = max(int(width * ratio), 1)
    if count == width or scheme.channels == "first":
        return tuple(range(count))
    if scheme.channels == "magnitude":
        keys = -_magnitudes(layer)
    else:
        # Raw draws: numpy promises that a bit generator's stream never changes.
        raw = np.random.PCG64([scheme.seed, index]).random_raw(width)
        keys = np.asarray(raw, dtype=np.uint64)
    order = np.argsort(keys, kind="stable")
    return tuple(sorted(int(channel) for channel in order[:count]))


def _magnitudes(layer: LayerInfo) -> npt.NDArray[np.float64]:
    """Return each channel's L1 norm of the dequantized weight, sum |w| * scale[o]; shape (width,).

    Scaling first keeps dead output channels (scale about 4e-9) from having a say.
    """
    scales = layer.weight_scales.astype(np.float64).reshape(-1, 1, 1, 1)
    norms = np.abs(layer.weight.astype(np.float64)) * scales
    return np.asarray(norms.sum(axis=(1, 2, 3) if layer.is_depthwise else (0, 2, 3)))
