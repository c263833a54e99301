# SPDX-License-Identifier: Apache-2.0
"""Numbers as a page shows them, and the ticks of its axes."""

from __future__ import annotations

import math

_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def grouped(number: int | None) -> str:
    """12,345, or a dash for what is not known."""
    return "–" if number is None else f"{number:,}"


def short_bytes(count: int) -> str:
    """165 KiB: three digits and a unit of 1024."""
    for size, unit in _UNITS:
        if count >= size:
            return f"{_three_digits(count / size)} {unit}"
    return f"{count} B"


def short_count(count: int) -> str:
    """81.5 M: three digits and a unit of 1000."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{_three_digits(count / size)} {unit}"
    return str(count)


def percent(share: float) -> str:
    """51.6 %; what is more than nothing never reads as 0."""
    if 0 < share < 0.001:
        return "under 0.1 %"
    return f"{100 * share:.1f} %"


def coordinate(number: float) -> str:
    """A length in a picture: two decimals at most."""
    return f"{number:.2f}".rstrip("0").rstrip(".")


def byte_ticks(limit: int, most: int = 7) -> list[int]:
    """Multiples of a power of two, from 0 and no further than the limit."""
    step = 1
    while limit // step >= most:
        step *= 2
    return list(range(0, limit + 1, step))


def byte_tick_text(count: int) -> str:
    """96 KiB: a multiple of a power of two without its zeros."""
    for size, unit in _UNITS:
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} B" if count else "0"


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten within [low, high]."""
    raw = (high - low) / most
    if not raw > 0 or not math.isfinite(raw):
        return [low]
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(f * power for f in (1, 2, 5, 10) if f * power >= raw * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def tick_text(number: float) -> str:
    """A tick's label."""
    return f"{number:.6g}"


def _three_digits(number: float) -> str:
    return f"{number:.{0 if number >= 100 else 1}f}"
