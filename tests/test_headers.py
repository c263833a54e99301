# SPDX-License-Identifier: Apache-2.0
"""Every source file says its licence and names no path of a machine."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
KINDS = {".py", ".c", ".h", ".j2", ".toml", ".lark"}


def _sources() -> list[Path]:
    folders = (ROOT / name for name in ("src", "tests", "benchmarks", "scripts"))
    return [p for folder in folders for p in folder.rglob("*") if p.suffix in KINDS]


def test_every_source_has_its_licence() -> None:
    missing = [
        str(path.relative_to(ROOT))
        for path in _sources()
        if "SPDX-License-Identifier: Apache-2.0" not in path.read_text(encoding="utf-8")[:400]
    ]
    assert not missing, missing


def test_no_source_names_a_path_of_a_machine() -> None:
    home = re.compile(r"[\"'` (](/" + r"(work|root|home)/)")
    named = [str(p) for p in _sources() if home.search(p.read_text(encoding="utf-8"))]
    assert not named, named
