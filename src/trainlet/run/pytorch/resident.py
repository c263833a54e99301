# SPDX-License-Identifier: Apache-2.0
"""Resident memory of a run in a fresh process: what the system sees, kernels' workspaces included.

The high-water mark is the process's own (``VmHWM``). ``ru_maxrss`` would not do: a child of a big
process starts with its parent's mark.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainlet.errors import TrainletError

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
_MARK = "trainlet-resident:"
_M_MMAP_THRESHOLD = -3
_M_TRIM_THRESHOLD = -1


@dataclass(frozen=True)
class Resident:
    """Resident bytes: after the set-up, and at the most during the run; and what the run returned.

    ``peak_bytes - start_bytes`` is what the run itself needed.
    """

    start_bytes: int
    peak_bytes: int
    result: Any


def measure_resident(entry: str, *arguments: str, timeout: float | None = None) -> Resident:
    """Call ``package.module:function`` with the arguments in a fresh process and watch its memory.

    The function sets up and returns a callable; the mark is reset, the callable runs, and what it
    returns must be JSON. Blocks of 64 KiB and more go back to the system when they are freed, so
    that the resident memory follows what is alive.

    Raises:
        TrainletError: the process fails, or the system does not tell the mark.
    """
    command = [sys.executable, "-m", "trainlet.run.pytorch.resident", entry, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if done.returncode or not lines:
        last = next(iter(done.stderr.strip().splitlines()[-1:]), "no message")
        raise TrainletError(f"measuring {entry} failed: {last}")
    return Resident(**json.loads(lines[-1].removeprefix(_MARK)))


def peak_resident_bytes() -> int:
    """The process's high-water mark since the start, or since it was reset."""
    return _status("VmHWM")


def resident_bytes() -> int:
    """Bytes of the process in memory now."""
    return _status("VmRSS")


def _status(field: str) -> int:
    try:
        found = re.search(rf"^{field}:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)
    except OSError:
        found = None
    if found is None:
        raise TrainletError(f"this system does not tell {field}; resident memory needs Linux")
    return int(found[1]) * 1024


def give_memory_back() -> None:
    """Let the C library return freed blocks of 64 KiB and more to the system at once."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_MMAP_THRESHOLD, 1 << 16)
        library.mallopt(_M_TRIM_THRESHOLD, 1 << 16)


def _main(entry: str, *arguments: str) -> None:
    give_memory_back()
    module, _, name = entry.partition(":")
    prepare: Callable[..., Callable[[], Any]] = getattr(importlib.import_module(module), name)
    run = prepare(*arguments)
    _CLEAR.write_text(_RESET_PEAK)
    start = resident_bytes()
    result = run()
    found = {"start_bytes": start, "peak_bytes": peak_resident_bytes(), "result": result}
    print(_MARK + json.dumps(found))


if __name__ == "__main__":
    _main(*sys.argv[1:])
