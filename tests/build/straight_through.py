# SPDX-License-Identifier: Apache-2.0
"""An int8 network in PyTorch's float64 autograd alone, rounding taken as the identity.

Forward values are the exact integers; what autograd sees is the real-valued
layer, let through where the mask is set.  None of the project's gradients is used.
"""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainlet.nn import (
    FloatHead,
    Int8Add,
    Int8AvgPool2d,
    Int8Clamp,
    Int8Conv2d,
    Int8GlobalAvgPool2d,
    Int8MaxPool2d,
    Int8Network,
)
from trainlet.ops.add import add
from trainlet.ops.clamp import clamp
from trainlet.ops.conv2d import conv2d


def reference_gradients(network: Int8Network, image: Tensor, label: int) -> dict[str, Tensor]:
    """The gradient of every parameter that learns, by name, in float64."""
    twin = copy.deepcopy(network).double()
    for module in twin.modules():
        for kind, forward in _FORWARDS.items():
            if isinstance(module, kind):
                module.forward = forward.__get__(module)
    logits = twin(image.double())
    F.cross_entropy(logits, torch.tensor([label])).backward()
    return {n: p.grad for n, p in twin.named_parameters() if p.grad is not None}


def _through(exact: Tensor, real: Tensor, mask: Tensor | None = None) -> Tensor:
    """The exact value with the gradient of the real one."""
    free = real - real.detach()
    return exact.double() + (free if mask is None else torch.where(mask, free, 0.0))


def _conv(self: Int8Conv2d, x: Tensor) -> Tensor:
    weight = torch.zeros(self.out_channels, self.in_channels // self.groups, *self.kernel).double()
    axis = 0 if self.depthwise else 1
    kept = list(self.channels) or (list(range(weight.shape[axis])) if self.kept is not None else [])
    others = [c for c in range(weight.shape[axis]) if c not in kept]
    for part, where in ((self.kept, kept), (self.rest, others)):
        if part is not None:
            weight = weight.index_copy(axis, torch.tensor(where), part)
    top, left, bottom, right = self.padding
    padded = F.pad(x - self.x.zero, (left, right, top, bottom))
    acc = F.conv2d(padded, weight, self.bias, stride=self.stride, groups=self.groups)
    scale = self.weight_scales * self.x.scale / self.y.scale
    with torch.no_grad():
        exact, mask = conv2d(
            *(x.float(), weight.float(), None, self.bias, self.multiplier, self.shift),
            *(self.grad_scale, [], list(self.stride), list(self.padding), self.groups),
            *(self.x.zero, self.y.zero, *self.clamp),
        )
    return _through(exact, acc * scale.view(1, -1, 1, 1), mask)


def _add(self: Int8Add, a: Tensor, b: Tensor) -> Tensor:
    with torch.no_grad():
        exact, mask = add(a, b, list(self.constants.values), 1.0, 1.0, *self.clamp)
    return _through(exact, a * self.grad_scales[0] + b * self.grad_scales[1], mask)


def _clamp(self: Int8Clamp, x: Tensor) -> Tensor:
    with torch.no_grad():
        exact, mask = clamp(x, self.low, self.high)
    return _through(exact, x, mask)


def _global_pool(self: Int8GlobalAvgPool2d, x: Tensor) -> Tensor:
    with torch.no_grad():
        exact = Int8GlobalAvgPool2d()(x.float())
    return _through(exact, x.mean((2, 3), keepdim=True))


def _avg_pool(self: Int8AvgPool2d, x: Tensor) -> Tensor:
    with torch.no_grad():
        exact = Int8AvgPool2d(self.kernel, self.stride, self.padding)(x.float())
    top, left, bottom, right = self.padding
    total, count = (
        F.avg_pool2d(F.pad(v, (left, right, top, bottom)), self.kernel, self.stride)
        for v in (x, torch.ones_like(x))
    )
    return _through(exact, total / count)


def _max_pool(self: Int8MaxPool2d, x: Tensor) -> Tensor:
    top, left, bottom, right = self.padding
    padded = F.pad(x, (left, right, top, bottom), value=-1e9)
    windows = F.unfold(padded, self.kernel, stride=self.stride)
    windows = windows.view(1, x.shape[1], self.kernel[0] * self.kernel[1], -1)
    places = -torch.arange(windows.shape[2]).view(1, 1, -1, 1) * 1e-6  # the first of equals
    first = (windows.detach() + places).argmax(2, keepdim=True)
    with torch.no_grad():
        shape = Int8MaxPool2d(self.kernel, self.stride, self.padding)(x.float()).shape
    return windows.gather(2, first).view(shape)


def _head(self: FloatHead, x: Tensor) -> Tensor:
    real = (x.double() - self.x.zero) * self.x.scale
    return F.linear(real.flatten(1), self.weight, self.bias)


_FORWARDS: dict[type[nn.Module], object] = {
    Int8Conv2d: _conv,
    Int8Add: _add,
    Int8Clamp: _clamp,
    Int8GlobalAvgPool2d: _global_pool,
    Int8AvgPool2d: _avg_pool,
    Int8MaxPool2d: _max_pool,
    FloatHead: _head,
}
