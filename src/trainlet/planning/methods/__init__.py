# SPDX-License-Identifier: Apache-2.0
"""Interchangeable ways to write the instruction list, one file each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trainlet.errors import TrainletError
from trainlet.planning.instructions import Instruction
from trainlet.planning.methods.capuchin import capuchin
from trainlet.planning.methods.checkmate import checkmate
from trainlet.planning.methods.chen_sqrt import chen_sqrt
from trainlet.planning.methods.dtr import dtr
from trainlet.planning.methods.keep_all import keep_all
from trainlet.planning.methods.optimal import optimal
from trainlet.planning.methods.paging_only import paging_only
from trainlet.planning.methods.pofo import pofo
from trainlet.planning.problem import Problem

Method = Callable[[Problem], tuple[Instruction, ...]]

METHODS: Mapping[str, Method] = {
    "keep-all": keep_all,
    "chen-sqrt": chen_sqrt,
    "checkmate": checkmate,
    "paging-only": paging_only,
    "capuchin": capuchin,
    "pofo": pofo,
    "dtr": dtr,
    "optimal": optimal,
}


def find_method(name: str) -> Method:
    """The method of that name.

    Raises:
        TrainletError: there is none.
    """
    if name not in METHODS:
        raise TrainletError(f"no planning method {name!r}; there are {', '.join(METHODS)}")
    return METHODS[name]
