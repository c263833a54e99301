# SPDX-License-Identifier: Apache-2.0
"""From what a tiny-training pickle holds to records, with every assumption checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trainlet.errors import TrainletError
from trainlet.importers.pickles import read_arrays
from trainlet.importers.records import BlockRecord, ConvRecord, NetworkRecord
from trainlet.nn import Quantization


class _BadError(Exception):
    """What is wrong, and where in the pickle."""


def read_tiny_training(path: str | Path) -> NetworkRecord:
    """Read and check a network of On-Device Training Under 256KB Memory (tiny-training's .pkl).

    Raises:
        TrainletError: the file cannot be read or trusted, or it is not such a network; the line
            names the first place that is wrong.
    """
    data = read_arrays(path)
    try:
        network = _network(data)
        _check_chain(network)
    except _BadError as bad:
        raise TrainletError(f"{path} is not a tiny-training network: {bad}") from None
    return network


def _network(data: object) -> NetworkRecord:
    table = _table(data, "the file")
    if table.get("feature_mix") is not None:
        raise _BadError("feature_mix is a convolution, which the paper's networks do not have")
    blocks = _get(table, "blocks", "")
    if not isinstance(blocks, (list, tuple)):
        raise _BadError("blocks is not a list")
    return NetworkRecord(
        first_conv=_conv(_get(table, "first_conv", ""), "first_conv"),
        blocks=tuple(_block(block, f"blocks.{index}") for index, block in enumerate(blocks)),
        classifier=_conv(_get(table, "classifier", ""), "classifier"),
    )


def _block(data: object, where: str) -> BlockRecord:
    table = _table(data, where)
    if table.get("se") is not None:
        raise _BadError(f"{where}.se is a squeeze-and-excitation, which is not supported")
    expansion = _get(table, "pointwise1", where)
    block = BlockRecord(
        pointwise1=None if expansion is None else _conv(expansion, f"{where}.pointwise1"),
        depthwise=_conv(_get(table, "depthwise", where), f"{where}.depthwise"),
        pointwise2=_conv(_get(table, "pointwise2", where), f"{where}.pointwise2"),
        residual=None,
    )
    residual = table.get("residual")
    if residual is None:
        return block
    place = f"{where}.residual"
    params = _table(_get(_table(residual, place), "params", place), f"{place}.params")
    source = _quantization(params, "x", f"{place}.params")
    _, first = next(block.convolutions())
    if source != first.input:
        raise _BadError(f"{place} reads {_text(source)}, but its block reads {_text(first.input)}")
    return replace(block, residual=_quantization(params, "y", f"{place}.params"))


def _conv(data: object, where: str) -> ConvRecord:
    table = _table(data, where)
    if table.get("act") is not None:
        raise _BadError(
            f"{where}.act is {table['act']!r}; the clamp of its range is the activation"
        )
    inputs, outputs, groups = (
        _count(table, key, where) for key in ("in_channel", "out_channel", "groups")
    )
    kernel, stride = (_pair(table, key, where) for key in ("kernel_size", "stride"))
    if inputs % groups or outputs % groups:
        raise _BadError(f"{where} has {inputs} inputs, {outputs} outputs and {groups} groups")
    place = f"{where}.params"
    params = _table(_get(table, "params", where), place)
    weight = _array(params, "weight", place, (outputs, inputs // groups, *kernel), "i1")
    if weight.size and weight.min() < -127:
        raise _BadError(f"{place}.weight holds -128; weights lie in [-127, 127]")
    scales = _array(params, "w_scales", place, (outputs,), "f4", "f8").astype(np.float64)
    if not (np.isfinite(scales).all() and (scales > 0).all()):
        raise _BadError(f"{place}.w_scales holds a scale that is not positive")
    return ConvRecord(
        in_channels=inputs,
        out_channels=outputs,
        kernel_size=kernel,
        stride=stride,
        groups=groups,
        weight=weight,
        bias=_array(params, "bias", place, (outputs,), "i4", "i8").astype(np.int64),
        weight_scales=scales,
        input=_quantization(params, "x", place),
        output=_quantization(params, "y", place),
    )


def _check_chain(network: NetworkRecord) -> None:
    """Check that each part takes what the one before it gives, and that sums are sums of equals."""
    channels, quantization = network.first_conv.out_channels, network.first_conv.output
    for index, block in enumerate(network.blocks):
        block_channels, strides = channels, 1
        for name, conv in block.convolutions():
            _check_link(f"blocks.{index}.{name}", conv, channels, quantization)
            channels, quantization = conv.out_channels, conv.output
            strides *= conv.stride[0] * conv.stride[1]
        if block.residual is not None:
            if channels != block_channels or strides != 1:
                raise _BadError(
                    f"blocks.{index}.residual adds {block_channels} channels to {channels} "
                    f"at stride {strides}"
                )
            quantization = block.residual
    _check_link("classifier", network.classifier, channels, quantization)
    if network.classifier.kernel_size != (1, 1) or network.classifier.groups != 1:
        raise _BadError("classifier is not a pointwise convolution")


def _check_link(where: str, conv: ConvRecord, channels: int, quantization: Quantization) -> None:
    if conv.in_channels != channels:
        raise _BadError(f"{where} takes {conv.in_channels} channels, but {channels} arrive")
    if conv.input != quantization:
        raise _BadError(f"{where} reads {_text(conv.input)}, but {_text(quantization)} arrives")


def _table(data: object, where: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise _BadError(f"{where} is a {type(data).__name__}, not a dict")
    return data


def _get(table: Mapping[str, Any], key: str, where: str) -> Any:
    if key not in table:
        raise _BadError(f"{where}.{key} is missing".lstrip("."))
    return table[key]


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _count(table: Mapping[str, Any], key: str, where: str) -> int:
    value = _get(table, key, where)
    if not _is_int(value) or not 1 <= value <= 1 << 16:
        raise _BadError(f"{where}.{key} is {value!r}, not a count")
    return int(value)


def _pair(table: Mapping[str, Any], key: str, where: str) -> tuple[int, int]:
    value = _get(table, key, where)
    pair: Sequence[Any] = value if isinstance(value, (list, tuple)) else (value, value)
    if len(pair) != 2 or not all(_is_int(item) and 1 <= item <= 255 for item in pair):
        raise _BadError(f"{where}.{key} is {value!r}, not one or two counts")
    return int(pair[0]), int(pair[1])


def _array(
    table: Mapping[str, Any], key: str, where: str, shape: tuple[int, ...], *types: str
) -> npt.NDArray[Any]:
    value = _get(table, key, where)
    if not isinstance(value, np.ndarray):
        raise _BadError(f"{where}.{key} is a {type(value).__name__}, not an array")
    if value.shape != shape or value.dtype.str[1:] not in types:
        wanted = " or ".join(str(np.dtype(name)) for name in types)
        raise _BadError(
            f"{where}.{key} is {value.dtype} of shape {value.shape}; it must be {wanted} of "
            f"shape {shape}"
        )
    return value.astype(value.dtype.newbyteorder("="))


def _quantization(table: Mapping[str, Any], side: str, where: str) -> Quantization:
    scale, zero = (_get(table, f"{side}_{part}", where) for part in ("scale", "zero"))
    if isinstance(scale, bool) or not isinstance(scale, (int, float)):
        raise _BadError(f"{where}.{side}_scale is {scale!r}, not a number")
    if not (math.isfinite(scale) and scale > 0):
        raise _BadError(f"{where}.{side}_scale is {scale!r}, not a positive number")
    if not _is_int(zero) or not -128 <= zero <= 127:
        raise _BadError(f"{where}.{side}_zero is {zero!r}, not an int8")
    return Quantization(float(scale), int(zero))


def _text(quantization: Quantization) -> str:
    return f"scale {quantization.scale:.6g} zero {quantization.zero}"
