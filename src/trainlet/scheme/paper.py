# SPDX-License-Identifier: Apache-2.0
"""The 15 schemes that came with On-Device Training Under 256KB Memory (arXiv 2206.15472)."""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from trainlet.errors import TrainletError
from trainlet.scheme.scheme import Scheme


@dataclass(frozen=True)
class PaperScheme:
    """One published scheme: its network's full name and its analytic extra memory in KiB."""

    network: str
    scheme: Scheme
    kb: float

    @property
    def name(self) -> str:
        """The scheme's short name, such as "mcunet-49kb"."""
        return self.scheme.name


@cache
def _table() -> dict[str, PaperScheme]:
    text = (resources.files("trainlet.scheme") / "data" / "paper.toml").read_text("utf-8")
    found = {}
    for short, network in tomllib.loads(text).items():
        for size, entry in network["schemes"].items():
            # A ratio of 0 in the release means: only this layer's bias learns.
            weights = tuple((layer, float(r)) for layer, r in entry["weights"].items() if r)
            scheme = Scheme(f"{short}-{size}", biases=entry["biases"], weights=weights)
            found[scheme.name] = PaperScheme(network["name"], scheme, entry["kb"])
    return found


def paper_schemes(network: str | None = None) -> tuple[PaperScheme, ...]:
    """Return the published schemes, those of one network ("mcunet", "mcunet-5fps") if named."""
    return tuple(
        entry
        for entry in _table().values()
        if network is None or network in (entry.network, entry.network.split("-")[0])
    )


def find_paper(name: str) -> PaperScheme | None:
    """Return the scheme called so, by short ("mbv2-49kb") or full ("mbv2-w0.35-49kb") name."""
    for entry in _table().values():
        size = entry.name.rsplit("-", 1)[1]
        if name in (entry.name, f"{entry.network}-{size}"):
            return entry
    return None


def paper(name: str) -> Scheme:
    """Return a published scheme, such as "mcunet-49kb", "mbv2-99kb" or "proxyless-148kb".

    Raises:
        TrainletError: there is no such scheme; near names are suggested.
    """
    entry = find_paper(name)
    if entry is None:
        near = difflib.get_close_matches(name, _table(), n=3)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise TrainletError(f"the paper has no scheme {name!r}: {hint}it has {', '.join(_table())}")
    return entry.scheme


def smaller_schemes(name: str) -> tuple[PaperScheme, ...]:
    """Return the same network's schemes that need less memory, the largest of them first.

    Empty for the smallest scheme and for a scheme that is not the paper's.
    """
    entry = find_paper(name)
    if entry is None:
        return ()
    smaller = (other for other in paper_schemes(entry.network) if other.kb < entry.kb)
    return tuple(sorted(smaller, key=lambda other: -other.kb))
