# SPDX-License-Identifier: Apache-2.0
"""Turn what stopped the emulator into one line that names the place."""

from __future__ import annotations

from typing import Any

from unicorn import Uc, UcError
from unicorn import unicorn_const as uc
from unicorn.arm_const import UC_ARM_REG_LR, UC_ARM_REG_PC, UC_ARM_REG_SP

from trainlet.errors import TrainletError
from trainlet.run.firmware import Firmware

_ACCESSES = {
    uc.UC_MEM_READ_UNMAPPED: "read of unmapped memory",
    uc.UC_MEM_WRITE_UNMAPPED: "write to unmapped memory",
    uc.UC_MEM_FETCH_UNMAPPED: "jump to unmapped memory",
    uc.UC_MEM_READ_PROT: "read of protected memory",
    uc.UC_MEM_WRITE_PROT: "write to flash",
    uc.UC_MEM_FETCH_PROT: "jump to memory that is not code",
}
# QEMU's exception numbers.
_EXCEPTIONS = {
    1: "undefined instruction",
    2: "supervisor call",
    3: "instruction fetch fault",
    4: "data fault",
    7: "breakpoint",
    17: "coprocessor or floating-point unit not available",
    18: "invalid state",
    19: "stack limit passed",
    22: "unaligned access",
}


class FaultWatch:
    """Remembers the first bad access or exception of a run."""

    def __init__(self, firmware: Firmware, emulator: Uc) -> None:
        """Attach to the emulator."""
        self._firmware = firmware
        self._emulator = emulator
        self._seen: tuple[str, int | None] | None = None
        emulator.hook_add(uc.UC_HOOK_MEM_INVALID, self._bad_access)
        emulator.hook_add(uc.UC_HOOK_INTR, self._exception)

    def start(self) -> None:
        """Forget what an earlier run did."""
        self._seen = None

    @property
    def happened(self) -> bool:
        """Whether something faulted since `start`."""
        return self._seen is not None

    def error(self, reason: UcError | None) -> TrainletError:
        """Return the error of a run that stopped at the current program counter."""
        what, address = self._seen or (f"{reason}", None)
        if self._seen is None and reason is not None and reason.errno == uc.UC_ERR_INSN_INVALID:
            what = "undefined instruction"
        at = "" if address is None else f" at {address:#010x}"
        describe = self._firmware.symbols.describe
        pc, lr, sp = map(self._emulator.reg_read, (UC_ARM_REG_PC, UC_ARM_REG_LR, UC_ARM_REG_SP))
        hint = self._hint(address, sp)
        return TrainletError(
            f"the firmware faulted: {what}{at} in {describe(pc)} (pc {pc:#010x}, called from"
            f" {describe(lr)}, sp {sp:#010x}){hint}"
        )

    def unaligned(self, pc: int, address: int, size: int) -> TrainletError:
        """Return the error of an access that only a real core would have trapped."""
        return TrainletError(
            f"the firmware would fault on a real {self._firmware.core}: unaligned {size}-byte"
            f" access at {address:#010x} in {self._firmware.symbols.describe(pc)} (pc {pc:#010x})"
        )

    def _hint(self, address: int | None, sp: int) -> str:
        bottom = self._firmware.memory.ram_origin
        if address is not None and address < bottom and sp < bottom + 16 and address >= sp - 16:
            return f"; the stack of {self._firmware.sizes.stack} bytes overflowed, give it more"
        return ""

    def _bad_access(
        self, _emulator: Uc, access: int, address: int, size: int, _value: int, _user: Any
    ) -> bool:
        if self._seen is None:
            name = _ACCESSES.get(access, "bad access")
            self._seen = (f"{size}-byte {name}" if size else name, address)
        return False

    def _exception(self, emulator: Uc, number: int, _user: Any) -> None:
        if self._seen is None:
            self._seen = (_EXCEPTIONS.get(number, f"exception {number}"), None)
        emulator.emu_stop()
