# SPDX-License-Identifier: Apache-2.0
"""Random training steps, forward and backward, that the tests of the methods share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from trainlet.planning import OpSpec, Overwrite, PagingCost, Problem, ValueSpec
from trainlet.planning.methods.keep_all import keep_all
from trainlet.planning.methods.limits import peak_of


def plain_chain(sizes: list[int], seconds: list[float], **limits: Any) -> Problem:
    """Layer k makes a{k} from a{k-1}; its gradient reads both and the gradient of a{k}."""
    count = len(sizes)
    values = [ValueSpec(f"a{k}", size) for k, size in enumerate(sizes)]
    values += [ValueSpec(f"g{k}", size) for k, size in enumerate(sizes)]
    ops = [
        OpSpec(f"F{k}", (f"a{k - 1}",) if k else (), (f"a{k}",), seconds=s, joules=2 * s)
        for k, s in enumerate(seconds)
    ]
    for k in reversed(range(count)):
        inputs = [f"a{k}", *([f"a{k - 1}"] if k else []), *([f"g{k + 1}"] if k + 1 < count else [])]
        s = 2 * seconds[k]
        ops.append(OpSpec(f"B{k}", tuple(inputs), (f"g{k}",), seconds=s, joules=2 * s))
    return Problem("chain", tuple(values), tuple(ops), alignment=1, **limits)


@st.composite
def chains(draw: st.DrawFn) -> Problem:
    """Plain chains of uneven layers without storage."""
    count = draw(st.integers(2, 12))
    sizes = draw(st.lists(st.integers(1, 50), min_size=count, max_size=count))
    seconds = draw(st.lists(st.integers(1, 9), min_size=count, max_size=count))
    return plain_chain(sizes, [float(s) for s in seconds])


@st.composite
def training_steps(draw: st.DrawFn) -> Problem:
    """Skips, several outputs, scratch, overwrites, state, gradients that stay, storage."""
    graph = _Graph(draw)
    count = draw(st.integers(2, 10))
    if draw(st.booleans()):
        graph.inputs = (graph.value("image", 50),)
    for layer in range(count):
        graph.forward(layer)
    gradient = None
    for layer in reversed(range(count)):
        gradient = graph.backward(layer, gradient)
    return graph.problem()


class _Graph:
    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._values: list[ValueSpec] = []
        self._ops: list[OpSpec] = []
        self._activations: list[str] = []
        self._outputs: list[str] = []
        self.inputs: tuple[str, ...] = ()

    def value(self, name: str, most: int) -> str:
        self._values.append(ValueSpec(name, self._draw(st.integers(1, most))))
        return name

    def forward(self, layer: int) -> None:
        sources = self._activations[-1:] or list(self.inputs)
        if self._activations and self._often(3):
            sources.append(self._draw(st.sampled_from(self._activations[-4:])))
        made = [self.value(f"a{layer}", 50)]
        if self._often(4):
            made.append(self.value(f"mask{layer}", 20))
        over = (Overwrite(made[0], sources[0], 0),) if sources and self._often(4) else ()
        self._ops.append(
            OpSpec(
                f"F{layer}",
                tuple(dict.fromkeys(sources)),
                tuple(made),
                self._draw(st.sampled_from([0, 0, 12])),
                over,
                seconds := float(self._draw(st.integers(0, 9))),
                2 * seconds,
                (f"w{layer}",) if self._often(2) else (),
                (f"bn{layer}",) if self._often(10) else (),
            )
        )
        self._activations.append(made[0])

    def backward(self, layer: int, gradient: str | None) -> str:
        op = self._ops[layer]
        read = [v for v in (*op.inputs, *op.outputs) if self._often(2)] or [op.outputs[0]]
        if self._often(8):
            read.append(self._draw(st.sampled_from(self._activations)))
        read += [gradient] if gradient else []
        made = [self.value(f"g{layer}", 50)]
        if self._often(4):
            made.append(self.value(f"p{layer}", 10))
            self._outputs.append(made[1])
        seconds = float(self._draw(st.integers(0, 9)))
        inputs = tuple(dict.fromkeys(read))
        self._ops.append(OpSpec(f"B{layer}", inputs, tuple(made), 0, (), seconds, 2 * seconds))
        if op.reads:
            self._ops.append(OpSpec(f"U{layer}", (made[0],), (), reads=op.reads, writes=op.reads))
        return made[0]

    def problem(self) -> Problem:
        everything = sum(value.bytes for value in self._values)
        rate = st.sampled_from([0.0, 0.01, 0.1])
        paging = PagingCost(self._draw(rate), self._draw(rate), self._draw(rate), self._draw(rate))
        return Problem(
            "step",
            tuple(self._values),
            tuple(self._ops),
            self.inputs,
            tuple(self._outputs),
            fixed_bytes=self._draw(st.sampled_from([0, 7])),
            alignment=self._draw(st.sampled_from([1, 4])),
            storage_bytes=self._draw(st.sampled_from([0, everything // 4, everything])),
            write_limit_bytes=self._draw(st.sampled_from([None, everything // 8])),
            page_out=paging,
            page_in=paging,
        )

    def _often(self, one_in: int) -> bool:
        return self._draw(st.integers(1, one_in)) == 1


def at_share(problem: Problem, share: float) -> Problem:
    """The problem with a budget that is this share of the keep-all peak, and the fixed bytes."""
    peak = peak_of(problem, keep_all(problem))
    return replace(problem, budget_bytes=problem.fixed_bytes + int(peak * share))
