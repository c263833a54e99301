# SPDX-License-Identifier: Apache-2.0
"""The tiny-training network as its pickle defines it, in float64, with no code of Trainlet's.

clip(round((conv(x - x_zero, W) + b) * x_scale * w_scales / y_scale) + y_zero, -128, 127)
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


def convolution(x: Tensor, conv: dict[str, Any]) -> Tensor:
    params = conv["params"]
    weight = torch.from_numpy(params["weight"].astype(np.float64))
    bias = torch.from_numpy(params["bias"].astype(np.float64))
    padding = [(k - 1) // 2 for k in conv["kernel_size"]]
    acc = F.conv2d(
        x - params["x_zero"], weight, bias, conv["stride"], padding, groups=conv["groups"]
    )
    scales = params["x_scale"] * params["w_scales"].astype(np.float64) / params["y_scale"]
    scaled = acc * torch.from_numpy(scales).view(1, -1, 1, 1)
    return (scaled.round() + params["y_zero"]).clamp(-128, 127)


def block(x: Tensor, parts: dict[str, Any]) -> Tensor:
    y, last = x, None
    for name in ("pointwise1", "depthwise", "pointwise2"):
        if parts[name] is not None:
            y, last = convolution(y, parts[name]), parts[name]
    if parts["residual"] is None:
        return y
    total, branch = parts["residual"]["params"], last["params"]
    real = (x - total["x_zero"]) * total["x_scale"] + (y - branch["y_zero"]) * branch["y_scale"]
    return ((real / total["y_scale"]).round() + total["y_zero"]).clamp(-128, 127)


def maps(x: Tensor, network: dict[str, Any]) -> Tensor:
    """int8 maps before the pool of integers [N, 3, H, W]."""
    y = convolution(x.double(), network["first_conv"])
    for parts in network["blocks"]:
        y = block(y, parts)
    return y


def features(x: Tensor, network: dict[str, Any]) -> Tensor:
    """int8 features [N, C, 1, 1] of integers [N, 3, H, W]; the mean rounds half to even."""
    return maps(x, network).mean(dim=(2, 3), keepdim=True).round()


def logits(pooled: Tensor, network: dict[str, Any]) -> Tensor:
    return convolution(pooled, network["classifier"]).flatten(1)
