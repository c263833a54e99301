# SPDX-License-Identifier: Apache-2.0
"""The text form: what is printed is read back, and what is wrong is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainlet.errors import TrainletError
from trainlet.graph import DType, Graph, Op, Role, Value, format_graph, parse_graph

TEXT = """
graph step {
  input %image : i8[1, 3, 8, 8]
  parameter %stem.kept : i8[4, 3, 3, 3]
  # the absent input is the frozen part
  %stem : i8[1, 4, 8, 8], %stem.mask : b1[1, 4, 8, 8] = conv2d(%image, %stem.kept, _) \
{stride = [1, 1], groups = 1, mode = "fast"} @ "stem"
  %stem.kept.next : 'i8[4, 3, 3, 3] = sgd_weight(%stem, %stem.kept) {rate = 1e-05, ok = true}
  return %stem, %stem.kept.next
}
"""

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.]{0,8}", fullmatch=True)
shapes = st.lists(st.integers(0, 2**40), max_size=4).map(tuple)
attributes = st.one_of(
    st.integers(-(2**63), 2**63),
    st.booleans(),
    st.floats(allow_nan=False),
    st.text(max_size=8),
    st.lists(st.integers(-9, 9), max_size=3).map(tuple),
    st.lists(st.floats(allow_nan=False), min_size=1, max_size=3).map(tuple),
)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    given_roles = st.sampled_from([Role.INPUT, Role.CONSTANT, Role.PARAMETER])
    unique = draw(st.lists(names, min_size=2, max_size=8, unique=True))
    split = draw(st.integers(1, len(unique) - 1))
    dtypes = st.sampled_from(DType)
    values = [Value(n, draw(shapes), draw(dtypes), draw(given_roles)) for n in unique[:split]]
    ops, known = [], list(unique[:split])
    for name in unique[split:]:
        operands = draw(st.lists(st.sampled_from([None, *known]), max_size=3))
        values.append(
            Value(
                name, draw(shapes), draw(dtypes), draw(st.sampled_from([Role.LOCAL, Role.UPDATED]))
            )
        )
        extra = draw(st.dictionaries(names, attributes, max_size=3))
        ops.append(Op(draw(names), tuple(operands), (name,), extra, draw(st.text(max_size=6))))
        known.append(name)
    return Graph.of(draw(names), values, ops, [known[-1]])


def test_a_written_graph_is_read() -> None:
    graph = parse_graph(TEXT)
    op = graph.ops[0]
    assert op.inputs == ("image", "stem.kept", None)
    assert op.attributes == {"stride": (1, 1), "groups": 1, "mode": "fast"}
    assert op.path == "stem"
    assert graph.values["stem.mask"].dtype is DType.BIT
    assert graph.values["stem.kept.next"].role is Role.UPDATED
    assert graph.ops[1].attributes == {"rate": 1e-05, "ok": True}
    assert graph.outputs == ("stem", "stem.kept.next")


@given(graphs())
def test_print_and_parse_are_inverse(graph: Graph) -> None:
    again = parse_graph(format_graph(graph))
    assert again == graph
    assert format_graph(again) == format_graph(graph)


@pytest.mark.parametrize(
    ("broken", "line"),
    [
        (TEXT.replace("return", "retrun"), "line 8"),
        (TEXT.replace("i8[1, 3, 8, 8]", "i9[1, 3, 8, 8]"), "line 3"),
        (TEXT.replace("%image : ", "%image "), "line 3"),
    ],
)
def test_an_error_names_the_line(broken: str, line: str) -> None:
    with pytest.raises(TrainletError, match=line):
        parse_graph(broken)


def test_a_text_that_ends_early_is_an_error() -> None:
    with pytest.raises(TrainletError, match="graph text"):
        parse_graph(TEXT[:60])


def test_bits_are_packed() -> None:
    assert Value("m", (1, 3, 3, 1), DType.BIT).bytes == 2
    assert Value("w", (5,), DType.I32).bytes == 20
    assert Value("loss", (), DType.F32).bytes == 4
