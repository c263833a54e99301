# SPDX-License-Identifier: Apache-2.0
"""A scheme from what a person types: a name, or the path of a TOML file."""

from __future__ import annotations

import difflib
from pathlib import Path

from trainlet.errors import TrainletError
from trainlet.scheme.paper import find_paper, paper_schemes
from trainlet.scheme.scheme import Scheme, everything, head_only, last_biases
from trainlet.scheme.text import from_toml

_LAST_BIASES = "last-biases-"


def scheme_names() -> tuple[str, ...]:
    """Return the schemes with a name of their own, the paper's among them."""
    return ("head-only", "everything", *(entry.name for entry in paper_schemes()))


def load_scheme(text: str | Path) -> Scheme:
    """Return the scheme called so.

    Accepts "head-only", "everything", "last-biases-N", the paper's names ("mcunet-49kb",
    "mbv2-w0.35-99kb") and paths of TOML files.

    Raises:
        TrainletError: no such scheme or file, or a file that does not hold a scheme.
    """
    name = str(text)
    if name == "head-only":
        return head_only()
    if name == "everything":
        return everything()
    if name.startswith(_LAST_BIASES):
        return _last_biases(name)
    published = find_paper(name)
    if published is not None:
        return published.scheme
    path = Path(name)
    if path.suffix != ".toml" and not path.is_file():
        raise TrainletError(_unknown(name))
    try:
        return from_toml(path.read_text(encoding="utf-8"), f"scheme file {name}")
    except FileNotFoundError:
        raise TrainletError(f"scheme file {name} does not exist") from None
    except UnicodeDecodeError:
        raise TrainletError(f"scheme file {name} is not UTF-8 text, so not TOML") from None
    except OSError as error:
        raise TrainletError(f"scheme file {name} cannot be read: {error.strerror}") from None


def _last_biases(name: str) -> Scheme:
    count = name.removeprefix(_LAST_BIASES)
    if not (count.isascii() and count.isdigit() and len(count) < 10):
        raise TrainletError(f"scheme {name!r}: write last-biases-8 for the last 8 biases")
    return last_biases(int(count))


def _unknown(name: str) -> str:
    names = (*scheme_names(), f"{_LAST_BIASES}8")
    near = difflib.get_close_matches(name.lower(), names, n=3)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return (
        f"there is no scheme {name!r}: {hint}Trainlet knows head-only, everything, "
        f"{_LAST_BIASES}N, {', '.join(names[2:-1])}; the path of a TOML file works too"
    )
