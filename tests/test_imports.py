# SPDX-License-Identifier: Apache-2.0
"""Data flows one way: a room imports the rooms to its right and never one to its left."""

from __future__ import annotations

import ast
from pathlib import Path

import trainlet

ROOT = Path(trainlet.__file__).parent
ORDER = [
    {"cli"},
    {"evidence"},
    {"report"},
    {"search"},
    {"learn"},
    {"build"},
    {"run"},
    {"emit"},
    {"passes"},
    {"planning"},
    {"capture"},
    {"quantize", "importers"},
    {"zoo"},
    {"nn"},
    {"ops", "scheme"},
    {"graph", "devices"},
]
RANK = {room: rank for rank, rooms in enumerate(ORDER) for room in rooms}
# Rooms that may import less than their place allows.
ONLY = {"planning": {"graph", "devices"}, "graph": set(), "devices": set(), "scheme": {"graph"}}
SHARED = {"errors", "_version"}


def _imports(path: Path) -> set[str]:
    """Rooms of ours that a file imports."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom):
            assert node.level <= 1, f"{path}: import rooms by their full name"
            names = [node.module or ""] if node.level == 0 else []
            if node.module == "trainlet":
                names = [f"trainlet.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("trainlet.")}
    return rooms - SHARED


def test_every_room_has_its_place() -> None:
    rooms = {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()}
    assert rooms <= set(RANK)


def test_rooms_import_to_their_right_only() -> None:
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).parts
        if len(parts) == 1:
            continue
        room = parts[0]
        for other in _imports(path) - {room}:
            allowed = RANK[room] < RANK[other] and other in ONLY.get(room, {other})
            if not allowed:
                wrong.append(f"{path.relative_to(ROOT)} imports {other}")
    assert not wrong, wrong


def test_files_stay_small() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in ROOT.rglob("*.py")
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > 400
    }
    assert not long, long
