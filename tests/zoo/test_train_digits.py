# SPDX-License-Identifier: Apache-2.0
"""The committed weights are what the script makes, byte for byte."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/train_digits.py"
COMMITTED = ROOT / "src/trainlet/zoo/data/digits.npz"


def run(target: Path, *options: str) -> bytes:
    command = [sys.executable, str(SCRIPT), "-o", str(target), *options]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return target.read_bytes()


@pytest.mark.slow
def test_two_short_runs_give_the_same_bytes(tmp_path: Path) -> None:
    first = run(tmp_path / "1.npz", "--epochs", "1")
    assert first == run(tmp_path / "2.npz", "--epochs", "1")
    assert first != COMMITTED.read_bytes()


@pytest.mark.slow
@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="other processors round differently"
)
def test_the_committed_file_is_what_the_script_makes(tmp_path: Path) -> None:
    assert COMMITTED.stat().st_size < 200_000
    assert run(tmp_path / "digits.npz") == COMMITTED.read_bytes()
