# SPDX-License-Identifier: Apache-2.0
"""Which module of the network ran each forward operator.

The export keeps no module paths.  So the network is run once more, with hooks
that say which module is active and a dispatch mode that sees every operator;
the exported forward holds the same operators in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


# What tracing a backward pass adds between the forward operators.
_BY_AUTOGRAD = frozenset({"aten::detach"})
Seen = Sequence[tuple[Any, str]]  # operators in running order, and the module of each


def record_paths(network: nn.Module, image: Tensor, graph: fx.Graph) -> dict[str, str]:
    """Node name to module path, for the forward part of an exported graph."""
    with torch.no_grad():
        return align_paths(operators_of(network, lambda: network(image)), graph)


def operators_of(network: nn.Module, run: Callable[[], object]) -> Seen:
    """Every operator that ``run`` executes, with the path of the innermost module at work."""
    recorder = _Recorder()  # type: ignore[no-untyped-call] # PyTorch's base is not annotated
    recorder.stack, recorder.seen = [""], []
    handles = []
    for path, module in network.named_modules():
        handles += [
            module.register_forward_pre_hook(lambda *_, path=path: recorder.stack.append(path)),
            module.register_forward_hook(lambda *_: _leave(recorder)),
        ]
    try:
        with recorder:
            run()
    finally:
        for handle in handles:
            handle.remove()
    return recorder.seen


def _leave(recorder: _Recorder) -> None:
    recorder.stack.pop()


def align_paths(seen: Seen, graph: fx.Graph) -> dict[str, str]:
    """Match recorded operators with nodes in order, passing over what only one side has.

    An operator that works in place has the name of its functional twin.
    """
    paths: dict[str, str] = {}
    names = [_plain_name(operator) for operator, _ in seen]
    position = 0
    for node in graph.nodes:
        name = _plain_name(node.target)
        if node.op != "call_function" or name in _BY_AUTOGRAD or name not in names[position:]:
            continue
        found = names.index(name, position)
        paths[node.name] = seen[found][1]
        position = found + 1
    return paths


def _plain_name(target: Any) -> str:
    """The operator's name without what functionalisation changes of it."""
    schema = getattr(target, "_schema", None)
    if schema is None:
        return str(target)
    space, _, name = schema.name.partition("::")
    return f"{space}::{name.removesuffix('_functional').removesuffix('_legit').strip('_')}"
