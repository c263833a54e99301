# SPDX-License-Identifier: Apache-2.0
"""A small network, a small library and small images, and a way to call the command line."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import Call, Ended, Fails
from PIL import Image

from trainlet.cli.main import run

# The builder of small pickles stands beside the importers' tests.
sys.path.insert(0, str(Path(__file__).parent.parent / "importers"))
from tiny_pickle import network, write


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Call:
    """Call `trainlet` with these arguments in this process."""

    def called(*arguments: object) -> Ended:
        status = run([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        assert "Traceback" not in captured.err
        return Ended(status, captured.out, captured.err)

    return called


@pytest.fixture
def fails(call: Call) -> Fails:
    """Call with bad input; return the one line that standard error must hold."""

    def failed(*arguments: object) -> str:
        ended = call(*arguments)
        assert (ended.status, ended.out) == (2, "")
        lines = ended.err.splitlines()
        assert lines[0].startswith("trainlet: error: ")
        assert all(line.startswith("  - ") for line in lines[1:])
        return ended.err

    return failed


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An int8 network of five classes for images of 16 x 16."""
    return write(tmp_path_factory.mktemp("model") / "tiny-net.pkl", network())


@pytest.fixture(scope="session")
def tiny_library(tiny_model: Path) -> Path:
    """That network compiled for the stm32f746, three biases and the head learning."""
    folder = tiny_model.parent / "build" / "Tiny Net"
    arguments = ["--resolution", "16", "--scheme", "last-biases-3", "-o", str(folder)]
    assert run(["compile", str(tiny_model), *arguments]) == 0
    return folder


@pytest.fixture(scope="session")
def tiny_images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of three classes, told apart by their colour, in the splits train and val."""
    folder = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    for split, count in (("train", 4), ("val", 3)):
        for label, name in enumerate(("red", "green", "blue")):
            (folder / split / name).mkdir(parents=True)
            for index in range(count):
                pixels = rng.integers(0, 60, (20, 24, 3), dtype=np.uint8)
                pixels[:, :, label] += 180
                Image.fromarray(pixels).save(folder / split / name / f"{index}.png")
    (folder / "train" / "red" / "9.png").write_bytes(b"\x89PNG cut")
    return folder
