# SPDX-License-Identifier: Apache-2.0
"""Compiling into a folder: all or nothing, and the same library every time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import trainlet.build.compile as compiling
from sample_network import RATES, SCHEME, sample_image, sample_network
from trainlet.build import (
    Compiled,
    MisfitError,
    Settings,
    build_program,
    compile_network,
    linked_figures,
    read_manifest,
)
from trainlet.devices import Device, load_device
from trainlet.errors import TrainletError
from trainlet.nn import apply_scheme
from trainlet.planning import check
from trainlet.run import DoesNotFitError, HostLibrary
from trainlet.scheme import Scheme, head_only

SETTINGS = Settings("sample", "net", RATES)


def compiled(folder: Path, scheme: Scheme = SCHEME, device: str | Device = "host") -> Compiled:
    made = load_device(device) if isinstance(device, str) else device
    return compile_network(sample_network(), scheme, made, folder, SETTINGS)


def files_of(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


def test_the_folder_holds_a_library_that_trains(tmp_path: Path) -> None:
    made = compiled(tmp_path / "deep" / "out")
    assert made.folder == tmp_path / "deep" / "out"
    manifest = read_manifest(made.folder)
    assert (manifest["prefix"], manifest["device"], manifest["linked"]) == ("net", "host", None)
    assert manifest["planned"]["sram_bytes"] == made.analysis.sram_bytes
    with HostLibrary(made.folder, "net") as host:
        host.init(1)
        assert host.train_step(sample_image(), 1) == 0


def test_two_compilations_are_equal_to_the_byte(tmp_path: Path) -> None:
    first, second = (compiled(tmp_path / name, head_only()) for name in ("a", "b"))
    assert files_of(first.folder) == files_of(second.folder)


def test_a_network_can_be_compiled_again_under_another_scheme(tmp_path: Path) -> None:
    network = sample_network()
    for name, scheme in (("a", SCHEME), ("b", head_only())):
        compile_network(network, scheme, load_device("host"), tmp_path / name, SETTINGS)
    assert files_of(tmp_path / "b") == files_of(compiled(tmp_path / "c", head_only()).folder)


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert compiled(tmp_path / "out", head_only()).folder.joinpath("net.h").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("name", [".hidden", "note.txt", "net.h"])
def test_a_folder_that_is_not_empty_is_refused_and_untouched(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / name).write_text("mine")
    with pytest.raises(TrainletError, match="is not an empty folder"):
        compiled(out)
    assert files_of(out) == {name: b"mine"}
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_file_in_place_of_the_folder_is_refused_and_untouched(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(TrainletError, match="is not an empty folder"):
        compiled(tmp_path / "out")
    with pytest.raises(TrainletError, match=r"cannot be made \(.*\): give another folder"):
        compiled(tmp_path / "out" / "below", head_only())
    assert files_of(tmp_path) == {"out": b"mine"}


@pytest.mark.parametrize("error", [RuntimeError("linker"), KeyboardInterrupt(), OSError("disk")])
@pytest.mark.parametrize("exists", [False, True])
def test_a_failure_in_the_middle_leaves_nothing_behind(
    error: BaseException, exists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    out = tmp_path / "deep" / "deeper" / "out"
    if exists:
        out.mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(compiling, "build_firmware", fail)
    with pytest.raises(type(error)):
        compiled(out, head_only(), "stm32f746")
    assert sorted(tmp_path.rglob("*")) == before


def test_what_the_linker_finds_too_large_is_a_misfit_of_so_many_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = load_device("stm32f746")
    assert device.memory_map is not None

    def full(*_: Any, **__: Any) -> None:
        assert device.memory_map is not None
        raise DoesNotFitError(123, 45, device.memory_map)

    monkeypatch.setattr(compiling, "build_firmware", full)
    with pytest.raises(MisfitError) as caught:
        compiled(tmp_path / "out", head_only(), device)
    assert (caught.value.flash_excess, caught.value.sram_excess) == (123, 45)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_linked_figures_are_in_the_manifest(tmp_path: Path) -> None:
    made = compiled(tmp_path / "out", device="stm32f746")
    assert made.sizes is not None
    assert read_manifest(made.folder)["linked"] == linked_figures(made.sizes)
    assert (made.folder / "firmware.elf").exists()


@pytest.mark.parametrize("text", [None, "{", "\x00"])
def test_a_folder_without_a_library_is_said_to_be_so(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(TrainletError, match=r"holds no compiled library|cannot be read"):
        read_manifest(tmp_path)


def test_inference_keeps_the_overlaps_that_the_step_chose() -> None:
    """The block's input outlives the addition in the step alone: the choice must not be redone."""
    network = sample_network()
    apply_scheme(network, SCHEME)
    program = build_program(network, "sample")
    check(program.inference.problem, program.inference.plan)
    shared = {(o.output, o.input) for o in program.inference.plan.overlaps}
    assert shared <= {(o.output, o.input) for o in program.step.plan.overlaps}
    for value in program.inference.problem.values:
        addresses = (p.plan.addresses[value.name] for p in (program.step, program.inference))
        assert len(set(addresses)) == 1
