# SPDX-License-Identifier: Apache-2.0
"""Post-training quantization: batch-norm folding, min-max calibration, int8 per channel.

The scheme is TFLite's (int8 weights symmetric per output channel in [-127, 127], int8
activations with a scale and zero point per tensor, int32 biases of scale s_x * s_w).
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from trainlet.zoo.architecture import BlockShape, ConvShape

Arrays = dict[str, NDArray[np.generic]]


class FloatConv(nn.Module):
    """Convolution, batch normalization and, where the shape says so, ReLU6."""

    def __init__(self, shape: ConvShape) -> None:
        super().__init__()
        self.shape = shape
        self.conv = nn.Conv2d(
            shape.inputs,
            shape.outputs,
            shape.kernel,
            shape.stride,
            shape.padding,
            groups=shape.groups,
            bias=False,
        )
        self.norm = nn.BatchNorm2d(shape.outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Reals [N, C, H, W] to reals."""
        y = self.norm(self._convolve(x))
        return F.relu6(y) if self.shape.relu else y

    def _convolve(self, x: Tensor) -> Tensor:
        """Depthwise ones as a sum over taps: without oneDNN PyTorch does them one by one."""
        shape = self.shape
        if shape.groups == 1:
            return self.conv(x)
        pad, step = shape.padding, shape.stride
        wide = F.pad(x, (pad, pad, pad, pad))
        rows, columns = ((s + 2 * pad - shape.kernel) // step + 1 for s in x.shape[2:])
        total = torch.zeros(())
        for tap, weight in enumerate(self.conv.weight.flatten(1).unbind(1)):
            i, j = divmod(tap, shape.kernel)
            window = wide[:, :, i : i + step * rows : step, j : j + step * columns : step]
            total = total + window * weight.view(1, -1, 1, 1)
        return total

    def folded(self) -> tuple[Tensor, Tensor]:
        """Weight and bias, in float64, with the normalization inside."""
        norm = self.norm
        factor = norm.weight.double() / torch.sqrt(norm.running_var.double() + norm.eps)
        weight = self.conv.weight.double() * factor.view(-1, 1, 1, 1)
        return weight, norm.bias.double() - norm.running_mean.double() * factor


class FloatBlock(nn.Module):
    """An inverted residual in floats; ``sum`` stands where the addition can be watched."""

    def __init__(self, shape: BlockShape) -> None:
        super().__init__()
        for name, conv in shape.convolutions():
            self.add_module(name, FloatConv(conv))
        self.names = [name for name, _ in shape.convolutions()]
        self.add = nn.Identity() if shape.residual else None

    def forward(self, x: Tensor) -> Tensor:
        """Reals [N, C, H, W] to reals."""
        y = x
        for name in self.names:
            y = self.get_submodule(name)(y)
        return y if self.add is None else self.add(x + y)


class FloatNetwork(nn.Module):
    """first_conv, blocks, mean over the map, linear head: the twin of nn.Int8Network."""

    def __init__(self, first: ConvShape, blocks: tuple[BlockShape, ...], classes: int) -> None:
        super().__init__()
        self.first_conv = FloatConv(first)
        self.blocks = nn.Sequential(*(FloatBlock(shape) for shape in blocks))
        self.head = nn.Linear(blocks[-1].outputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Reals [N, C, H, W] to logits [N, classes]."""
        return self.head(self.blocks(self.first_conv(x)).mean((2, 3)))


@torch.no_grad()
def quantize(network: FloatNetwork, images: Tensor, input_pair: tuple[float, int]) -> Arrays:
    """The arrays that zoo/digits.py reads; ``images`` [N, C, H, W] calibrate."""
    outputs = {path: affine(*span) for path, span in spans(network, images).items()}
    arrays: Arrays = {"input": np.array(input_pair, dtype=np.float64)}
    scale = input_pair[0]
    for path, module in network.named_modules():
        if isinstance(module, FloatConv):
            arrays |= quantize_conv(path, *module.folded(), scale)
            scale = outputs[path][0]
        elif path in outputs:  # an addition, named after the convolutions of its block
            scale = outputs[path][0]
    arrays |= {f"{path}.output": np.array(pair) for path, pair in outputs.items()}
    arrays |= {f"head.{name}": p.detach().numpy() for name, p in network.head.named_parameters()}
    return arrays


def spans(network: FloatNetwork, images: Tensor) -> dict[str, tuple[float, float]]:
    """Least and largest output of every convolution and addition over the images."""
    found: dict[str, tuple[float, float]] = {}
    hooks = [
        module.register_forward_hook(
            lambda _m, _x, y, path=path: found.update({path: (float(y.min()), float(y.max()))})
        )
        for path, module in network.named_modules()
        if isinstance(module, FloatConv | nn.Identity)
    ]
    network.eval()(images)
    for hook in hooks:
        hook.remove()
    return found


def affine(least: float, largest: float) -> tuple[float, int]:
    """Scale and zero point of int8 for a span, which is widened to hold 0, as TFLite does it."""
    least, largest = min(least, 0.0), max(largest, 0.0)
    scale = (largest - least) / 255 or 1.0
    return scale, int(np.clip(round(-128 - least / scale), -128, 127))


def quantize_conv(path: str, weight: Tensor, bias: Tensor, input_scale: float) -> Arrays:
    """Weight, bias and scales of one convolution in integers."""
    scales = (weight.abs().amax((1, 2, 3)) / 127).clamp(min=1e-9)
    steps = torch.round(weight / scales.view(-1, 1, 1, 1)).clamp(-127, 127)
    whole = torch.round(bias / (scales * input_scale))
    return {
        f"{path}.weight": steps.to(torch.int8).numpy(),
        f"{path}.bias": whole.to(torch.int32).numpy(),
        f"{path}.weight_scales": scales.numpy(),
    }


def save_arrays(path: Path, arrays: Mapping[str, NDArray[np.generic]]) -> None:
    """Write an .npz whose bytes depend on the arrays alone: no time, no user, no platform."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(arrays):
            entry = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            buffer = io.BytesIO()
            np.lib.format.write_array(
                buffer, np.ascontiguousarray(arrays[name]), version=(1, 0), allow_pickle=False
            )
            archive.writestr(entry, buffer.getvalue())
