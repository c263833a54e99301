# SPDX-License-Identifier: Apache-2.0
"""From a scheme to the parameters that learn: the one place where a network is told."""

from __future__ import annotations

from torch import nn

from trainlet.errors import TrainletError
from trainlet.nn.conv import Int8Conv2d
from trainlet.nn.layers import FloatHead
from trainlet.scheme import LayerInfo, LayerPlan, Scheme, resolve


def convolutions(network: nn.Module) -> dict[str, Int8Conv2d]:
    """The network's convolutions by module path, in the order in which they run."""
    return {n: m for n, m in network.named_modules() if isinstance(m, Int8Conv2d)}


def layer_infos(network: nn.Module) -> list[LayerInfo]:
    """What a scheme needs to know of each convolution."""
    return [
        LayerInfo(
            path=path,
            weight=conv.weight.detach().numpy(),
            groups=conv.groups,
            weight_scales=conv.weight_scales.detach().numpy(),
        )
        for path, conv in convolutions(network).items()
    ]


def apply_scheme(network: nn.Module, scheme: Scheme) -> tuple[LayerPlan, ...]:
    """Set which parameters of the network learn, and return the channels of each convolution."""
    plans = resolve(scheme, layer_infos(network))
    heads = [module for module in network.modules() if isinstance(module, FloatHead)]
    if scheme.head and not heads:
        raise TrainletError(
            f"scheme '{scheme.name}' lets the head learn, but the network has no FloatHead; "
            "set head = false in the scheme"
        )
    layers = convolutions(network)
    for plan in plans:
        layers[plan.path].set_learning(plan.channels, plan.bias)
    for head in heads:
        head.set_learning(scheme.head)
    return plans
