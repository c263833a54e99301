# SPDX-License-Identifier: Apache-2.0
"""Interchangeable ways to write the instruction list, one file each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trainlet.errors import TrainletError
from trainlet.planning.instructions import Instruction
from trainlet.planning.methods.keep_all import keep_all
from trainlet.planning.problem import Problem

Method = Callable[[Problem], tuple[Instruction, ...]]

METHODS: Mapping[str, Method] = {"keep-all": keep_all}


def find_method(name: str) -> Method:
    """The method of that name.

    Raises:
        TrainletError: there is none.
    """
    if name not in METHODS:
        raise TrainletError(f"no planning method {name!r}; there are {', '.join(METHODS)}")
    return METHODS[name]
