# SPDX-License-Identifier: Apache-2.0
"""Writing a file that a person named."""

from pathlib import Path

from trainlet.errors import TrainletError


def write_text(path: Path, text: str) -> None:
    """Write UTF-8; ``TrainletError`` where that cannot be done."""
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise TrainletError(
            f"'{path}' cannot be written ({error.strerror}): give a file in a folder that exists"
        ) from error
