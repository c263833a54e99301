# SPDX-License-Identifier: Apache-2.0
"""Hooks of the emulator that are written in C: a hook in Python is tens of times slower."""

from __future__ import annotations

import ctypes
import functools
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from unicorn import Uc, UcError
from unicorn.unicorn_const import UC_ERR_OK
from unicorn.unicorn_py3.unicorn import uc_hook_h, uclib

from trainlet.run.firmware import Firmware
from trainlet.run.host import link_shared
from trainlet.run.objects import Source, compile_objects
from trainlet.run.toolchain import HOST, find_toolchain

STOP = ctypes.cast(uclib.uc_emu_stop, ctypes.c_void_p).value
READ_REGISTER = ctypes.cast(uclib.uc_reg_read, ctypes.c_void_p).value


def attach(emulator: Uc, kind: int, name: str, state: ctypes.Structure, cache: Path | None) -> None:
    """Call the C function `name` of `<name>.c` at every event of this kind, with `state`.

    The state must live as long as the emulator runs.
    """
    handle = uc_hook_h()
    status = uclib.uc_hook_add(
        emulator._uch,
        ctypes.byref(handle),
        kind,
        ctypes.cast(getattr(_load(name, cache), name), ctypes.c_void_p),
        ctypes.cast(ctypes.pointer(state), ctypes.c_void_p),
        ctypes.c_uint64(1),
        ctypes.c_uint64(0),  # begin > end: every address
    )
    if status != UC_ERR_OK:
        raise UcError(status)


def code_of(firmware: Firmware) -> NDArray[np.uint16]:
    """Return the image's code as halfwords, from the flash's origin on.

    Constants follow code in flash, so the table ends where the code does.
    """
    origin, size = firmware.memory.flash_origin, firmware.sizes.text
    code = bytearray(size + size % 2)
    for start, content in firmware.segments:
        part = content[: max(0, len(code) - (start - origin))]
        code[start - origin : start - origin + len(part)] = part
    return np.frombuffer(bytes(code), np.uint16)


@functools.cache
def _load(name: str, cache: Path | None) -> ctypes.CDLL:
    """Compile and load one file of hooks, once a process."""
    toolchain = find_toolchain(HOST)
    objects = compile_objects(toolchain, [Source(Path(__file__).parent / f"{name}.c")], cache=cache)
    with tempfile.TemporaryDirectory(prefix="trainlet-") as scratch:
        shared = Path(scratch) / f"{name}.so"
        link_shared(toolchain, objects, shared)
        return ctypes.CDLL(str(shared))
