# SPDX-License-Identifier: Apache-2.0
"""The C library of a program: a header a person can read, the step, the constants, the kernels.

C11, freestanding: no malloc, no libc, one static context.  Every public and
internal name carries the library's prefix.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import jinja2
import numpy as np
import numpy.typing as npt

from trainlet._version import VERSION
from trainlet.emit.calls import CallWriter, Statics, accessors
from trainlet.emit.kernel_sources import clashes, kernel_sources, with_prefix
from trainlet.emit.literals import CTYPES, array, comment, number
from trainlet.emit.program import Program
from trainlet.errors import TrainletError
from trainlet.graph import Role
from trainlet.ops.overlap import align

_STATE_BYTES = 24  # learning rates, loss, seed, step, ready
# The kernels' own prefix, and names of headers that the library or a system header includes.
_RESERVED = (
    *("tl", "arm_acle", "assert", "complex", "ctype", "errno", "features", "fenv", "float"),
    *("inttypes", "limits", "locale", "math", "setjmp", "signal", "stdalign", "stdarg"),
    *("stdatomic", "stdbool", "stddef", "stdint", "stdio", "stdlib", "stdnoreturn", "string"),
    *("tgmath", "threads", "time", "uchar", "wchar", "wctype"),
)


@dataclass(frozen=True)
class Rates:
    """Learning rates that ``init`` sets."""

    backbone: float = 5e-4
    head: float = 1e-2


@dataclass(frozen=True)
class Constant:
    """One constant array of the library."""

    name: str
    ctype: str
    count: int
    body: str


def check_prefix(prefix: str) -> str:
    """The prefix, if C can use it."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", prefix):
        raise TrainletError(
            f"'{prefix}' cannot prefix C names: use a small letter, then small letters, digits, _"
        )
    if prefix in _RESERVED:
        raise TrainletError(
            f"'{prefix}' cannot prefix C names: '{prefix}.h' is a header of C's own or of the "
            "kernels; choose another"
        )
    taken = clashes(prefix)
    if taken:
        raise TrainletError(
            f"'{prefix}' cannot prefix C names: the kernels use {taken[0]} already; choose another"
        )
    return prefix


def context_bytes(program: Program) -> int:
    """Bytes of the library's one static object."""
    return align(align(program.arena_bytes) + program.trainable_bytes + _STATE_BYTES)


def emit_library(program: Program, prefix: str, rates: Rates) -> dict[str, str]:
    """File name to text of the whole library."""
    statics = Statics()
    writers = [
        CallWriter(program, planned, statics) for planned in (program.inference, program.step)
    ]
    inference, step = ("\n".join(_indented(writer.statements())) for writer in writers)
    names = dict.fromkeys(name for writer in writers for name in writer.constants)
    values: dict[str, Any] = {
        **_common(program, prefix),
        "accessors": accessors(inference + step),
        "statics": statics.lines(),
        "inference": inference,
        "step": step,
        "constants": [_constant(program, name) for name in names],
        "initial": array(initial_image(program)),
        "learning_rate": number(rates.backbone),
        "head_learning_rate": number(rates.head),
        "input_offset": program.step.plan.addresses["image"],
        "logits_offset": program.step.plan.addresses[program.step.graph.outputs[1]],
    }
    files = {
        f"{prefix}.h": _render("header.h.j2", values),
        f"{prefix}.c": with_prefix(_render("library.c.j2", values), prefix),
        f"{prefix}_params.h": with_prefix(_render("params.h.j2", values), prefix),
        f"{prefix}_params.c": with_prefix(_render("params.c.j2", values), prefix),
    }
    sources = {source for writer in writers for source in writer.sources}
    return {**files, **kernel_sources(sources, prefix)}


def constant_bytes(program: Program) -> int:
    """Bytes of the constant arrays, what ``init`` copies included."""
    names: dict[str, None] = {}
    for planned in (program.inference, program.step):
        writer = CallWriter(program, planned, Statics())
        writer.statements()
        names.update(writer.constants)
    values = (program.step.graph.values[name] for name in names)
    return program.trainable_bytes + sum(align(program.stored_bytes(value)) for value in values)


def initial_image(program: Program) -> npt.NDArray[np.uint8]:
    """The block of everything that learns, as built."""
    image = np.zeros(program.trainable_bytes, dtype=np.uint8)
    for value in program.step.graph.with_role(Role.PARAMETER):
        data = np.ascontiguousarray(program.stored(value)).view(np.uint8)
        start = program.trainable_offsets[value.name]
        image[start : start + data.size] = data
    return image


def _common(program: Program, prefix: str) -> dict[str, Any]:
    channels, rows, columns = program.input_shape
    return {
        "title": comment(f"{program.name}: predict and train on the device."),
        "version": VERSION,
        "p": prefix,
        "P": prefix.upper(),
        "channels": channels,
        "rows": rows,
        "columns": columns,
        "input_scale": number(program.input_scale),
        "input_zero": program.input_zero,
        "classes": program.classes,
        "arena_bytes": align(program.arena_bytes),
        "trainable_bytes": program.trainable_bytes,
        "context_bytes": context_bytes(program),
    }


def _constant(program: Program, name: str) -> Constant:
    data = program.stored(program.step.graph.values[name])
    return Constant(
        f"tl_{program.constant_names[name]}", CTYPES[data.dtype], data.size, array(data)
    )


def _indented(lines: list[str]) -> list[str]:
    return ["    " + part for line in lines for part in line.split("\n")]


def _render(template: str, values: dict[str, Any]) -> str:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("trainlet.emit"),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(values)
