# SPDX-License-Identifier: Apache-2.0
"""Compile C files to objects, a few at a time, and keep each object by its content."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from trainlet.errors import TrainletError
from trainlet.run.library import Progress
from trainlet.run.toolchain import Toolchain

_KEEP_SECONDS = 30 * 24 * 3600


@dataclass(frozen=True)
class Source:
    """One C file, the folders its headers lie in, and flags of its own."""

    path: Path
    include: tuple[Path, ...] = ()
    flags: tuple[str, ...] = ()


def default_cache() -> Path:
    """Return the user's folder for objects: $XDG_CACHE_HOME or ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME")
    root = Path(base) if base else Path.home() / ".cache"
    return root / "trainlet" / "objects"


def compile_objects(
    toolchain: Toolchain,
    sources: Sequence[Source],
    *,
    cache: Path | None = None,
    jobs: int = 2,
    progress: Progress | None = None,
) -> list[Path]:
    """Return one object a source, compiled now or found in the cache.

    Raises TrainletError that names the file, the line and the compiler's first message.
    """
    folder = default_cache() if cache is None else cache
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrainletError(
            f"{folder}: cannot be made ({error.strerror}); set XDG_CACHE_HOME"
        ) from error
    _forget_old(folder)
    objects: list[Path] = []
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        work = pool.map(lambda source: _object(toolchain, source, folder), sources)
        try:
            for done, path in enumerate(work, start=1):
                objects.append(path)
                if progress is not None:
                    progress(f"compile for {toolchain.core}", done, len(sources))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return objects


def run_compiler(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a compiler or linker; its messages are in English whatever the locale."""
    environment = os.environ | {"LC_ALL": "C"}
    try:
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    except OSError as error:
        raise TrainletError(f"compiler {command[0]} does not run: {error}") from error


def first_message(output: str) -> str:
    """Return the first error of a compiler's or linker's output, or its first line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [
        line
        for line in lines
        if re.search(r"\b(error|undefined|overflowed)\b", line, re.IGNORECASE)
    ]
    return (errors or lines or ["no message"])[0]


def _object(toolchain: Toolchain, source: Source, folder: Path) -> Path:
    target = folder / f"{_key(toolchain, source)}.o"
    try:
        os.utime(target)
        return target
    except FileNotFoundError:
        pass
    includes = [part for place in source.include for part in ("-I", str(place))]
    handle, scratch = tempfile.mkstemp(suffix=".o", dir=folder)
    os.close(handle)
    try:
        flags = (*toolchain.compile_flags, *source.flags, *includes)
        result = run_compiler([*toolchain.command, *flags, "-c", str(source.path), "-o", scratch])
        if result.returncode != 0:
            message = first_message(result.stderr or result.stdout)
            raise TrainletError(f"{source.path.name} does not compile: {_at_line(message)}")
        os.replace(scratch, target)
    finally:
        Path(scratch).unlink(missing_ok=True)
    return target


def _at_line(message: str) -> str:
    """Turn `path/file.c:12:3: error: text` into `line 12: text`."""
    found = re.match(r".*?:(\d+):(?:\d+:)? (?:fatal )?error: (.*)", message)
    return f"line {found.group(1)}: {found.group(2)}" if found else message


def _key(toolchain: Toolchain, source: Source) -> str:
    """Hash everything the object depends on: compiler, flags, the file, every header in reach."""
    digest = hashlib.sha256()
    for text in (toolchain.identity, *toolchain.compile_flags, "--", *source.flags):
        digest.update(text.encode() + b"\0")
    headers = (path for place in source.include for path in sorted(place.glob("*.h")))
    for path in _unique([source.path, *headers]):
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _unique(paths: Iterable[Path]) -> list[Path]:
    return list(dict.fromkeys(paths))


def _forget_old(folder: Path) -> None:
    """Delete objects that nothing has used for a month, so that the cache stays bounded."""
    horizon = time.time() - _KEEP_SECONDS
    for path in folder.glob("*.o"):
        try:
            if path.stat().st_mtime < horizon:
                path.unlink()
        except FileNotFoundError:
            continue
