# SPDX-License-Identifier: Apache-2.0
"""Problems that the planning tests share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from trainlet.planning import OpSpec, Overwrite, PagingCost, Problem, ValueSpec


def chain(
    sizes: Sequence[int], lags: Sequence[int | None], scratch: int = 0, **limits: Any
) -> Problem:
    """v0 -> op0 -> v1 -> op1 ...; a lag of None lets an operator overwrite nothing."""
    ops = []
    for index, lag in enumerate(lags):
        source, output = f"v{index}", f"v{index + 1}"
        overwrites = () if lag is None else (Overwrite(output, source, lag),)
        ops.append(
            OpSpec(f"op{index}", (source,), (output,), scratch, overwrites, 0.1 * index, 0.5)
        )
    values = tuple(ValueSpec(f"v{index}", size) for index, size in enumerate(sizes))
    return Problem("chain", values, tuple(ops), ("v0",), (values[-1].name,), **limits)


def training_step(**limits: Any) -> Problem:
    """Two layers forward, then backward; masks and one activation wait for the backward half.

    The first update writes state that an earlier operator reads.
    """
    sizes = {
        "image": 64, "a": 128, "a.mask": 16, "b": 64, "logits": 16, "loss": 8,
        "grad_logits": 16, "grad_b": 64, "grad_a": 128,
    }  # fmt: skip
    ops = (
        OpSpec("conv1", ("image",), ("a", "a.mask"), 32, (Overwrite("a", "image", 96),), 1.0, 2.0),
        OpSpec("conv2", ("a",), ("b",), 24, (), 2.0, 1.0, ("w2",)),
        OpSpec("head", ("b",), ("logits",), 0, (), 0.5, 0.5),
        OpSpec("loss", ("logits",), ("loss", "grad_logits"), 0,
               (Overwrite("grad_logits", "logits", 0),), 0.25, 0.5),
        OpSpec("head_back", ("grad_logits", "b"), ("grad_b",), 0,
               (Overwrite("grad_b", "b", 0),), 0.5, 0.5),
        OpSpec("conv2_back", ("grad_b",), ("grad_a",), 16, (), 2.0, 2.0, ("w2",)),
        OpSpec("conv2_update", ("grad_b", "a"), (), 40, (), 2.0, 2.0, ("w2",), ("w2",)),
        OpSpec("conv1_update", ("grad_a", "a.mask"), (), 0, (), 1.0, 1.0, (), ("w1",)),
    )  # fmt: skip
    values = tuple(ValueSpec(name, size) for name, size in sizes.items())
    paging = PagingCost(0.125, 0.001, 0.25, 0.002)
    settings: dict[str, Any] = {
        "fixed_bytes": 100, "storage_bytes": 1000, "page_out": paging, "page_in": paging, **limits
    }  # fmt: skip
    return Problem("training", values, ops, ("image",), ("loss",), **settings)


@st.composite
def problems(draw: st.DrawFn, most_ops: int = 12) -> Problem:
    """Small random graphs with several outputs, scratch, overwrites and odd sizes."""
    alignment = draw(st.sampled_from([1, 4, 8]))
    sizes = st.integers(0, 90)
    values = [ValueSpec("in0", draw(sizes))]
    if draw(st.booleans()):
        values.append(ValueSpec("in1", draw(sizes)))
    inputs = tuple(value.name for value in values)
    ops: list[OpSpec] = []
    for index in range(draw(st.integers(1, most_ops))):
        known = [value.name for value in values]
        recent = st.sampled_from(known[-5:])
        sources = tuple(draw(st.lists(recent, min_size=1, max_size=3)))
        made = tuple(f"v{index}.{k}" for k in range(draw(st.integers(0, 2))))
        pairs = [(output, source) for output in made for source in dict.fromkeys(sources)]
        chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
        overwrites = tuple(
            Overwrite(output, source, alignment * draw(st.integers(0, 6)))
            for output, source in chosen
        )
        scratch = draw(st.sampled_from([0, 0, 5, 40]))
        values += [ValueSpec(name, draw(sizes)) for name in made]
        cost = draw(st.floats(0, 10))
        ops.append(OpSpec(f"op{index}", sources, made, scratch, overwrites, cost, cost / 3))
    outputs = draw(st.lists(st.sampled_from([v.name for v in values]), unique=True, max_size=3))
    return Problem("random", tuple(values), tuple(ops), inputs, tuple(outputs), alignment=alignment)
