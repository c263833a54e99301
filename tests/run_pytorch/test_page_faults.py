# SPDX-License-Identifier: Apache-2.0
"""A full disk, a damaged page, a failing operator: one line, nothing changed, nothing left."""

from __future__ import annotations

import copy
import errno
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from random_plans import random_plan
from training_cases import Case

from trainlet.errors import TrainletError
from trainlet.run.pytorch import PageFile, PlannedStep


@pytest.fixture
def step(case_of: Callable[[str], Case], tmp_path: Path) -> Iterator[PlannedStep]:
    """A step with pages, after one good run, so that the optimizer has state."""
    case = case_of("transformer")
    case.reset()
    step = PlannedStep(case.trainer, random_plan(case.trainer.problem, 5, page=0.1), tmp_path)
    step.step(case.inputs, case.targets)
    assert step.last is not None
    assert step.last.paged_in_bytes > 0
    yield step
    assert list(tmp_path.iterdir()) == []


def _assert_fails_cleanly(step: PlannedStep, case: Case, message: str) -> None:
    optimizer = step.trainer.optimizer
    before = copy.deepcopy((case.model.state_dict(), optimizer.state_dict()))
    generator, files = torch.get_rng_state(), len(os.listdir("/proc/self/fd"))
    with pytest.raises(TrainletError, match=message) as caught:
        step.step(case.inputs, case.targets)
    assert "\n" not in str(caught.value)
    after = (case.model.state_dict(), optimizer.state_dict())
    assert torch.equal(generator, torch.get_rng_state())
    assert len(os.listdir("/proc/self/fd")) == files
    assert str(before) == str(after)
    for old, new in zip(_tensors(before), _tensors(after), strict=True):
        assert torch.equal(old, new)


def _tensors(tree: object) -> list[torch.Tensor]:
    return [
        leaf for leaf in torch.utils._pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)
    ]


@pytest.fixture
def case(case_of: Callable[[str], Case]) -> Case:
    return case_of("transformer")


def test_a_damaged_page_is_noticed(
    step: PlannedStep, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One bit of the last byte of each page changes on the disk itself."""
    write = PageFile.write

    def damage(pages: PageFile, name: str, tensor: torch.Tensor) -> None:
        write(pages, name, tensor)
        place = pages._places[name] + pages._sizes[name] - 1
        byte = os.pread(pages._file, 1, place)[0]
        os.pwrite(pages._file, bytes([byte ^ 1]), place)

    with monkeypatch.context() as patch:
        patch.setattr(PageFile, "write", damage)
        _assert_fails_cleanly(step, case, "the page of '.*' in .* is damaged")
    step.step(case.inputs, case.targets)  # and it works again


def test_a_disk_without_room_shows_before_the_work(step: PlannedStep, case: Case) -> None:
    """The limit on a file's size stands for a small disk: the system refuses the reservation."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, old[1]))
    try:
        _assert_fails_cleanly(step, case, "cannot reserve [0-9]+ bytes for pages")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


@pytest.mark.parametrize("after", [0, 3])
def test_a_disk_that_fills_up(
    step: PlannedStep, case: Case, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    real, calls = os.pwrite, iter(range(1 << 30))

    def full(file: int, data: bytes, place: int) -> int:
        if next(calls) >= after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(file, data, place)

    monkeypatch.setattr(os, "pwrite", full)
    _assert_fails_cleanly(step, case, "cannot write the page of '.*' in .*: No space left")


def test_a_file_cut_short(step: PlannedStep, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    write = PageFile.write

    def cut(pages: PageFile, name: str, tensor: torch.Tensor) -> None:
        write(pages, name, tensor)
        os.ftruncate(pages._file, 0)

    monkeypatch.setattr(PageFile, "write", cut)
    _assert_fails_cleanly(step, case, "cannot read the page of '.*' in .*: the file ends early")


def test_short_writes_and_reads_are_continued(
    step: PlannedStep, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, read = os.pwrite, os.preadv
    monkeypatch.setattr(os, "pwrite", lambda f, data, at: write(f, data[:1000], at))
    monkeypatch.setattr(os, "preadv", lambda f, into, at: read(f, [into[0][:777]], at))
    planned, _ = case.planned(step.instructions, step.page_folder)
    planned.assert_equals(case.eager)


def test_a_folder_that_is_not_there(step: PlannedStep, case: Case, tmp_path: Path) -> None:
    step.page_folder = tmp_path / "absent"
    _assert_fails_cleanly(step, case, "cannot page to .*absent: No such file")


def test_an_operator_that_fails(step: PlannedStep, case: Case) -> None:
    """A word number outside the embedding."""
    good, case.inputs = case.inputs, torch.full_like(case.inputs, 1000)
    try:
        _assert_fails_cleanly(step, case, "operator '.*embedding' failed")
    finally:
        case.inputs = good


def test_other_batches_and_modes_are_refused(step: PlannedStep, case: Case) -> None:
    with pytest.raises(TrainletError, match="was captured for int64"):
        step.step(case.inputs[:1], case.targets)
    with pytest.raises(TrainletError, match="takes 2 tensors"):
        step.step(case.inputs)
    case.model.eval()
    try:
        with pytest.raises(TrainletError, match=r"call \.train\(\)"):
            step.step(case.inputs, case.targets)
    finally:
        case.model.train()
