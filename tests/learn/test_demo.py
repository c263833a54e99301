# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import numpy as np
import pytest

from trainlet.build import Settings, compile_network
from trainlet.cli.main import run
from trainlet.devices import load_device
from trainlet.errors import TrainletError
from trainlet.learn import accuracy, to_int8, train
from trainlet.learn.demo import NETWORK, RATES, SCHEME, run_demo
from trainlet.learn.digits import enlarge, load_digits
from trainlet.run import HostLibrary
from trainlet.zoo import build


def test_the_splits_share_no_image_and_hold_every_class() -> None:
    splits = load_digits()
    parts = (splits.training, splits.device, splits.test)
    assert [len(part) for part in parts] == [900, 497, 400]
    seen = [{image.tobytes() for image in part.images} for part in parts]
    assert len(seen[0] | seen[1] | seen[2]) == 1797
    assert all(set(part.labels.tolist()) == set(range(10)) for part in parts)


def test_turning_four_times_is_nothing() -> None:
    test = load_digits().test
    once = test.turned()
    np.testing.assert_array_equal(once.images[0, :, :, 0], np.rot90(test.images[0, :, :, 0]))
    back = once.turned().turned().turned()
    np.testing.assert_array_equal(back.images, test.images)


def test_enlarging_is_bilinear() -> None:
    flat = enlarge(np.full((1, 3, 3), 16))
    assert flat.shape == (1, 6, 6, 1)
    assert (flat == 255).all()
    ramp = enlarge(np.array([[[0, 16]]]))[0, :, :, 0]
    np.testing.assert_array_equal(ramp, [[0, 64, 191, 255]] * 2)


def test_a_device_with_an_operating_system_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainletError, match="jetson-tx2 is none: take stm32f746 or nrf52840"):
        run_demo(load_device("jetson-tx2"), tmp_path / "library")
    with pytest.raises(TrainletError, match="steps is 0"):
        run_demo(load_device("stm32f746"), tmp_path / "library", steps=0)


def test_the_verb_refuses_a_full_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert run(["demo", "-o", str(tmp_path)]) == 2
    assert "is not an empty folder" in capsys.readouterr().err


@pytest.mark.slow
def test_a_short_demo_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = []
    for name in ("first", "again"):
        assert run(["demo", "-o", str(tmp_path / name), "--steps", "3", "--json"]) == 0
        outcomes.append(json.loads(capsys.readouterr().out))
    first, again = ({**outcome, "library": "", "report": ""} for outcome in outcomes)
    assert first == again
    assert first["arena_bytes"] == first["arena_lower_bound_bytes"]
    assert first["sram_bytes"] < 32 * 1024
    assert first["accuracy_upright"]["before"] == 0.9825
    assert first["accuracy_turned"]["before"] < 0.4
    assert len(first["losses"]) == first["steps"] == 3
    assert [step for step, _ in first["accuracy_curve"]] == [0, 1, 2, 3]
    assert first["accuracy_curve"][-1][1] == first["accuracy_turned"]["after"]
    assert first["instructions_per_step"] > first["instructions_per_inference"] > 500_000
    page = Path(outcomes[0]["report"]).read_text(encoding="utf-8")
    assert page == Path(outcomes[1]["report"]).read_text(encoding="utf-8")
    assert "turned by 90 degrees" in page
    assert "http" not in page


@pytest.mark.slow
def test_turned_digits_are_learned(tmp_path: Path) -> None:
    """The demo's scheme and rates, on this machine, which ends with the device's bits."""
    network, splits = build("digits"), load_digits()
    folder = tmp_path / "library"
    settings = Settings(NETWORK, NETWORK, RATES)
    compile_network(network, SCHEME, load_device("host"), folder, settings)
    learn, judge = (
        (to_int8(part.images, network.x.scale, network.x.zero), part.labels)
        for part in (splits.device.turned(), splits.test.turned())
    )
    with HostLibrary(folder, NETWORK) as host:
        host.init(0)
        assert accuracy(host, *judge) < 0.4
        losses = train(host, *learn, steps=600)
        assert np.mean(losses[-100:]) < 0.4 * np.mean(losses[:100])
        assert accuracy(host, *judge) > 0.75
