# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from fake_library import CLASSES, write_library

from trainlet.errors import TrainletError
from trainlet.run import HostLibrary
from trainlet.run.sanitized import run_sanitized

OVERFLOW = "static volatile int32_t z = 2147483647; z = z + 1;"
# Through a pointer of unknown size: only the address sanitizer can see it.
OUTSIDE = "static volatile uint8_t a[4]; volatile uint8_t *volatile p = a; p[6] = 1;"


def answers_match_the_host(library: Path, cache: Path, images: np.ndarray) -> tuple[str, ...]:
    calls = [(image, step % CLASSES) for step, image in enumerate(images)]
    run = run_sanitized(
        library, "fake", [*calls, (images[0], None)], seed=3, learning_rates=(0.3, 0.1), cache=cache
    )
    host = HostLibrary(library, "fake", cache=cache)
    host.init(3)
    host.set_learning_rate(0.3, 0.1)
    for step, (image, label) in enumerate(calls):
        host.train_step(image, label)
        assert run.losses[step] == host.loss()
    host.predict(images[0])
    np.testing.assert_array_equal(run.logits[-1], host.logits())
    np.testing.assert_array_equal(run.trainables, host.trainables())
    assert run.statuses == [0] * (len(calls) + 1)
    return run.sanitizers


def test_clean_run_has_the_hosts_bits(library: Path, cache: Path, images: np.ndarray) -> None:
    assert "undefined" in answers_match_the_host(library, cache, images)


def test_undefined_behaviour_is_found(tmp_path: Path, cache: Path, images: np.ndarray) -> None:
    library = write_library(tmp_path, extra=OVERFLOW)
    with pytest.raises(TrainletError, match=r"fake fails under the .*undefined sanitizer"):
        run_sanitized(library, "fake", [(images[0], None)], cache=cache)


def test_bad_address_is_found(tmp_path: Path, cache: Path, images: np.ndarray) -> None:
    library = write_library(tmp_path, extra=OUTSIDE)
    clean = run_sanitized(write_library(tmp_path / "clean"), "fake", [], cache=cache)
    if "address" not in clean.sanitizers:
        pytest.skip("no gcc or clang with the address sanitizer on this machine")
    with pytest.raises(TrainletError, match="AddressSanitizer: global-buffer-overflow"):
        run_sanitized(library, "fake", [(images[0], None)], cache=cache)


@pytest.mark.slow
def test_zig_alone_finds_undefined_behaviour(
    tmp_path: Path,
    library: Path,
    cache: Path,
    images: np.ndarray,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert answers_match_the_host(library, cache, images) == ("undefined",)
    broken = write_library(tmp_path, extra=OVERFLOW)
    with pytest.raises(TrainletError, match="fails under the undefined sanitizer"):
        run_sanitized(broken, "fake", [(images[0], None)], cache=cache)
