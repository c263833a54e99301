# SPDX-License-Identifier: Apache-2.0
"""Runs an instruction list: blocks appear, leave, come back, bit for bit the same.

Nothing of the model is touched.  The executor ends with the loss, the gradients and the next
values of the buffers; committing them is the caller's.

Random operators draw from PyTorch's default generator in captured order, as the model itself
would; the generator's state before each is kept, and a run that computes one again starts it
from there and then puts the generator back.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx

from trainlet.errors import TrainletError
from trainlet.planning import Compute, Free, Instruction, PageIn, PageOut
from trainlet.planning.instructions import describe
from trainlet.run.pytorch.pages import PageFile
from trainlet.run.pytorch.program import UPDATE, Operator, Program, Result

Update = Callable[["Execution"], None]


@dataclass
class Execution:
    """The state of one run.

    Attributes:
        program: what runs.
        fixed: tensor of every placeholder and constant, by node name.
        pages: where values go; None where there is no storage.
        replayed: random operators that the list runs more than once.
        blocks: value name -> its tensor, while resident.
        next_buffers: slot name -> room for the buffer's next value.
        runs: how often each operator has run.
        paging_seconds: time spent moving pages.
    """

    program: Program
    fixed: Mapping[str, Tensor]
    pages: PageFile | None
    replayed: frozenset[str]
    blocks: dict[str, Tensor] = field(default_factory=dict)
    next_buffers: dict[str, Tensor] = field(default_factory=dict)
    runs: Counter[str] = field(default_factory=Counter)
    paging_seconds: float = 0.0
    _saved: set[str] = field(default_factory=set)
    _states: dict[str, Tensor] = field(default_factory=dict)

    def run(self, instructions: tuple[Instruction, ...], update: Update) -> None:
        """Follow the list; ``update`` is called where it computes the update.

        Raises:
            TrainletError: a page fails, or an operator does.
        """
        for _, slot in self.program.captured.updates:
            self.next_buffers[slot.name] = torch.empty_like(slot.get())
        operators = {operator.name: operator for operator in self.program.operators}
        for instruction in instructions:
            match instruction:
                case Compute(name) if name == UPDATE:
                    self._save(self.program.late_saves)
                    update(self)
                case Compute(name):
                    self._compute(operators[name])
                case Free(value):
                    del self.blocks[value]
                case PageOut() | PageIn():
                    self._move(instruction)

    def fetch(self, node: fx.Node) -> Any:
        """The tensor of a node: a resident block, something fixed, or a view of either."""
        name = self.program.names.get(node)
        if name in self.blocks:
            return self.blocks[name]
        if node in self.program.next_values:
            return self._next_buffer(self.program.next_values[node])
        if node.op != "call_function":
            return self.fixed[node.name]
        return self._call(node)

    def _next_buffer(self, name: str) -> Tensor:
        if name not in self._saved:
            raise TrainletError(f"the plan needs the next value of '{name}' before it is made")
        return self.next_buffers[name]

    def _call(self, node: fx.Node) -> Any:
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), self.fetch)
        target: Any = node.target
        return target(*args, **kwargs)

    def _compute(self, operator: Operator) -> None:
        try:
            results = self._replay(operator) if operator.is_random else self._call(operator.node)
        except TrainletError:
            raise
        except Exception as error:
            raise TrainletError(
                f"operator '{operator.name}' failed: {type(error).__name__}: {error}"
            ) from error
        taken = self._operand_blocks(operator)
        for result in operator.results:
            tensor = results if result.position is None else results[result.position]
            self.blocks[result.name] = _owned(tensor, operator, result, taken)
        if not self.runs[operator.name]:
            self._save(operator.saves)
        for result in operator.results:
            if not result.is_planned:
                del self.blocks[result.name]
        self.runs[operator.name] += 1

    def _operand_blocks(self, operator: Operator) -> set[int]:
        operands = [self.blocks[name] for name in operator.inputs]
        operands += [
            self.fixed[node.name]
            for node in operator.node.all_input_nodes
            if node.name in self.fixed
        ]
        return {tensor.untyped_storage()._cdata for tensor in operands}

    def _replay(self, operator: Operator) -> Any:
        """Draw what the operator drew in its first run."""
        state = self._states.get(operator.name)
        if state is None:
            if operator.name in self.replayed:
                self._states[operator.name] = torch.get_rng_state()
            return self._call(operator.node)
        present = torch.get_rng_state()
        torch.set_rng_state(state)
        try:
            return self._call(operator.node)
        finally:
            torch.set_rng_state(present)

    def _save(self, saves: tuple[tuple[fx.Node, Any], ...]) -> None:
        for node, slot in saves:
            self.next_buffers[slot.name].copy_(self.fetch(node))
            self._saved.add(slot.name)

    def _move(self, instruction: PageOut | PageIn) -> None:
        if self.pages is None:
            raise TrainletError(
                f"the plan says {describe(instruction)}, but there is no storage: name a folder"
            )
        start = time.perf_counter()
        if isinstance(instruction, PageOut):
            self.pages.write(instruction.value, self.blocks[instruction.value])
        else:
            self.blocks[instruction.value] = self.pages.read(instruction.value)
        self.paging_seconds += time.perf_counter() - start


def _owned(tensor: object, operator: Operator, result: Result, taken: set[int]) -> Tensor:
    """The result in memory of its own, no bigger than planned; ``taken`` are blocks of others."""
    if not isinstance(tensor, Tensor):
        raise TrainletError(f"operator '{operator.name}' made no '{result.name}'")
    storage = tensor.untyped_storage()
    if storage.nbytes() > result.bytes or storage._cdata in taken:
        tensor = tensor.clone()  # the kernel handed back memory that is not its own
        storage = tensor.untyped_storage()
    if storage.nbytes() > result.bytes:
        raise TrainletError(
            f"operator '{operator.name}' made {storage.nbytes()} bytes for '{result.name}'; "
            f"the plan has {result.bytes}"
        )
    taken.add(storage._cdata)
    return tensor


def validate_order(program: Program, instructions: tuple[Instruction, ...]) -> None:
    """Rules of this executor that a planner does not know.

    Raises:
        TrainletError: first draws out of captured order, or something after the update.
    """
    computed = [i.op for i in instructions if isinstance(i, Compute)]
    first = dict.fromkeys(computed)
    draws = [operator.name for operator in program.operators if operator.is_random]
    drawn = [name for name in first if name in set(draws)]
    if drawn != draws:
        late = next(a for a, b in zip(drawn, draws, strict=False) if a != b)
        raise TrainletError(
            f"the plan first runs the random operator '{late}' out of order; draws would change"
        )
    end = instructions.index(Compute(UPDATE))
    for instruction in instructions[end + 1 :]:
        if not isinstance(instruction, Free):
            raise TrainletError(
                f"the plan says {describe(instruction)} after the update of the parameters; "
                "only frees may follow it"
            )


def replayed_operators(instructions: tuple[Instruction, ...]) -> frozenset[str]:
    """Operators that a list runs more than once."""
    runs = Counter(i.op for i in instructions if isinstance(i, Compute))
    return frozenset(name for name, count in runs.items() if count > 1)
