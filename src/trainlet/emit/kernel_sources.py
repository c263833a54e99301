# SPDX-License-Identifier: Apache-2.0
"""The kernel sources a library needs, with the library's prefix in place of ``tl_``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

_INCLUDE = re.compile(r'^#include "(tl_\w+\.h)"', re.MULTILINE)
_WORD = re.compile(r"\b[A-Za-z_]\w*")
_PREFIX = re.compile(r"\btl_(?=[a-z])")


def kernel_sources(sources: Iterable[str], prefix: str) -> dict[str, str]:
    """File name to text of the kernels and of every header they include, renamed."""
    pending, texts = [*sources, "tl_kernels.h", "tl_random.h"], {}
    while pending:
        name = pending.pop()
        if name in texts:
            continue
        texts[name] = _read(name)
        pending += _INCLUDE.findall(texts[name])
    return {with_prefix(n, prefix): with_prefix(t, prefix) for n, t in sorted(texts.items())}


def with_prefix(text: str, prefix: str) -> str:
    """C text with every ``tl_`` name renamed, so that two libraries link together."""
    return _PREFIX.sub(f"{prefix}_", text)


def clashes(prefix: str) -> list[str]:
    """Names that a kernel uses already and that the prefix would make of another one."""
    renamed = (with_prefix(name, prefix) for name in _names() if _PREFIX.match(name))
    return sorted(_names().intersection(renamed))


@cache
def _names() -> frozenset[str]:
    """Every word of the kernels."""
    sources = files("trainlet.emit.kernels").iterdir()
    texts = (p.read_text(encoding="utf-8") for p in sources if p.name.endswith((".c", ".h")))
    return frozenset(word for text in texts for word in _WORD.findall(text))


def _read(name: str) -> str:
    return files("trainlet.emit.kernels").joinpath(name).read_text(encoding="utf-8")
