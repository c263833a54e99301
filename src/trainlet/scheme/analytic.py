# SPDX-License-Identifier: Apache-2.0
"""The paper's analytic memory of a scheme: what training adds to inference.

It is `nelem_saved_for_backward` of the release (partial_backward.py). Per learning layer: one bit
an output element for the clamp's mask, 4 bytes a bias, and where the weight learns its kept part
(int8) and the saved input of the kept channels (int8); plus the classifier's input. Gradients and
the activations of inference are not in it: `trainlet analyze` counts those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainlet.errors import TrainletError
from trainlet.scheme.resolve import layer_index
from trainlet.scheme.scheme import Scheme


@dataclass(frozen=True)
class LayerShape:
    """A convolution's shapes; sizes are (height, width)."""

    path: str
    in_channels: int
    out_channels: int
    kernel: tuple[int, int]
    groups: int
    in_size: tuple[int, int]
    out_size: tuple[int, int]


@dataclass(frozen=True)
class AnalyticMemory:
    """Bytes that a scheme adds, by the paper's count."""

    weight_bytes: float
    activation_bytes: float

    @property
    def kb(self) -> float:
        """The sum in KiB, as the paper states it."""
        return (self.weight_bytes + self.activation_bytes) / 1024


def analytic_memory(
    scheme: Scheme, layers: Sequence[LayerShape], classifier_in: int
) -> AnalyticMemory:
    """Count a scheme's extra memory as the paper does.

    Args:
        scheme: what learns.
        layers: the convolutions in execution order.
        classifier_in: the classifier's input features.

    Raises:
        TrainletError: the scheme names a layer that is not there.
    """
    count = len(layers) if scheme.biases == "all" else min(scheme.biases, len(layers))
    shares = _shares(scheme, layers)
    weight_bytes, activation_bytes = 0.0, float(classifier_in)
    for index in range(len(layers) - count, len(layers)):
        layer = layers[index]
        weight_bytes += 4 * layer.out_channels
        activation_bytes += layer.out_channels * _area(layer.out_size) / 8
        kept = int(layer.in_channels * shares.get(index, 0.0))
        rows = 1 if layer.groups > 1 else layer.out_channels
        weight_bytes += kept * rows * _area(layer.kernel)
        activation_bytes += kept * _area(layer.in_size)
    return AnalyticMemory(weight_bytes, activation_bytes)


def _shares(scheme: Scheme, layers: Sequence[LayerShape]) -> dict[int, float]:
    if scheme.all_weights:
        return dict.fromkeys(range(len(layers)), 1.0)
    paths = [layer.path for layer in layers]
    shares = {}
    for layer, ratio in scheme.weights:
        index = layer_index(layer, paths)
        if index is None:
            raise TrainletError(f"scheme {scheme.name!r} names a layer {layer!r} that is not there")
        shares[index] = ratio
    return shares


def _area(size: tuple[int, int]) -> int:
    return size[0] * size[1]
