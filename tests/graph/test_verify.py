# SPDX-License-Identifier: Apache-2.0
"""Every rule of ``verify`` is broken once, and the error names the pass and the operator."""

from __future__ import annotations

import pytest

from trainlet.graph import Graph, GraphError, Op, parse_graph, verify, without_dead_code
from trainlet.ops import check_op

GOOD = """
graph step {
  input %image : i8[1, 2, 4, 4]
  parameter %w : i8[2]
  %a : i8[1, 2, 4, 4], %a.mask : b1[1, 2, 4, 4] = clamp(%image) {clamp_min = -5, clamp_max = 9}
  %g : f32[2] = gradient(%a, %w)
  %w.next : 'i8[2] = sgd(%g, %w)
  return %a, %w.next
}
"""


def test_a_good_graph_passes() -> None:
    graph = parse_graph(GOOD)
    assert verify(graph, after="capture", rule=check_op) is graph


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("gradient(%a, %w)", "gradient(%b, %w)", "reads %b, which does not exist"),
        ("clamp(%image)", "clamp(%g)", "reads %g before it is made"),
        ("%g : f32[2]", "%a : f32[2]", "makes %a a second time"),
        ("return %a,", "return %z, %a,", "output %z is never made"),
        ("%w.next : 'i8[2] = sgd(%g, %w)", "%w.next : 'i8[2] = sgd(%g)", "updates %w.next"),
        ("i8[1, 2, 4, 4], %a.mask", "i32[1, 2, 4, 4], %a.mask", "by its rule i8"),
        ("b1[1, 2, 4, 4] = clamp", "b1[1, 2, 4, 5] = clamp", "by its rule b1"),
        (", %a.mask : b1[1, 2, 4, 4]", "", "has 1 inputs and 1 outputs"),
    ],
)
def test_a_broken_rule_is_named(old: str, new: str, message: str) -> None:
    assert old in GOOD
    graph = parse_graph(GOOD.replace(old, new))
    with pytest.raises(GraphError, match="after pass 'order'") as caught:
        verify(graph, after="pass 'order'", rule=check_op)
    assert message in str(caught.value)


def test_a_parameter_is_not_read_after_its_update() -> None:
    graph = parse_graph(GOOD)
    late = Op("reader", ("w",), ("late",), {})
    value = graph.values["g"]
    stale = graph.with_ops(
        [*graph.ops, late], values=[type(value)("late", (2,), value.dtype)], outputs=("late",)
    )
    with pytest.raises(GraphError, match=r"reader -> %late reads %w after sgd -> %w.next"):
        verify(stale, after="a test")


def test_dead_code_goes_and_the_rest_stays() -> None:
    graph: Graph = parse_graph(GOOD.replace("return %a, %w.next", "return %a"))
    assert [op.kind for op in without_dead_code(graph).ops] == ["clamp"]
