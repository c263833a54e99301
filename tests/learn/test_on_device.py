# SPDX-License-Identifier: Apache-2.0
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from trainlet.errors import TrainletError
from trainlet.learn.on_device import accuracy, train, visiting_order
from trainlet.run import EmittedLibrary


class Recorder:
    """A machine of 3 classes that notes what it is asked; the logits favour the first value."""

    def __init__(self, status: int = 0) -> None:
        self.library = EmittedLibrary(Path(), "fake", 4, 3, 0)
        self.seen: list[tuple[int, int]] = []
        self.status = status
        self._image = np.zeros(4, np.int8)

    def init(self, seed: int = 0) -> None: ...

    def set_learning_rate(self, backbone: float, head: float) -> None: ...

    def predict(self, image: ArrayLike) -> int:
        self._image = np.asarray(image).reshape(-1)
        return self.status

    def train_step(self, image: ArrayLike, label: int) -> int:
        self._image = np.asarray(image).reshape(-1)
        self.seen.append((int(self._image[0]), label))
        return self.status

    def logits(self) -> NDArray[np.float32]:
        return np.eye(3, dtype=np.float32)[int(self._image[0]) % 3]

    def loss(self) -> float:
        return float(self._image[0])

    def trainables(self) -> NDArray[np.uint8]:
        return np.zeros(0, np.uint8)

    def set_trainables(self, block: ArrayLike) -> None: ...


def data(count: int = 6) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    images = np.repeat(np.arange(count, dtype=np.int8), 4).reshape(count, 2, 2, 1)
    return images, np.arange(count) % 3


def test_each_pass_visits_every_image_once_in_an_order_of_its_own() -> None:
    machine = Recorder()
    losses = train(machine, *data(), steps=12, seed=5)
    first, second = losses[:6], losses[6:]
    assert sorted(first) == sorted(second) == list(range(6))
    assert first != second
    assert [label for _, label in machine.seen] == [int(loss) % 3 for loss in losses]
    assert losses == train(Recorder(), *data(), steps=12, seed=5)
    assert losses != train(Recorder(), *data(), steps=12, seed=6)


def test_the_order_is_the_same_however_many_steps_are_taken() -> None:
    assert list(islice(visiting_order(7, 1), 5)) == list(islice(visiting_order(7, 1), 20))[:5]


def test_accuracy_counts_the_largest_logit() -> None:
    images, labels = data()
    assert accuracy(Recorder(), images, labels) == 1.0
    labels[:3] = (labels[:3] + 1) % 3
    assert accuracy(Recorder(), images, labels) == 0.5


def test_both_report_progress_and_steps() -> None:
    calls: list[tuple[str, int, int]] = []
    steps: list[int] = []

    def note(what: str, done: int, total: int) -> None:
        calls.append((what, done, total))

    train(Recorder(), *data(), steps=2, progress=note, after_step=steps.append)
    accuracy(Recorder(), *data(2), progress=note)
    assert calls == [
        ("training steps", 1, 2),
        ("training steps", 2, 2),
        ("evaluation", 1, 2),
        ("evaluation", 2, 2),
    ]
    assert steps == [0, 1]


def test_data_that_do_not_suit_the_library_are_refused_before_a_step() -> None:
    machine = Recorder()
    images, labels = data()
    with pytest.raises(TrainletError, match=r"labels run from 0 to 3, .* 3 classes \(0 to 2\)"):
        train(machine, images, np.array([0, 1, 2, 3, 0, 1]), steps=1)
    with pytest.raises(TrainletError, match="6 images and 5 labels"):
        train(machine, images, labels[:5], steps=1)
    with pytest.raises(TrainletError, match="0 images"):
        accuracy(machine, images[:0], labels[:0])
    with pytest.raises(TrainletError, match="steps is -1"):
        train(machine, images, labels, steps=-1)
    assert machine.seen == []


@pytest.mark.parametrize(
    ("status", "reason"), [(1, "out of range"), (2, "call init first"), (9, "returned 9")]
)
def test_a_status_becomes_an_error_that_says_where(status: int, reason: str) -> None:
    with pytest.raises(TrainletError, match=rf"training step 0 \(image \d\): .*{reason}"):
        train(Recorder(status), *data(), steps=1)
    with pytest.raises(TrainletError, match=f"inference of image 0: .*{reason}"):
        accuracy(Recorder(status), *data())
