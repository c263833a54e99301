# SPDX-License-Identifier: Apache-2.0
"""The float networks: parameter counts of the papers, shapes, and factories by name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from trainlet.errors import TrainletError
from trainlet.zoo.torch_networks import load_task, torch_network_names, training_task

# Published counts: torchvision's for the image networks, Hugging Face's for BERT without head.
PARAMETERS = {
    "vgg16": 138_357_544,
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "mobilenet-v2": 3_504_872,
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_as_published(name: str) -> None:
    with torch.device("meta"):
        model = training_task(name).model
    assert sum(p.numel() for p in model.parameters()) == PARAMETERS[name]


def test_bert_base_has_its_109_million_parameters() -> None:
    with torch.device("meta"):
        model = training_task("bert-base").model
    # bert-base-uncased has 109,482,240 with two segment embeddings, and no head.
    own = sum(p.numel() for n, p in model.named_parameters() if not n.startswith("head."))
    assert own == 109_482_240 - 2 * 768


@pytest.mark.parametrize("name", [n for n in torch_network_names() if n != "bert-base"])
def test_forward_gives_a_finite_loss(name: str) -> None:
    torch.set_num_threads(1)
    task = training_task(name, batch=2)
    with torch.no_grad():
        loss = task.loss(task.model(*task.inputs), *task.targets)
    assert torch.isfinite(loss)
    assert task.model.training


def test_a_seed_gives_the_same_network_and_leaves_the_generator() -> None:
    before = torch.get_rng_state()
    first, second = (training_task("transformer-small", batch=3, seed=5) for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    for a, b in zip(first.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(a, b)
    assert torch.equal(first.inputs[0], second.inputs[0])


def test_unknown_names_are_refused_with_a_hint() -> None:
    with pytest.raises(TrainletError, match="did you mean resnet50"):
        training_task("resnet-50")
    with pytest.raises(TrainletError, match="the batch is 0"):
        training_task("resnet18", batch=0)


def test_a_factory_is_found_and_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_network_for_test.py").write_text(
        "import torch\n"
        "def good():\n"
        "    return torch.nn.Linear(2, 1), torch.nn.MSELoss(), torch.ones(3, 2), torch.ones(3, 1)\n"
        "def odd():\n    return 3\n"
        "def broken():\n    raise ValueError('no such size')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    task = load_task("own_network_for_test:good")
    assert task.loss(task.model(*task.inputs), *task.targets).ndim == 0
    for name, message in (
        ("odd", "returned int"),
        ("broken", "ValueError: no such size"),
        ("absent", "cannot find"),
    ):
        with pytest.raises(TrainletError, match=message):
            load_task(f"own_network_for_test:{name}")
    for bad in ("no_such_module_at_all:f", "justaname", ":f"):
        with pytest.raises(TrainletError):
            load_task(bad)
    sys.modules.pop("own_network_for_test")
