# SPDX-License-Identifier: Apache-2.0
"""Numbers, names and arrays as C text."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

CTYPES: dict[np.dtype[Any], str] = {
    np.dtype(np.int8): "int8_t",
    np.dtype(np.uint8): "uint8_t",
    np.dtype(np.uint16): "uint16_t",
    np.dtype(np.int32): "int32_t",
    np.dtype(np.float32): "float",
}

TYPES: dict[str, np.dtype[Any]] = {name: dtype for dtype, name in CTYPES.items()}


def identifier(name: str) -> str:
    """A value's name as a C identifier."""
    return re.sub(r"\W", "_", name, flags=re.ASCII)


def comment(text: str) -> str:
    """Text that can stand inside a C comment, on one line."""
    return " ".join(text.replace("*/", "* /").replace("/*", "/ *").split())


def number(value: int | float) -> str:
    """A constant; nine digits bring a float32 back to the bit."""
    if isinstance(value, bool) or not isinstance(value, float):
        return str(int(value))
    single = float(np.float32(value))
    if not math.isfinite(single):
        raise ValueError(f"{value} has no place in a generated constant")
    text = f"{single:.9g}"
    return f"{text}f" if any(c in text for c in ".e") else f"{text}.0f"


def array(data: npt.NDArray[np.generic]) -> str:
    """The initializer of a one-dimensional array, wrapped."""
    is_float = data.dtype == np.float32
    words = [number(float(x)) for x in data] if is_float else [str(int(x)) for x in data]
    return textwrap.fill(
        ", ".join(words), width=98, initial_indent="    ", subsequent_indent="    "
    )


def wrapped(start: str, parts: Sequence[str], end: str) -> str:
    """A call or an initializer, broken between its parts where a line would grow too long."""
    line = start + ", ".join(parts) + end
    if len(line) <= 92:
        return line
    body = textwrap.fill(", ".join(parts), width=88, break_long_words=False, break_on_hyphens=False)
    return f"{start}\n{textwrap.indent(body, '    ')}{end}"
