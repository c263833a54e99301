# SPDX-License-Identifier: Apache-2.0
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import Call, Fails

from trainlet.cli.console import print_json
from trainlet.cli.work.emulation import Session, run_session
from trainlet.cli.work.emulation_view import agreement, outcome_data, print_outcome
from trainlet.cli.work.examples import choose_examples
from trainlet.errors import TrainletError

KEYS = {
    "model", "scheme", "device", "runs_on", "sram_bytes", "planned_sram_bytes", "arena_bytes",
    "arena_lower_bound_bytes", "trainable_bytes", "stack_bytes", "stack_high_water_bytes",
    "flash_bytes", "instructions_per_inference", "instructions_per_step", "agrees", "images",
    "images_used", "images_skipped", "steps", "seed", "learning_rate", "head_learning_rate",
    "evaluated_split", "evaluated_images", "accuracy_before", "accuracy_after", "losses",
}  # fmt: skip


def copied(library: Path, target: Path) -> Path:
    return Path(shutil.copytree(library, target))


def test_json_has_every_figure_and_they_agree(
    call: Call, tiny_library: Path, tiny_images: Path
) -> None:
    options = ("--images", tiny_images, "--steps", 12, "--evaluate", 6, "--json")
    ended = call("emulate", tiny_library, *options)
    assert (ended.status, ended.err) == (0, "")
    data = ended.data
    assert set(data) == KEYS
    assert len(data["losses"]) == 12
    assert all(loss >= 0 for loss in data["losses"])
    assert data["arena_bytes"] == data["arena_lower_bound_bytes"]
    assert data["instructions_per_step"] > data["instructions_per_inference"] > 10_000
    assert data["agrees"]["agree"] is True
    assert data["sram_bytes"] == data["agrees"]["sram_bytes"]["linked"] > data["planned_sram_bytes"]
    assert 0 < data["stack_high_water_bytes"] <= data["stack_bytes"] == 1024
    assert (data["images_used"], data["images_skipped"]) == (12, ["train/red/9.png"])
    assert (data["evaluated_split"], data["evaluated_images"]) == ("val", 6)
    assert 0 <= data["accuracy_before"] <= 1


def test_this_machine_learns_the_same(call: Call, tiny_library: Path, tiny_images: Path) -> None:
    options = ("--images", tiny_images, "--steps", 6, "--seed", 3, "--evaluate", 3, "--json")
    device = call("emulate", tiny_library, *options).data
    host = call("emulate", tiny_library, *options, "--device", "host").data
    same = ("losses", "accuracy_before", "accuracy_after", "arena_bytes", "planned_sram_bytes")
    assert {key: host[key] for key in same} == {key: device[key] for key in same}
    assert host["runs_on"] == "host"
    assert host["agrees"] is host["sram_bytes"] is host["instructions_per_step"] is None


def test_the_tables(call: Call, tiny_library: Path, tiny_images: Path) -> None:
    options = ("--images", tiny_images, "--steps", 3, "--evaluate", 3)
    ended = call("emulate", tiny_library, *options)
    assert ended.status == 0
    parts = ("agrees", "instructions, not cycles", "accuracy after", "skipped", "train/red/9.png")
    assert all(part in ended.out for part in parts)
    assert "DISAGREES" not in ended.out
    assert "this machine" in call("emulate", tiny_library, *options, "--device", "host").out


def test_without_images_they_are_random_and_it_says_so(call: Call, tiny_library: Path) -> None:
    data = call("emulate", tiny_library, "--steps", 0, "--images-limit", 3, "--json").data
    assert data["images"] == "3 random images (seed 0)"
    assert (data["losses"], data["instructions_per_step"]) == ([], None)
    assert "random images (seed 4)" in call("emulate", tiny_library, "--seed", 4).out


def test_rates_override_those_of_the_library(call: Call, tiny_library: Path) -> None:
    arguments = ("emulate", tiny_library, "--steps", 24, "--device", "host", "--json")
    frozen = call(*arguments, "--learning-rate", 0, "--head-learning-rate", 0).data
    assert (frozen["learning_rate"], frozen["head_learning_rate"]) == (0, 0)
    assert len(set(frozen["losses"])) <= 16
    own = call(*arguments).data
    assert own["head_learning_rate"] == 0.01
    assert own["losses"] != frozen["losses"]
    assert "--learning-rate is -1" in call(*arguments, "--learning-rate", -1).err


