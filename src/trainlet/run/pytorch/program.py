# SPDX-License-Identifier: Apache-2.0
"""A captured step as operators over memory blocks: what a plan names and the executor runs.

A *value* of the plan is one block of memory: the storage of an operator's result.  Views
(transpose, reshape, expand, detach ...) are no operators of their own and own nothing: each use
makes them anew from the block, so a block lives exactly as long as the plan says, and a block
that is computed again or paged in brings its views with it.

Parameters, buffers, inputs and constants lie outside the plan, in its fixed bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from torch import fx

from trainlet.capture.module import CapturedModule
from trainlet.capture.slots import Slot
from trainlet.errors import TrainletError
from trainlet.run.pytorch.operators import (
    is_item,
    is_random,
    is_view,
    kind_of,
    results_of,
    schema_of,
    storage_bytes,
)

# The last operator of every program: the user's optimizer, reading all gradients.
UPDATE = "update"


@dataclass(frozen=True)
class Result:
    """One result of an operator: where in what it returns, and the value it becomes.

    A result that only becomes a buffer's next value is not ``is_planned``: it is copied to its
    place at once.
    """

    position: int | None
    name: str
    bytes: int
    is_planned: bool


@dataclass(frozen=True)
class Operator:
    """One call: the node, the values it reads and makes.

    ``unplanned_bytes`` are results that nobody reads; they exist while the operator runs.
    ``saves`` are new values of buffers, copied aside in the operator's first run.
    """

    name: str
    node: fx.Node
    path: str
    inputs: tuple[str, ...]
    results: tuple[Result, ...]
    unplanned_bytes: int
    is_random: bool
    saves: tuple[tuple[fx.Node, Slot], ...]

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the values it makes."""
        return tuple(result.name for result in self.results if result.is_planned)


@dataclass(frozen=True)
class Program:
    """The operators of a step in their captured order.

    Attributes:
        captured: what they come from.
        operators: without the update.
        names: node that owns a block -> name of the block.
        loss: the node that is the loss.
        gradients: parameter -> node that is its gradient.
        gradient_values: the blocks that the gradients lie in.
        loss_value: the block that the loss lies in; None where it is an input or a constant.
        next_values: node that is a buffer's next value, and nothing more -> name of the buffer;
            it is kept aside until the end, so whoever reads it finds it there.
        late_saves: new values of buffers that lie in inputs or constants.
    """

    captured: CapturedModule
    operators: tuple[Operator, ...]
    names: Mapping[fx.Node, str]
    loss: fx.Node
    gradients: Mapping[str, fx.Node]
    gradient_values: tuple[str, ...]
    loss_value: str | None
    next_values: Mapping[fx.Node, str]
    late_saves: tuple[tuple[fx.Node, Slot], ...]

    @property
    def value_bytes(self) -> dict[str, int]:
        """Bytes of every value of the plan."""
        planned = (r for operator in self.operators for r in operator.results if r.is_planned)
        return {result.name: result.bytes for result in planned}


def program_of(captured: CapturedModule) -> Program:
    """Group the nodes of a captured graph into operators over blocks.

    Raises:
        TrainletError: an operator mutates its input or cannot be replayed; it is named.
    """
    return _Builder(captured).build()


