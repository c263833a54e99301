# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from fake_library import CLASSES, TRAINABLE_BYTES, write_library

from trainlet.errors import TrainletError
from trainlet.run import STATUS_LABEL, STATUS_NOT_INITIALIZED, HostLibrary, read_library
from trainlet.run.host import link_shared
from trainlet.run.objects import Source, compile_objects
from trainlet.run.toolchain import HOST, find_toolchain


@pytest.fixture
def host(library: Path, cache: Path) -> HostLibrary:
    return HostLibrary(library, "fake", cache=cache)


def test_learns_and_starts_over(host: HostLibrary, images: np.ndarray) -> None:
    host.init()
    fresh = host.trainables()
    losses = []
    host.set_learning_rate(0.0, 0.1)
    for _ in range(10):
        assert host.train_step(images[0], 2) == 0
        losses.append(host.loss())
    assert losses == sorted(losses, reverse=True)
    assert not np.array_equal(host.trainables(), fresh)
    assert host.logits().shape == (CLASSES,)
    host.init()
    np.testing.assert_array_equal(host.trainables(), fresh)


def test_status_codes_leave_everything_as_it_was(host: HostLibrary, images: np.ndarray) -> None:
    assert host.predict(images[0]) == STATUS_NOT_INITIALIZED
    host.init()
    fresh = host.trainables()
    assert host.train_step(images[0], CLASSES) == STATUS_LABEL
    np.testing.assert_array_equal(host.trainables(), fresh)


def test_instances_share_nothing(library: Path, cache: Path, images: np.ndarray) -> None:
    one, two = (HostLibrary(library, "fake", cache=cache) for _ in range(2))
    one.init()
    assert one.predict(images[0]) == 0
    assert two.predict(images[0]) == STATUS_NOT_INITIALIZED


def test_trainables_can_be_put_back(host: HostLibrary, images: np.ndarray) -> None:
    host.init()
    host.train_step(images[0], 1)
    learned = host.trainables()
    host.init()
    host.set_trainables(learned)
    np.testing.assert_array_equal(host.trainables(), learned)
    with pytest.raises(TrainletError, match=f"{TRAINABLE_BYTES} bytes"):
        host.set_trainables(learned[1:])


@pytest.mark.parametrize("image", [np.zeros(47, np.int8), np.zeros(48, np.float32)])
def test_wrong_image_is_refused(host: HostLibrary, image: np.ndarray) -> None:
    with pytest.raises(TrainletError, match="takes 48 values of type int8"):
        host.predict(image)


def test_a_closed_library_says_so(host: HostLibrary) -> None:
    with host:
        host.init()
    with pytest.raises(TrainletError, match="was closed"):
        host.init()


def test_the_users_compiler_gives_the_same_bits(
    host: HostLibrary, library: Path, cache: Path, images: np.ndarray
) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("no gcc on this machine")
    other = HostLibrary(library, "fake", cc="gcc", cache=cache)
    for machine in (host, other):
        machine.init(1)
        for step, image in enumerate(images):
            machine.train_step(image, step % CLASSES)
    assert other.logits().tobytes() == host.logits().tobytes()
    np.testing.assert_array_equal(other.trainables(), host.trainables())


def test_two_prefixes_link_together(tmp_path: Path, cache: Path) -> None:
    toolchain = find_toolchain(HOST)
    folders = [write_library(tmp_path / name, name) for name in ("first", "second")]
    sources = [Source(path, (folder,)) for folder in folders for path in sorted(folder.glob("*.c"))]
    both = tmp_path / "both.so"
    link_shared(toolchain, compile_objects(toolchain, sources, cache=cache), both)
    assert b"first_predict" in both.read_bytes()
    assert b"second_predict" in both.read_bytes()


def test_folder_without_library_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainletError, match=r"fake\.h: cannot be read"):
        read_library(tmp_path, "fake")
    (tmp_path / "fake.h").write_text("#define FAKE_INPUT_BYTES 4\n")
    with pytest.raises(TrainletError, match="does not define FAKE_CLASSES"):
        read_library(tmp_path, "fake")
