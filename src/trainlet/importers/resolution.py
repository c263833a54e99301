# SPDX-License-Identifier: Apache-2.0
"""Which image sizes a network can take."""

from __future__ import annotations

from trainlet.errors import TrainletError
from trainlet.importers.records import NetworkRecord

LARGEST = 2048


def check_resolution(network: NetworkRecord, resolution: int, where: str) -> None:
    """Check that a square image of that size reaches the end of the network.

    Every convolution must find at least as many pixels as its stride, leave at least one, and
    give a sum the size of what it is added to.

    Raises:
        TrainletError: says where it ends, and the smallest resolution that does not.
    """
    if not 1 <= resolution <= LARGEST:
        raise TrainletError(f"resolution is {resolution}; it must lie in 1 .. {LARGEST}")
    problem = _problem(network, resolution)
    if problem:
        fitting = (size for size in range(1, LARGEST + 1) if not _problem(network, size))
        least = next(fitting, None)
        hint = "no resolution suits it" if least is None else f"the smallest that suits is {least}"
        raise TrainletError(
            f"{where} cannot take images of {resolution} x {resolution}: {problem}; {hint}"
        )


def _problem(network: NetworkRecord, resolution: int) -> str:
    size = (resolution, resolution)
    starts: dict[str, tuple[int, int]] = {}
    for path, conv in network.convolutions():
        starts.setdefault(path.rsplit(".", 1)[0], size)
        if size[0] < conv.stride[0] or size[1] < conv.stride[1] or min(conv.out_size(size)) < 1:
            return f"{path} (stride {conv.stride[0]}) finds {size[0]} x {size[1]} pixels"
        size = conv.out_size(size)
        block, _, name = path.rpartition(".")
        if name == "pointwise2" and network.blocks[int(block.split(".")[1])].residual:
            start = starts[block]
            if start != size:
                return f"{block} adds {start[0]} x {start[1]} pixels to {size[0]} x {size[1]}"
    return ""
