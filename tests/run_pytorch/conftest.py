# SPDX-License-Identifier: Apache-2.0
"""Captured networks are made once for all tests of the runner."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from training_cases import CASES, Case


@pytest.fixture(scope="session")
def case_of() -> Callable[[str], Case]:
    return cache(lambda name: CASES[name]())
