# SPDX-License-Identifier: Apache-2.0
"""From an emitted library to an ELF image for one device's memory map."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import jinja2

from trainlet.devices import MemoryMap
from trainlet.errors import TrainletError
from trainlet.run.firmware.image import Firmware, read_firmware
from trainlet.run.library import EmittedLibrary, Progress, read_library
from trainlet.run.objects import Source, compile_objects, first_message, run_compiler
from trainlet.run.toolchain import HOST, Toolchain, find_toolchain

_HERE = Path(__file__).parent


class DoesNotFitError(TrainletError):
    """The image is larger than the device; by how many bytes, each 0 where it fits."""

    def __init__(self, flash_excess: int, sram_excess: int, memory: MemoryMap) -> None:
        self.flash_excess = flash_excess
        self.sram_excess = sram_excess
        kinds = (
            ("flash", flash_excess, memory.flash_bytes),
            ("SRAM", sram_excess, memory.ram_bytes),
        )
        parts = [
            f"{excess} bytes more {kind} than the {size} bytes it has"
            for kind, excess, size in kinds
            if excess > 0
        ]
        super().__init__(
            f"the firmware does not fit the device: it needs {' and '.join(parts)};"
            f" take a smaller scheme, a smaller stack or a larger device"
        )


def build_firmware(
    folder: Path | str,
    prefix: str,
    *,
    core: str,
    memory: MemoryMap,
    target: Path | str,
    stack_bytes: int = 4096,
    cc: str | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Firmware:
    """Compile and link the ELF image `target`; the linker script stays beside it (`.ld`).

    `core` and `memory` are a Device's. Raises DoesNotFitError, or TrainletError for C that does not
    compile.
    """
    if stack_bytes <= 0 or stack_bytes % 8 != 0:
        raise TrainletError(f"a stack of {stack_bytes} bytes: give a positive multiple of 8")
    if core == HOST:
        raise TrainletError("the host runs no firmware; give a microcontroller's core")
    library = read_library(folder, prefix)
    toolchain = find_toolchain(core, cc)
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    script = target.with_suffix(".ld")
    script.write_text(linker_script(core, memory, stack_bytes), encoding="utf-8")
    objects = compile_objects(
        toolchain, _sources(library, toolchain), cache=cache, progress=progress
    )
    _link(toolchain, objects, script, target, memory)
    return read_firmware(target, library, core, memory)


def linker_script(core: str, memory: MemoryMap, stack_bytes: int) -> str:
    """Return the GNU linker script for this memory map."""
    template = jinja2.Template(
        (_HERE / "memory.ld.j2").read_text(encoding="utf-8"),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    return str(template.render(core=core, memory=memory, stack_bytes=stack_bytes))


def _sources(library: EmittedLibrary, toolchain: Toolchain) -> list[Source]:
    include = (library.folder,)
    named = (f'-DLIBRARY_HEADER="{library.header}"', f"-DLIBRARY_PREFIX={library.prefix}")
    # gcc would turn memcpy's loop into a call of memcpy.
    own = () if toolchain.is_zig else ("-fno-tree-loop-distribute-patterns",)
    return [
        *(Source(path, include) for path in library.sources),
        Source(_HERE / "main.c", include, named),
        Source(_HERE / "startup.c"),
        Source(_HERE / "memory.c", (), own),
    ]


def _link(
    toolchain: Toolchain, objects: Sequence[Path], script: Path, target: Path, memory: MemoryMap
) -> None:
    handle, scratch = tempfile.mkstemp(suffix=".elf", dir=target.parent)
    os.close(handle)
    command = [*toolchain.command, *toolchain.target_flags, *map(str, objects)]
    command += [f"-Wl,-T,{script}", "-Wl,--gc-sections", "-Wl,-z,max-page-size=8", "-o", scratch]
    try:
        if toolchain.is_zig:
            # zig builds its run-time library at the first link that asks for it, which takes
            # a quarter of a minute; only a core without a floating-point unit needs it.
            result = run_compiler([*command, "-nostdlib"])
            if result.returncode != 0 and "undefined symbol: __" in result.stderr:
                result = run_compiler([*command, "-nostartfiles"])
        else:
            result = run_compiler([*command, "-nostdlib", "-lgcc"])
        if result.returncode != 0:
            raise _link_error(result.stderr, memory)
        os.replace(scratch, target)
    finally:
        Path(scratch).unlink(missing_ok=True)


def _link_error(output: str, memory: MemoryMap) -> TrainletError:
    excess = {"FLASH": 0, "RAM": 0}
    # "region 'RAM': overflowed by 12 bytes" (lld), "region `RAM' overflowed by 12 bytes" (ld);
    # each section that passes the end reports the whole excess so far, the last one all of it.
    for region, count in re.findall(r"region [`'](\w+)':? overflowed by (\d+) bytes", output):
        excess[region] = max(excess[region], int(count))
    if any(excess.values()):
        return DoesNotFitError(excess["FLASH"], excess["RAM"], memory)
    return TrainletError(f"the firmware does not link: {first_message(output)}")
