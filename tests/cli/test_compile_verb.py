# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import pytest
from command_line import Call, Fails, small_device

from trainlet.cli.work.library import DEVICE_FILE, default_prefix


def test_the_folder_holds_the_library_and_its_firmware(tiny_library: Path) -> None:
    names = {path.name for path in tiny_library.iterdir()}
    assert {"tiny_net.h", "tiny_net.c", "manifest.json", "firmware.elf", "plan.json"} <= names
    assert DEVICE_FILE not in names
    manifest = json.loads((tiny_library / "manifest.json").read_text())
    assert (manifest["model"], manifest["prefix"]) == ("tiny-net", "tiny_net")


def test_it_says_what_came_out_and_what_comes_next(
    call: Call, tiny_model: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "new" / "out"
    ended = call("compile", tiny_model, "--resolution", 16, "-o", folder)
    assert (ended.status, ended.err) == (0, "")
    assert "0 above its lower bound" in ended.out
    assert f"trainlet emulate {folder} --images PATH" in ended.out


def test_json_is_the_manifest(call: Call, tiny_model: Path, tmp_path: Path) -> None:
    options = ("--resolution", 16, "--prefix", "my_net", "--stack", 2048, "--json")
    rates = ("--learning-rate", 0.25, "--head-learning-rate", 0)
    ended = call("compile", tiny_model, *options, *rates, "-o", tmp_path / "out")
    data = ended.data
    assert data["folder"] == str(tmp_path / "out")
    assert (data["prefix"], data["classes"]) == ("my_net", 5)
    assert (data["learning_rate"], data["head_learning_rate"]) == (0.25, 0.0)
    assert data["planned"]["stack_bytes"] == data["linked"]["stack"] == 2048
    assert data["linked"]["sram_bytes"] >= data["planned"]["sram_bytes"]


def test_a_device_of_ones_own_lies_beside_the_library(
    call: Call, tiny_model: Path, tmp_path: Path
) -> None:
    device = small_device(tmp_path, 65536)
    options = ("--resolution", 16, "--device", device, "-o", tmp_path / "out")
    assert call("compile", tiny_model, *options).status == 0
    assert (tmp_path / "out" / DEVICE_FILE).read_text() == device.read_text()
    data = call("emulate", tmp_path / "out", "--steps", 1, "--json").data
    assert (data["device"], data["agrees"]["agree"]) == ("small", True)


def test_a_folder_that_is_not_empty_is_left_alone(
    fails: Fails, tiny_model: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    message = fails("compile", tiny_model, "--resolution", 16, "-o", tmp_path)
    assert "not an empty folder" in message
    assert "not an empty folder" in fails("compile", tiny_model, "-o", tmp_path / "mine.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_too_little_sram_writes_nothing(fails: Fails, tiny_model: Path, tmp_path: Path) -> None:
    options = ("--resolution", 16, "--scheme", "last-biases-6")
    device = small_device(tmp_path, 1024)
    message = fails("compile", tiny_model, *options, "--device", device, "-o", tmp_path / "out")
    assert "bytes of SRAM more than" in message
    assert "the arena peaks in" in message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (("--prefix", "9x"), "'9x' cannot prefix C names"),
        (("--learning-rate", "nan"), "--learning-rate is nan"),
        (("--head-learning-rate", -1), "--head-learning-rate is -1"),
        (("--stack", -8), "--stack is -8"),
        (("--device", "none"), "there is no device"),
    ],
)
def test_bad_options(
    fails: Fails, tiny_model: Path, tmp_path: Path, options: tuple[object, ...], part: str
) -> None:
    arguments = ("compile", tiny_model, "--resolution", 16, "-o", tmp_path / "out", *options)
    assert part in fails(*arguments)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("folder", "model", "prefix"),
    [
        ("build/mcunet", "x", "mcunet"),
        ("build/MCUNet 5fps!", "x", "mcunet_5fps"),
        ("build/123", "x", "net_123"),
        ("build/stdint", "x", "net_stdint"),
        ("build/---", "tiny-net", "tiny_net"),
        ("build/---", "???", "network"),
    ],
)
def test_the_default_prefix_is_a_name_that_c_can_use(folder: str, model: str, prefix: str) -> None:
    assert default_prefix(Path(folder), model) == prefix
