# SPDX-License-Identifier: Apache-2.0
"""Resident memory of a fresh process follows the plan."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from trainlet.errors import TrainletError
from trainlet.run.pytorch.resident import measure_resident

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
MEBIBYTE = 1 << 20


@pytest.fixture(autouse=True)
def _entry_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


@pytest.mark.slow
def test_what_the_system_sees_is_what_the_plan_says(tmp_path: Path) -> None:
    """Within 24 MiB: threads' and kernels' workspaces, and pages of libraries touched first."""
    needed = {}
    for kind in ("keep-all", "paging"):
        found = measure_resident("resident_entry:prepare", kind, str(tmp_path))
        needed[kind] = found.peak_bytes - found.start_bytes
        planned = found.result["planned_bytes"]
        assert abs(needed[kind] - planned) < 24 * MEBIBYTE, (kind, needed[kind], planned)
    assert needed["paging"] < needed["keep-all"] - 40 * MEBIBYTE
    assert list(tmp_path.iterdir()) == []


def test_a_failing_run_says_why() -> None:
    with pytest.raises(TrainletError, match="ValueError: nothing to run"):
        measure_resident("resident_entry:fail")
