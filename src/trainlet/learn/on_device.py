# SPDX-License-Identifier: Apache-2.0
"""The training loop of a device: one image at a time, on any machine that runs the library."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from trainlet.errors import TrainletError
from trainlet.run import STATUS_LABEL, STATUS_NOT_INITIALIZED, Machine, Progress

_REASONS = {
    STATUS_LABEL: "the label is out of range",
    STATUS_NOT_INITIALIZED: "the library was not initialized: call init first",
}


def train(
    machine: Machine,
    images: NDArray[np.int8],
    labels: NDArray[np.integer],
    *,
    steps: int,
    seed: int = 0,
    progress: Progress | None = None,
    after_step: Callable[[int], None] | None = None,
) -> list[float]:
    """Learn from one image a step and return the loss of each step, before its update.

    Each pass over the data has an order of its own, which `seed` and the pass's number give.

    Args:
        machine: an initialized library.
        images: int8 [N, H, W, C], quantized as the network's input.
        labels: [N], from 0 to the library's classes - 1.
        steps: how many.
        seed: of the order.
        progress: called after each step.
        after_step: called with the step's number, while the machine stands right behind it.

    Raises:
        TrainletError: the data do not suit the library, or the library refuses a step.
    """
    _check(machine, images, labels)
    if steps < 0:
        raise TrainletError(f"steps is {steps}; give 0 or more")
    losses: list[float] = []
    for step, index in zip(range(steps), visiting_order(len(images), seed), strict=False):
        status = machine.train_step(images[index], int(labels[index]))
        _expect_success(status, f"training step {step} (image {index})")
        losses.append(machine.loss())
        if after_step is not None:
            after_step(step)
        if progress is not None:
            progress("training steps", step + 1, steps)
    return losses


def accuracy(
    machine: Machine,
    images: NDArray[np.int8],
    labels: NDArray[np.integer],
    progress: Progress | None = None,
) -> float:
    """Share of images whose largest logit is their label's, in 0 .. 1; the first of equals wins.

    Shapes and errors as in `train`.
    """
    _check(machine, images, labels)
    right = 0
    for index, image in enumerate(images):
        _expect_success(machine.predict(image), f"inference of image {index}")
        right += int(np.argmax(machine.logits())) == int(labels[index])
        if progress is not None:
            progress("evaluation", index + 1, len(images))
    return right / len(images)


def visiting_order(count: int, seed: int) -> Iterator[int]:
    """Yield indices of `count` images without end: one permutation a pass."""
    passes = 0
    while True:
        yield from np.random.default_rng([seed, passes]).permutation(count).tolist()
        passes += 1


def _check(machine: Machine, images: NDArray[np.int8], labels: NDArray[np.integer]) -> None:
    """Refuse data that the library cannot take, before anything runs."""
    if len(images) == 0 or len(images) != len(labels):
        raise TrainletError(
            f"{len(images)} images and {len(labels)} labels were given;"
            " give as many labels as images, and at least one"
        )
    least, most, classes = int(labels.min()), int(labels.max()), machine.library.classes
    if least < 0 or most >= classes:
        raise TrainletError(
            f"labels run from {least} to {most}, but the library has {classes} classes"
            f" (0 to {classes - 1}): compile with more classes, or give fewer"
        )


def _expect_success(status: int, what: str) -> None:
    if status != 0:
        raise TrainletError(f"{what}: {_REASONS.get(status, f'the library returned {status}')}")
