# SPDX-License-Identifier: Apache-2.0
"""The one exception that reaches a person: a line that says what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterable


class TrainletError(Exception):
    """Bad input or an impossible request; the command line prints it and exits with status 2."""

    @classmethod
    def of_all(cls, heading: str, problems: Iterable[str]) -> TrainletError:
        """One error for every problem of a kind, so that a person can mend them all at once."""
        return cls(heading + "".join(f"\n  - {problem}" for problem in problems))