class _Builder:
    def __init__(self, captured: CapturedModule) -> None:
        self.captured = captured
        nodes = {node.name: node for node in captured.graph.nodes}
        self.loss = nodes[captured.loss]
        self.gradients = {name: nodes[node] for name, node in captured.gradients.items()}
        self.updates = [(nodes[node], slot) for node, slot in captured.updates]
        results = {base_of(node) for node in (self.loss, *self.gradients.values())}
        self.next_values = {
            node: slot.name
            for node, slot in self.updates
            if node.op == "call_function" and base_of(node) is node and node not in results
        }
        self.needed = self._needed()
        self.paths = dict(captured.paths)
        self.names: dict[fx.Node, str] = {}

    def build(self) -> Program:
        read = self._read_bases()
        operators = [self._operator(index, node, read) for index, node in enumerate(self._calls())]
        gradients = [self._value(node) for node in self.gradients.values()]
        return Program(
            captured=self.captured,
            operators=tuple(operators),
            names=self.names,
            loss=self.loss,
            gradients=self.gradients,
            gradient_values=tuple(dict.fromkeys(name for name in gradients if name)),
            loss_value=self._value(self.loss),
            next_values=self.next_values,
            late_saves=tuple(
                (n, slot) for n, slot in self.updates if base_of(n).op != "call_function"
            ),
        )

    def _needed(self) -> set[fx.Node]:
        """Nodes that a result depends on, and every draw: the generator must move as before."""
        draws = [n for n in self.captured.graph.nodes if n.op == "call_function" and is_random(n)]
        updated = [node for node, _ in self.updates]
        stack = [self.loss, *self.gradients.values(), *updated, *draws]
        found: set[fx.Node] = set()
        while stack:
            node = stack.pop()
            if node not in found:
                found.add(node)
                stack += node.all_input_nodes
        return found

    def _calls(self) -> Iterator[fx.Node]:
        for node in self.captured.graph.nodes:
            if node.op != "call_function" or node not in self.needed or is_item(node):
                continue
            schema_of(node)
            if not is_view(node):
                yield node

    def _read_bases(self) -> set[fx.Node]:
        """Blocks that some operator, the loss or a gradient reads, by the node that owns them."""
        reads = [self.loss, *self.gradients.values()]
        for node in self._calls():
            reads += node.all_input_nodes
        return {base_of(node) for node in reads} - self.next_values.keys()

    def _operator(self, index: int, node: fx.Node, read: set[fx.Node]) -> Operator:
        path = self._path(node)
        results, total = [], 0
        for position, fake in results_of(node):
            total += storage_bytes(fake)
            owners = _owners(node, position)
            name = ".".join(
                str(part) for part in (path, node.name, position) if part not in ("", None)
            )
            self.names.update(dict.fromkeys(owners, name))
            is_planned = not read.isdisjoint(owners)
            saved = any(base_of(update) in owners for update, _ in self.updates)
            if is_planned or saved:
                results.append(Result(position, name, storage_bytes(fake), is_planned))
        inputs = dict.fromkeys(self._value(source) for source in node.all_input_nodes)
        kind = f"{path}.{kind_of(node)}" if path else kind_of(node)
        return Operator(
            name=f"{index}:{kind}",
            node=node,
            path=path,
            inputs=tuple(name for name in inputs if name is not None),
            results=tuple(results),
            unplanned_bytes=total - sum(r.bytes for r in results if r.is_planned),
            is_random=is_random(node),
            saves=tuple((u, slot) for u, slot in self.updates if _producer(u) is node),
        )

    def _value(self, node: fx.Node) -> str | None:
        """The value that a node's memory belongs to; None for what is fixed."""
        base = base_of(node)
        if base.op != "call_function" or base in self.next_values:
            return None
        if base not in self.names:
            raise TrainletError(
                f"the model cannot be planned: {base.target} hands a number, not a tensor, to "
                f"{', '.join(str(user.target) for user in base.users)}"
            )
        return self.names[base]

    def _path(self, node: fx.Node) -> str:
        """The module that ran the node; a backward node belongs to the one whose state it reads."""
        bases = [base_of(source) for source in node.all_input_nodes]
        slots = [self.captured.state[b.name] for b in bases if b.name in self.captured.state]
        learned = [s.name.rpartition(".")[0] for s in slots]
        inherited = [self.paths.get(_producer(base).name, "") for base in bases]
        known = self.paths.get(node.name)
        path = known or next((p for p in (*learned, *inherited) if p), "")
        self.paths[node.name] = path
        return path


def base_of(node: fx.Node) -> fx.Node:
    """The node that owns the memory behind a node's result."""
    while node.op == "call_function" and is_view(node):
        node = node.all_input_nodes[0]
    return node


def _producer(node: fx.Node) -> fx.Node:
    """The operator whose run makes the memory behind a node."""
    base = base_of(node)
    return cast(fx.Node, base.args[0]) if is_item(base) else base


def _owners(node: fx.Node, position: int | None) -> set[fx.Node]:
    """The nodes that stand for one result of an operator."""
    if position is None:
        return {node}
    return {user for user in node.users if is_item(user) and user.args[1] == position}


def total_bytes(sizes: Iterable[int], granule: int) -> int:
    """Sum of the sizes, each rounded up to what the allocator gives."""
    return sum(-(-size // granule) * granule for size in sizes)
