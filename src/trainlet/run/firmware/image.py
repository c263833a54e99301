# SPDX-License-Identifier: Apache-2.0
"""What the linker made: sizes, symbols and the bytes to load."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from trainlet.devices import MemoryMap
from trainlet.errors import TrainletError
from trainlet.run.library import EmittedLibrary


@dataclass(frozen=True)
class Sizes:
    """Bytes, as linked; paddings count to the section they precede."""

    text: int
    rodata: int
    data: int
    bss: int
    stack: int
    flash_bytes: int
    """Everything that is loaded: text, rodata and the first values of data."""

    @property
    def sram_bytes(self) -> int:
        """The RAM that is taken: data, bss and the stack that is set aside."""
        return self.data + self.bss + self.stack


@dataclass(frozen=True)
class Symbol:
    """A function or an object: address (without the Thumb bit) and size in bytes."""

    name: str
    address: int
    size: int


class Symbols:
    """Functions and objects by name and by address."""

    def __init__(
        self, functions: Iterable[Symbol], objects: Iterable[Symbol], labels: Mapping[str, int]
    ) -> None:
        """Two files may each have a function of one name; both are kept."""
        self.functions = sorted(functions, key=lambda symbol: symbol.address)
        self.objects = sorted(objects, key=lambda symbol: symbol.address)
        self._starts = [symbol.address for symbol in self.functions]
        self._addresses = dict(labels)
        for symbol in (*self.functions, *self.objects):
            self._addresses[symbol.name] = symbol.address

    def address(self, name: str) -> int:
        """Return where a function, an object or a linker symbol lies."""
        if name not in self._addresses:
            raise TrainletError(f"the firmware has no symbol {name}; build it again")
        return self._addresses[name]

    def function_at(self, address: int) -> Symbol | None:
        """Return the function whose code holds `address`, or None."""
        address &= ~1
        at = bisect.bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        symbol = self.functions[at]
        return symbol if address < symbol.address + max(symbol.size, 2) else None

    def describe(self, address: int) -> str:
        """Return `function+0x1c`, or the bare address where no function is."""
        symbol = self.function_at(address)
        if symbol is None:
            return f"{address & ~1:#010x}"
        return f"{symbol.name}+{(address & ~1) - symbol.address:#x}"


@dataclass(frozen=True)
class Firmware:
    """A linked image for one core and one memory map."""

    path: Path
    library: EmittedLibrary
    core: str
    memory: MemoryMap
    sizes: Sizes
    symbols: Symbols
    segments: tuple[tuple[int, bytes], ...]
    """(load address, bytes) of everything that is flashed."""


def read_firmware(path: Path, library: EmittedLibrary, core: str, memory: MemoryMap) -> Firmware:
    """Read an image that `build_firmware` wrote for this library, core and map."""
    try:
        with path.open("rb") as stream:
            elf = ELFFile(stream)
            segments = tuple(
                (int(segment["p_paddr"]), bytes(segment.data()))
                for segment in elf.iter_segments("PT_LOAD")
                if segment["p_filesz"] > 0
            )
            return Firmware(
                path, library, core, memory, _sizes(elf, segments, memory), _symbols(elf), segments
            )
    except (OSError, ELFError) as error:
        raise TrainletError(f"{path}: is no firmware image ({error}); build it again") from error


def _sizes(elf: ELFFile, segments: tuple[tuple[int, bytes], ...], memory: MemoryMap) -> Sizes:
    def span(name: str) -> tuple[int, int]:
        section = elf.get_section_by_name(name)
        if section is None:
            return (0, 0)
        return int(section["sh_addr"]), int(section["sh_size"])

    stack, data, bss = span(".stack"), span(".data"), span(".bss")
    data_end = data[0] + data[1] if data[1] else stack[0] + stack[1]
    return Sizes(
        text=span(".text")[1],
        rodata=span(".rodata")[1],
        data=data_end - (stack[0] + stack[1]),
        bss=bss[0] + bss[1] - data_end if bss[1] else 0,
        stack=stack[0] + stack[1] - memory.ram_origin,
        flash_bytes=max(start + len(content) for start, content in segments) - memory.flash_origin,
    )


def _symbols(elf: ELFFile) -> Symbols:
    functions: list[Symbol] = []
    objects: list[Symbol] = []
    labels: dict[str, int] = {}
    table = elf.get_section_by_name(".symtab")
    for entry in table.iter_symbols() if isinstance(table, SymbolTableSection) else ():
        kind, value, size = entry["st_info"]["type"], int(entry["st_value"]), int(entry["st_size"])
        if entry["st_shndx"] == "SHN_UNDEF" or not entry.name or entry.name.startswith("$"):
            continue
        if kind == "STT_FUNC":
            functions.append(Symbol(entry.name, value & ~1, size))
        elif kind == "STT_OBJECT":
            objects.append(Symbol(entry.name, value, size))
        else:
            labels[entry.name] = value
    return Symbols(functions, objects, labels)
