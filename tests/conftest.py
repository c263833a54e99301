# SPDX-License-Identifier: Apache-2.0
"""Fixtures that every room's tests share."""

import os
from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of models and data sets that are not part of the project, or a skip.

    It is TRAINLET_SHARED where that is set, else `../shared` beside the repository.
    """
    override = os.environ.get("TRAINLET_SHARED")
    folder = Path(override) if override else _REPOSITORY.parent / "shared"
    if not folder.is_dir():
        pytest.skip("needs the shared models: set TRAINLET_SHARED to their folder")
    return folder
