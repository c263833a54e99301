# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from trainlet.errors import TrainletError
from trainlet.run.objects import Source, compile_objects, default_cache
from trainlet.run.toolchain import HOST, find_toolchain


def compile_one(path: Path, cache: Path, *flags: str) -> Path:
    source = Source(path, (path.parent,), flags)
    return compile_objects(find_toolchain(HOST), [source], cache=cache)[0]


def test_same_content_is_compiled_once(tmp_path: Path) -> None:
    cache, code, header = tmp_path / "cache", tmp_path / "a.c", tmp_path / "a.h"
    header.write_text("#define A 1\n")
    code.write_text('#include "a.h"\nint a(void);\nint a(void) { return A; }\n')
    first = compile_one(code, cache)
    made = first.stat().st_ino
    assert compile_one(code, cache) == first
    assert first.stat().st_ino == made
    assert compile_one(code, cache, "-DB=1") != first
    header.write_text("#define A 2\n")
    assert compile_one(code, cache) != first
    assert sorted(path.suffix for path in cache.iterdir()) == [".o"] * 3


def test_cores_have_objects_of_their_own(tmp_path: Path) -> None:
    code = tmp_path / "a.c"
    code.write_text("int a(void);\nint a(void) { return 1; }\n")
    cores = ("cortex-m7", "cortex-m4", "cortex-m0plus", HOST)
    objects = {compile_objects(find_toolchain(core), [Source(code)], cache=tmp_path)[0]
               for core in cores}  # fmt: skip
    assert len(objects) == len(cores)


def test_error_names_file_line_and_message(tmp_path: Path) -> None:
    code = tmp_path / "broken.c"
    code.write_text("int a(void);\nint a(void) { return b; }\n")
    with pytest.raises(TrainletError, match=r"broken\.c does not compile: line 2: .*'b'"):
        compile_one(code, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_warning_is_an_error(tmp_path: Path) -> None:
    code = tmp_path / "narrow.c"
    code.write_text("char a(int b);\nchar a(int b) { return b; }\n")
    with pytest.raises(TrainletError, match="implicit conversion"):
        compile_one(code, tmp_path / "cache")


def test_progress_and_old_objects(tmp_path: Path) -> None:
    code = tmp_path / "a.c"
    code.write_text("int a(void);\nint a(void) { return 1; }\n")
    old = tmp_path / "old.o"
    old.write_bytes(b"")
    os.utime(old, (0, time.time() - 40 * 24 * 3600))
    seen: list[tuple[str, int, int]] = []
    compile_objects(
        find_toolchain(HOST),
        [Source(code), Source(code, flags=("-DX",))],
        cache=tmp_path,
        progress=lambda *step: seen.append(step),
    )
    assert seen == [("compile for host", 1, 2), ("compile for host", 2, 2)]
    assert not old.exists()


def test_cache_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "trainlet" / "objects"


def test_unknown_core_and_compiler() -> None:
    with pytest.raises(TrainletError, match="known: host, cortex-m7"):
        find_toolchain("aarch64")
    with pytest.raises(TrainletError, match="'no-such-prefix-gcc' was not found"):
        find_toolchain("cortex-m7", "no-such-prefix-")
