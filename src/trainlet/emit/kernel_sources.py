# SPDX-License-Identifier: Apache-2.0
"""The kernel sources a library needs, with the library's prefix in place of ``tl_``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.resources import files

_INCLUDE = re.compile(r'^#include "(tl_\w+\.h)"', re.MULTILINE)
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


def _read(name: str) -> str:
    return files("trainlet.emit.kernels").joinpath(name).read_text(encoding="utf-8")
