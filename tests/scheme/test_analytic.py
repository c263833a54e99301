# SPDX-License-Identifier: Apache-2.0
import json
import tomllib
from pathlib import Path

import pytest

from trainlet.errors import TrainletError
from trainlet.scheme import (
    LayerShape,
    PaperScheme,
    Scheme,
    analytic_memory,
    everything,
    last_biases,
    paper_schemes,
)

NETWORKS = tomllib.loads((Path(__file__).parent / "paper_layers.toml").read_text())


def shapes(network: str) -> list[LayerShape]:
    return [
        LayerShape(
            path=f"layer{index}",
            in_channels=inputs,
            out_channels=outputs,
            kernel=(kernel, kernel),
            groups=groups,
            in_size=(size, size),
            out_size=(size // stride, size // stride),
        )
        for index, (inputs, outputs, kernel, stride, groups, size) in enumerate(
            NETWORKS[network]["layers"]
        )
    ]


@pytest.mark.parametrize("entry", paper_schemes(), ids=lambda entry: entry.name)
def test_the_papers_figures_come_out(entry: PaperScheme) -> None:
    memory = analytic_memory(
        entry.scheme, shapes(entry.network), NETWORKS[entry.network]["classifier_in"]
    )
    assert round(memory.kb, 2) == pytest.approx(entry.kb, abs=0.0101)


@pytest.mark.parametrize(
    ("network", "count", "kb"),
    [("mbv2-w0.35", 51, 134), ("mcunet-5fps", 42, 121), ("proxyless-w0.3", 60, 113)],
)
def test_all_biases(network: str, count: int, kb: int) -> None:
    memory = analytic_memory(
        last_biases(count), shapes(network), NETWORKS[network]["classifier_in"]
    )
    assert round(memory.kb) == kb


@pytest.mark.parametrize(
    ("network", "kb"), [("mbv2-w0.35", 1306), ("mcunet-5fps", 1400), ("proxyless-w0.3", 1211)]
)
def test_everything(network: str, kb: int) -> None:
    memory = analytic_memory(everything(), shapes(network), NETWORKS[network]["classifier_in"])
    assert round(memory.kb) == kb


def test_a_layer_that_is_not_there() -> None:
    scheme = Scheme("s", biases=1, weights=(("none", 1.0),))
    with pytest.raises(TrainletError, match="'none' that is not there"):
        analytic_memory(scheme, shapes("mcunet-5fps"), 160)


def test_the_shipped_schemes_are_those_of_the_release(shared_dir: Path) -> None:
    facts = json.loads((shared_dir / "models/tiny-training/layers_and_schemes.json").read_text())
    assert {entry.network for entry in paper_schemes()} == set(facts)
    for entry in paper_schemes():
        stated = facts[entry.network]["schemes"][entry.name.split("-")[1]]
        pairs = zip(stated["manual_weight_idx"], stated["weight_update_ratio"], strict=True)
        assert entry.scheme.weights == tuple((str(i), float(r)) for i, r in pairs if r)
        assert entry.scheme.biases == stated["n_bias_update"]
        assert entry.kb == stated["analytic_total_kb"]
