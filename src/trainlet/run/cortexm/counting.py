# SPDX-License-Identifier: Apache-2.0
"""Count retired instructions, by function, with a block hook written in C."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
from unicorn import Uc
from unicorn.unicorn_const import UC_HOOK_BLOCK

from trainlet.run.cortexm.native import STOP, attach, code_of
from trainlet.run.firmware import Firmware


class _Counter(ctypes.Structure):
    """`struct counter` of count_block.c."""

    _fields_ = (
        ("origin", ctypes.c_uint64),
        ("halfwords", ctypes.c_uint64),
        ("code", ctypes.c_void_p),
        ("blocks", ctypes.c_void_p),
        ("executed", ctypes.c_void_p),
        ("total", ctypes.c_uint64),
        ("limit", ctypes.c_uint64),
        ("stop", ctypes.c_void_p),
    )


class InstructionCounter:
    """Counts every instruction of an emulator from the moment it is attached.

    Retired instructions, as QEMU's icount has them: LDRD, LDM and IT count one each, and an
    instruction whose condition fails counts too.
    """

    def __init__(self, firmware: Firmware, emulator: Uc, cache: Path | None = None) -> None:
        """Attach to the emulator; it must not outlive this object."""
        self._firmware = firmware
        self._code = code_of(firmware)
        self._blocks = np.zeros(2 * self._code.size, np.uint32)
        self._executed = np.zeros(self._code.size, np.uint64)
        self._counter = _Counter(
            origin=firmware.memory.flash_origin,
            halfwords=self._code.size,
            code=self._code.ctypes.data,
            blocks=self._blocks.ctypes.data,
            executed=self._executed.ctypes.data,
            total=0,
            limit=2**63,
            stop=STOP,
        )
        attach(emulator, UC_HOOK_BLOCK, "count_block", self._counter, cache)

    def start(self, limit: int) -> None:
        """Count from zero; the emulation stops once more than `limit` instructions ran."""
        self._executed.fill(0)
        self._counter.total = 0
        self._counter.limit = limit

    @property
    def total(self) -> int:
        """Instructions since `start`."""
        return int(self._counter.total)

    @property
    def passed_limit(self) -> bool:
        """Whether the last run was stopped for its limit."""
        return int(self._counter.total) > int(self._counter.limit)

    def by_function(self) -> dict[str, int]:
        """Return instructions by function since `start`, the most expensive first."""
        origin = self._firmware.memory.flash_origin
        counts: dict[str, int] = {}
        for at in np.flatnonzero(self._executed).tolist():
            symbol = self._firmware.symbols.function_at(origin + 2 * at)
            name = "?" if symbol is None else symbol.name
            counts[name] = counts.get(name, 0) + int(self._executed[at])
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
