# SPDX-License-Identifier: Apache-2.0
"""Which module of the network ran each forward operator.

The export keeps no module paths.  So the network is run once more, with hooks
that say which module is active and a dispatch mode that sees every operator;
the exported forward holds the same operators in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils._python_dispatch import TorchDispatchMode


class _Recorder(TorchDispatchMode):
    """Notes every operator and the innermost module that is running."""

    stack: list[str]
    seen: list[tuple[Any, str]]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        self.seen.append((func, self.stack[-1]))
        return func(*args, **(kwargs or {}))


def record_paths(network: nn.Module, image: Tensor, graph: fx.Graph) -> dict[str, str]:
    """Node name to module path, for the forward part of an exported graph."""
    recorder = _Recorder()  # type: ignore[no-untyped-call] # PyTorch's base is not annotated
    recorder.stack, recorder.seen = [""], []
    handles = []
    for path, module in network.named_modules():
        handles += [
            module.register_forward_pre_hook(lambda *_, path=path: recorder.stack.append(path)),
            module.register_forward_hook(lambda *_: _leave(recorder)),
        ]
    try:
        with torch.no_grad(), recorder:
            network(image)
    finally:
        for handle in handles:
            handle.remove()
    return _align(recorder.seen, graph)


def _leave(recorder: _Recorder) -> None:
    recorder.stack.pop()


def _align(seen: Sequence[tuple[Any, str]], graph: fx.Graph) -> dict[str, str]:
    """Match recorded operators with nodes in order, passing over what only one side has."""
    paths: dict[str, str] = {}
    position = 0
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        ahead = (i for i in range(position, len(seen)) if seen[i][0] == node.target)
        found = next(ahead, None)
        if found is not None:
            paths[node.name] = seen[found][1]
            position = found + 1
    return paths
