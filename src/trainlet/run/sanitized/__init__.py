# SPDX-License-Identifier: Apache-2.0
"""Run an emitted library under the address and undefined-behaviour sanitizers.

The library runs in a program of its own: what a sanitizer finds ends that program and not Python.
"""

from __future__ import annotations

import functools
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trainlet.errors import TrainletError
from trainlet.run.library import EmittedLibrary, checked_label, image_bytes, read_library
from trainlet.run.objects import Source, compile_objects, first_message, run_compiler
from trainlet.run.toolchain import HOST, Toolchain, find_toolchain

_PREDICT_ONLY = 2**32 - 1
_FULL = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1")
# zig brings no run-time library for addresses; undefined behaviour traps.
_TRAP = ("-fsanitize=undefined", "-fsanitize-trap=undefined", "-g", "-O1")


@dataclass(frozen=True)
class SanitizedRun:
    """The answers of every call, and which sanitizers watched."""

    sanitizers: tuple[str, ...]
    statuses: list[int]
    losses: list[float]
    logits: NDArray[np.float32]
    """[calls, classes]"""
    trainables: NDArray[np.uint8]


def run_sanitized(
    folder: Path | str,
    prefix: str,
    calls: Sequence[tuple[ArrayLike, int | None]],
    *,
    seed: int = 0,
    learning_rates: tuple[float, float] = (0.0, 0.0),
    cc: str | None = None,
    cache: Path | None = None,
    timeout_seconds: float = 600,
) -> SanitizedRun:
    """Run (image, label) calls, a label of None predicting only.

    Uses `cc`, or a gcc or clang of this machine that has both sanitizers, or else zig with
    undefined behaviour alone. Raises TrainletError with the sanitizer's first line.
    """
    library = read_library(folder, prefix)
    toolchain, flags, sanitizers = _sanitizing_toolchain(cc)
    request = struct.pack("=Iff", seed, *learning_rates) + b"".join(
        struct.pack("=I", _PREDICT_ONLY if label is None else checked_label(label))
        + image_bytes(image, library).tobytes()
        for image, label in calls
    )
    with tempfile.TemporaryDirectory(prefix="trainlet-") as scratch:
        program = Path(scratch) / "sanitized"
        _build(library, toolchain, flags, program, cache)
        try:
            result = subprocess.run(
                [program], input=request, capture_output=True, timeout=timeout_seconds, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise TrainletError(
                f"{prefix} under sanitizers did not finish in {timeout_seconds:g} seconds"
            ) from error
    if result.returncode != 0:
        message = first_message(result.stderr.decode(errors="replace"))
        raise TrainletError(
            f"{prefix} fails under the {' and '.join(sanitizers)} sanitizer"
            f" (exit status {result.returncode}): {message}"
        )
    return _answers(result.stdout, library, len(calls), sanitizers)


def _answers(
    output: bytes, library: EmittedLibrary, calls: int, sanitizers: tuple[str, ...]
) -> SanitizedRun:
    record = np.dtype([("status", "i4"), ("loss", "f4"), ("logits", "f4", (library.classes,))])
    answers = np.frombuffer(output, record, count=calls)
    return SanitizedRun(
        sanitizers,
        statuses=answers["status"].tolist(),
        losses=answers["loss"].tolist(),
        logits=answers["logits"].copy(),
        trainables=np.frombuffer(output, np.uint8, offset=calls * record.itemsize).copy(),
    )


def _build(
    library: EmittedLibrary,
    toolchain: Toolchain,
    flags: tuple[str, ...],
    program: Path,
    cache: Path | None,
) -> None:
    named = (
        f'-DLIBRARY_HEADER="{library.header}"',
        f"-DLIBRARY_PREFIX={library.prefix}",
        f"-DLIBRARY_INPUT_BYTES={library.input_bytes}",
        f"-DLIBRARY_CLASSES={library.classes}",
        f"-DLIBRARY_TRAINABLE_BYTES={library.trainable_bytes}",
    )
    include = (library.folder,)
    sources = [Source(path, include, flags) for path in library.sources]
    sources.append(Source(Path(__file__).parent / "driver.c", include, (*flags, *named)))
    objects = compile_objects(toolchain, sources, cache=cache)
    command = [*toolchain.command, *toolchain.target_flags, *flags, *map(str, objects)]
    result = run_compiler([*command, "-o", str(program)])
    if result.returncode != 0:
        raise TrainletError(f"the sanitized program does not link: {first_message(result.stderr)}")


def _sanitizing_toolchain(
    cc: str | None,
) -> tuple[Toolchain, tuple[str, ...], tuple[str, ...]]:
    for name in (cc,) if cc is not None else ("gcc", "clang"):
        if shutil.which(name) is None:
            continue
        toolchain = find_toolchain(HOST, name)
        if _has_sanitizers(toolchain):
            return toolchain, _FULL, ("address", "undefined")
    if cc is not None:
        raise TrainletError(f"compiler {cc!r} cannot link the sanitizers; leave --cc out")
    toolchain = find_toolchain(HOST)
    if sys.platform == "linux":
        # The plain target: the sanitizer's program gains nothing from a newer processor.
        flags = tuple(flag for flag in toolchain.target_flags if not flag.startswith("-mcpu"))
        toolchain = replace(toolchain, target_flags=flags)
    return toolchain, _TRAP, ("undefined",)


@functools.cache
def _has_sanitizers(toolchain: Toolchain) -> bool:
    """Whether a program that uses both sanitizers links and runs."""
    with tempfile.TemporaryDirectory(prefix="trainlet-") as scratch:
        source, program = Path(scratch) / "probe.c", Path(scratch) / "probe"
        source.write_text("int main(void) { return 0; }\n", encoding="utf-8")
        command = [*toolchain.command, *_FULL, str(source), "-o", str(program)]
        if run_compiler(command).returncode != 0:
            return False
        return subprocess.run([program], capture_output=True, check=False).returncode == 0
