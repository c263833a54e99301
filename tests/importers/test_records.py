# SPDX-License-Identifier: Apache-2.0
import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_pickle import network, write

from trainlet.errors import TrainletError
from trainlet.importers.tiny_training_records import read_tiny_training
from trainlet.nn import Quantization

Change = Callable[[dict[str, Any]], object]


def test_a_network_is_read_whole(tmp_path: Path) -> None:
    data = network()
    record = read_tiny_training(write(tmp_path / "n.pkl", data))
    assert [path for path, _ in record.convolutions()] == [
        "first_conv",
        "blocks.0.depthwise",
        "blocks.0.pointwise2",
        "blocks.1.pointwise1",
        "blocks.1.depthwise",
        "blocks.1.pointwise2",
    ]
    first = record.first_conv
    assert (first.stride, first.padding, first.groups) == ((2, 2), (1, 1), 1)
    assert first.out_size((16, 17)) == (8, 9)
    assert (first.weight.dtype, first.bias.dtype) == (np.int8, np.int64)
    np.testing.assert_array_equal(first.weight, data["first_conv"]["params"]["weight"])
    assert record.blocks[0].residual is None
    assert record.blocks[1].residual == Quantization(0.0613, -2)
    assert record.classifier.out_channels == 5
    assert first.bias_limit == 2**31 - 1 - 27 * 127 * 255


def depthwise(data: dict[str, Any]) -> Any:
    return data["blocks"][1]["depthwise"]


def params(data: dict[str, Any]) -> Any:
    return depthwise(data)["params"]


BROKEN: list[tuple[Change, str]] = [
    (lambda d: d.pop("classifier"), "classifier is missing"),
    (lambda d: d.update(blocks=3), "blocks is not a list"),
    (lambda d: d.update(feature_mix={}), "feature_mix"),
    (lambda d: d["blocks"][0].update(se={}), "blocks.0.se is a squeeze"),
    (lambda d: d["blocks"].append(3), "blocks.2 is a int, not a dict"),
    (lambda d: d["blocks"][0].update(depthwise=None), "blocks.0.depthwise is a NoneType"),
    (lambda d: d["blocks"][1].pop("pointwise2"), "blocks.1.pointwise2 is missing"),
    (lambda d: depthwise(d).update(act="relu"), "blocks.1.depthwise.act is 'relu'"),
    (lambda d: depthwise(d).update(groups=7), "12 inputs, 12 outputs and 7 groups"),
    (lambda d: depthwise(d).update(stride=0), "stride is 0"),
    (lambda d: depthwise(d).update(in_channel=True), "in_channel is True"),
    (lambda d: params(d).pop("bias"), "blocks.1.depthwise.params.bias is missing"),
    (
        lambda d: params(d).update(weight=params(d)["weight"].astype(np.float32)),
        "weight is float32 of shape (12, 1, 5, 5); it must be int8 of shape (12, 1, 5, 5)",
    ),
    (
        lambda d: params(d).update(bias=params(d)["bias"][:-1]),
        "bias is int32 of shape (11,); it must be int32 or int64 of shape (12,)",
    ),
    (lambda d: params(d).update(w_scales=[1.0]), "w_scales is a list, not an array"),
    (lambda d: params(d)["w_scales"].fill(0), "w_scales holds a scale that is not positive"),
    (lambda d: params(d)["weight"].fill(-128), "weight holds -128"),
    (lambda d: params(d).update(x_zero=300), "x_zero is 300, not an int8"),
    (lambda d: params(d).update(x_scale="1"), "x_scale is '1', not a number"),
    (lambda d: params(d).update(y_scale=float("nan")), "not a positive number"),
    (lambda d: params(d).update(x_scale=0.5), "blocks.1.depthwise reads"),
    (lambda d: d["classifier"].update(kernel_size=(1,)), "kernel_size is (1,)"),
    (
        lambda d: d["blocks"][1]["residual"]["params"].update(x_zero=4),
        "blocks.1.residual reads scale 0.05 zero 4, but",
    ),
    (lambda d: d["blocks"][1]["residual"].pop("params"), "residual.params is missing"),
    (lambda d: depthwise(d).update(stride=2), "blocks.1.residual adds 6 channels to 6"),
    (lambda d: d["blocks"].pop(0), "blocks.0.pointwise1 takes 6 channels, but 8 arrive"),
]


@pytest.mark.parametrize(("change", "part"), BROKEN, ids=[part for _, part in BROKEN])
def test_a_wrong_network_is_refused_in_one_line(tmp_path: Path, change: Change, part: str) -> None:
    data = copy.deepcopy(network())
    change(data)
    path = write(tmp_path / "n.pkl", data)
    with pytest.raises(TrainletError) as caught:
        read_tiny_training(path)
    message = str(caught.value)
    assert message.startswith(f"{path} is not a tiny-training network: ")
    assert part in message
    assert "\n" not in message


def test_a_pickle_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainletError, match="the file is a list, not a dict"):
        read_tiny_training(write(tmp_path / "n.pkl", [1, 2]))


@pytest.mark.parametrize(
    ("name", "convolutions", "residuals"),
    [("mcunet-5fps", 42, 7), ("mbv2-w0.35", 51, 10), ("proxyless-w0.3", 60, 13)],
)
def test_the_papers_networks_are_read(
    shared_dir: Path, name: str, convolutions: int, residuals: int
) -> None:
    record = read_tiny_training(shared_dir / "models/tiny-training" / f"{name}.pkl")
    assert len(list(record.convolutions())) == convolutions
    assert sum(block.residual is not None for block in record.blocks) == residuals
    assert record.classifier.out_channels == 1000
