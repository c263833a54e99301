# SPDX-License-Identifier: Apache-2.0
"""A scheme as TOML, out and in.

name = "mine"
biases = 20              # of the last 20 convolutions; or "all"
channels = "magnitude"   # or "first", "random"
seed = 0
head = true

[weights]                # or weights = "all" above
"blocks.8.pointwise1" = "1/4"
27 = "1/2"
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

from trainlet.errors import TrainletError
from trainlet.scheme.scheme import RATIOS, Scheme, ratio_text

_KEYS = ("name", "biases", "channels", "seed", "head", "weights")
_RATIOS_BY_TEXT = {ratio_text(ratio): ratio for ratio in RATIOS}


def to_toml(scheme: Scheme) -> str:
    """Return the scheme as TOML text that `from_toml` reads back to an equal scheme."""
    biases = '"all"' if scheme.biases == "all" else str(scheme.biases)
    lines = [
        f"name = {_quoted(scheme.name)}",
        f"biases = {biases}",
        f"channels = {_quoted(scheme.channels)}",
        f"seed = {scheme.seed}",
        f"head = {'true' if scheme.head else 'false'}",
    ]
    if scheme.all_weights:
        lines.append('weights = "all"')
    elif scheme.weights:
        lines += ["", "[weights]"]
        lines += [
            f"{_quoted(layer)} = {_quoted(ratio_text(ratio))}" for layer, ratio in scheme.weights
        ]
    return "\n".join(lines) + "\n"


def from_toml(text: str, where: str = "scheme") -> Scheme:
    """Read a scheme from TOML text; `where` is how errors call it.

    Raises:
        TrainletError: not TOML, unknown keys or wrong values, all of them listed.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TrainletError(f"{where} is not valid TOML: {error}") from None
    problems = [
        f"{key} is not a field of a scheme; it has {', '.join(_KEYS)}"
        for key in table
        if key not in _KEYS
    ]
    fields: dict[str, Any] = {}
    for key, (accepts, expected) in _EXPECTED.items():
        if key not in table:
            if key == "name":
                problems.append("name is missing")
        elif accepts(table[key]):
            fields[key] = table[key]
        else:
            problems.append(f"{key} is {table[key]!r}; it must be {expected}")
    weights = table.get("weights", {})
    if isinstance(weights, Mapping):
        fields["weights"] = _read_weights(weights, problems)
    elif weights == "all":
        fields["all_weights"] = True
    else:
        problems.append('weights must be "all" or a table of layer = ratio')
    if problems:
        raise TrainletError.of_all(f"{where} cannot be used:", problems)
    return Scheme(**fields)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_EXPECTED: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "name": (lambda value: isinstance(value, str) and bool(value), "a text"),
    "biases": (lambda value: value == "all" or _is_count(value), 'a whole number or "all"'),
    "channels": (lambda value: isinstance(value, str), "a text"),
    "seed": (_is_count, "a whole number"),
    "head": (lambda value: isinstance(value, bool), "true or false"),
}


def _read_weights(
    table: Mapping[str, object], problems: list[str]
) -> tuple[tuple[str, float], ...]:
    weights = []
    for layer, value in table.items():
        if isinstance(value, Mapping):
            problems.append(f'weights.{layer}: put the layer\'s path in quotes, "{layer}..."')
            continue
        ratio = _RATIOS_BY_TEXT.get(value) if isinstance(value, str) else value
        if isinstance(ratio, bool) or not isinstance(ratio, (int, float)) or ratio not in RATIOS:
            offered = ", ".join(_RATIOS_BY_TEXT)
            problems.append(f"layer {layer!r} is given ratio {value!r}, not one of {offered}")
            continue
        weights.append((layer, float(ratio)))
    return tuple(weights)


def _quoted(text: str) -> str:
    """Return a TOML basic string; JSON's escapes are TOML's, save that DEL must be escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