def test_more_classes_than_the_library_has(
    fails: Fails, call: Call, tiny_library: Path, tiny_images: Path, tmp_path: Path
) -> None:
    many = Path(shutil.copytree(tiny_images, tmp_path / "many"))
    for name in ("a", "b", "c"):
        shutil.copytree(many / "train" / "blue", many / "train" / name)
    message = fails("emulate", tiny_library, "--images", many)
    assert "has 6 classes, but the library has 5: add --classes-limit 5" in message
    options = ("--classes-limit", 5, "--steps", 1)
    assert call("emulate", tiny_library, "--images", many, *options).status == 0


def test_data_that_cannot_be_had(fails: Fails, tiny_library: Path, tiny_images: Path) -> None:
    arguments = ("emulate", tiny_library, "--images")
    assert "does not exist" in fails(*arguments, tiny_images / "none")
    assert "it has train, val" in fails(*arguments, tiny_images, "--split", "test")
    only = fails(*arguments, tiny_images, "--split", "val", "--evaluate", 3)
    assert "needs a split val or test beside 'val'" in only
    assert "--evaluate needs real images" in fails("emulate", tiny_library, "--evaluate", 3)


def test_folders_that_hold_no_library(fails: Fails, tiny_library: Path, tmp_path: Path) -> None:
    assert "holds no compiled library" in fails("emulate", tmp_path)
    manifest = tmp_path / "manifest.json"
    for text, part in (("{", "cannot be read"), ("[]", "is not one of"), ("{}", "prefix")):
        manifest.write_text(text)
        assert part in fails("emulate", tmp_path)
    shutil.copy(tiny_library / "manifest.json", manifest)
    assert "tiny_net.h" in fails("emulate", tmp_path)


def test_a_library_for_a_linux_device_runs_on_this_machine(
    call: Call, fails: Fails, tiny_model: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "pi"
    options = ("--resolution", 16, "--device", "raspberry-pi-4", "-o", folder)
    assert call("compile", tiny_model, *options).status == 0
    data = call("emulate", folder, "--steps", 1, "--json").data
    assert data["runs_on"] == "host"
    assert "use --device host" in fails("emulate", folder, "--device", "emulated")


def test_the_firmware_is_built_again_when_a_source_is_newer(
    call: Call, fails: Fails, tiny_library: Path, tmp_path: Path
) -> None:
    folder = copied(tiny_library, tmp_path / "library")
    image = folder / "firmware.elf"
    arguments = ("emulate", folder, "--steps", 1, "--json")
    before = image.stat().st_mtime_ns
    first = call(*arguments).data
    assert image.stat().st_mtime_ns == before
    newer = image.stat().st_mtime + 1
    os.utime(folder / "tiny_net.c", (newer, newer))
    assert call(*arguments).data == first
    assert image.stat().st_mtime_ns != before
    image.unlink()
    assert call(*arguments).data == first
    image.write_bytes(b"no image")
    assert "is no firmware image" in fails("emulate", folder)


@pytest.mark.parametrize(
    ("part", "row"),
    [("arena", "context_bytes"), ("sram", "sram_bytes"), ("stack", "stack_bytes")],
)
def test_figures_that_disagree_are_an_error(
    tiny_library: Path, part: str, row: str, capsys: pytest.CaptureFixture[str]
) -> None:
    session = Session.open(tiny_library, None, (None, None), 1, 0)
    examples = choose_examples(session.manifest, None, "train", (None, 1), None, 0)
    outcome = run_session(session, examples, quiet=True)
    planned: dict[str, Any] = dict(session.manifest["planned"])
    planned[f"{part}_bytes"] += 8
    wrong = replace(session, manifest={**session.manifest, "planned": planned})
    disagreeing = replace(outcome, session=wrong)
    agrees = agreement(disagreeing)
    assert agrees is not None
    assert (agrees[row]["agree"], agrees["agree"]) == (False, False)
    with pytest.raises(TrainletError, match="disagree"):
        print_outcome(disagreeing, as_json=True)
    assert json.loads(capsys.readouterr().out)["agrees"]["agree"] is False


def test_a_loss_that_is_not_finite_becomes_null(
    tiny_library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = Session.open(tiny_library, None, (None, None), 1, 0)
    examples = choose_examples(session.manifest, None, "train", (None, 1), None, 0)
    outcome = run_session(session, examples, quiet=True)
    print_json(outcome_data(replace(outcome, losses=[float("nan"), float("inf"), 1.0])))
    assert json.loads(capsys.readouterr().out)["losses"] == [None, None, 1.0]
