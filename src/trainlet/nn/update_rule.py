# SPDX-License-Identifier: Apache-2.0
"""How one parameter is stepped: which update operator, with which constants of its module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trainlet.graph import Attribute


@dataclass(frozen=True)
class UpdateRule:
    """``kind`` is an operator of ops/update.py; it reads gradient, parameter, then ``constants``.

    ``constants`` are names of buffers of the parameter's own module.
    """

    kind: str
    constants: tuple[str, ...]
    attributes: Mapping[str, Attribute]
