# SPDX-License-Identifier: Apache-2.0
"""The exports: what Perfetto reads, plain JSON, roles, and the steps of a timeline."""

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from report_example import ROLES, example_report, example_timeline

from trainlet.errors import TrainletError
from trainlet.graph import parse_graph
from trainlet.planning import Timeline
from trainlet.planning.timeline import Bar
from trainlet.report import ValueRole, graph_operators, graph_roles, write_json, write_trace
from trainlet.report.figures import byte_ticks, percent, short_bytes, ticks
from trainlet.report.steps import steps_of


def test_a_trace_has_every_value_operator_and_count(tmp_path: Path):
    timeline = example_timeline()
    write_trace(tmp_path / "trace.json", timeline, ROLES)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    values = [event for event in slices if event["pid"] == 2]
    assert sorted(e["name"] for e in values) == sorted(bar.name for bar in timeline.bars)
    assert [e["name"] for e in slices if e["pid"] == 1] == [
        "0:conv.conv2d",
        "1:clamp.clamp",
        "2:conv.conv2d_grad_input",
        "3:conv.channel_sum_sgd",
    ]
    live = [event["args"]["live"] for event in events if event["ph"] == "C"]
    assert max(live) == timeline.lower_bound_bytes
    assert live[-1] == 0


def test_slices_of_one_track_do_not_overlap(tmp_path: Path):
    write_trace(tmp_path / "trace.json", example_timeline())
    tracks = defaultdict(list)
    for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]:
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in tracks.values():
        ordered = sorted(spans)
        assert all(a[1] <= b[0] for a, b in pairwise(ordered))


def test_plain_json_has_the_whole_report_and_no_nan(tmp_path: Path):
    data = example_report()
    write_json(tmp_path / "report.json", data)
    read = json.loads((tmp_path / "report.json").read_text())
    assert read["planned"]["sram_bytes"] == data.analysis.sram_bytes
    assert len(read["timeline"]["bars"]) == len(data.timeline.bars)
    assert read["losses"] == [2.5, 1.5, 1.0, 0.5]
    assert read["roles"]["kept"] == "saved activation"


def test_steps_count_operators_and_keep_the_peak():
    timeline = example_timeline()
    steps = steps_of(timeline, ROLES)
    assert steps.count == 4
    assert steps.live[steps.peak] == timeline.lower_bound_bytes
    where = {span.bar.key: (span.first, span.last) for span in steps.spans}
    assert where["image"] == (0, 0)
    assert where["conv"] == (0, 1)
    assert where["conv.mask"] == (0, 2)
    assert where["grad"] == (2, 3)


def test_paged_values_come_back_at_the_next_operator():
    labels = ("compute a", "page-out v", "free v", "compute b", "page-in v", "compute c", "free v")
    bars = (Bar("v", "v", 0, 2, 0, 8, False), Bar("v#1", "v", 4, 6, 0, 8, False))
    live = (8, 8, 0, 0, 8, 8, 0)
    steps = steps_of(Timeline(labels, bars, live, 8, 8, 0, "a", bars[:1]), {})
    assert [(span.first, span.last) for span in steps.spans] == [(0, 0), (2, 2)]
    assert steps.live == (8, 8, 8)


GRAPH = """
graph step {
  input %image : i8[1, 4, 2, 2]
  input %gy : f32[1, 4, 2, 2]
  constant %scale : f32[4]
  %first : i8[1, 4, 2, 2], %first.mask : b1[1, 4, 2, 2] =
    clamp(%image) {clamp_min = -10, clamp_max = 10} @ "first"
  %second : i8[1, 4, 2, 2], %second.mask : b1[1, 4, 2, 2] =
    clamp(%first) {clamp_min = -9, clamp_max = 9} @ "second"
  %grad : f32[1, 4, 2, 2] = clamp_grad(%gy, %second.mask, %scale) @ "second"
  return %second, %grad
}
"""


def test_roles_and_notes_follow_from_the_graph():
    graph = parse_graph(GRAPH)
    assert graph_roles(graph) == {
        "image": ValueRole.INPUT,
        "gy": ValueRole.INPUT,
        "first": ValueRole.ACTIVATION,
        "first.mask": ValueRole.MASK,
        "second": ValueRole.ACTIVATION,
        "second.mask": ValueRole.MASK,
        "grad": ValueRole.GRADIENT,
    }
    notes = graph_operators(graph)
    assert [(note.kind, note.path, note.backward) for note in notes] == [
        ("clamp", "first", False),
        ("clamp", "second", False),
        ("clamp_grad", "second", True),
    ]


def test_a_forward_value_that_backward_reads_is_saved():
    text = """
graph step {
  input %q : i8[1, 4]
  input %label : u32[1]
  %logits : f32[1, 4] = dequantize(%q) {scale = 1.0, zero = 0}
  %loss : f32[] = softmax_cross_entropy(%logits, %label)
  %g : f32[1, 4] = softmax_cross_entropy_grad(%logits, %label)
  return %loss, %g
}
"""
    roles = graph_roles(parse_graph(text))
    assert roles["logits"] is ValueRole.SAVED
    assert roles["g"] is ValueRole.GRADIENT


def test_figures_read_well():
    assert short_bytes(169_160) == "165 KiB"
    assert short_bytes(36_904) == "36.0 KiB"
    assert short_bytes(24) == "24 B"
    assert percent(0.0002) == "under 0.1 %"
    assert percent(0.5162) == "51.6 %"
    assert byte_ticks(131_136, 4) == [0, 65_536, 131_072]
    assert byte_ticks(0) == [0]
    assert ticks(0.0, 1.0, 5) == [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]
    assert ticks(0.0, 0.0) == [0.0]


def test_a_folder_that_is_not_there_is_one_clear_line(tmp_path: Path):
    with pytest.raises(TrainletError, match=r"nowhere.*cannot be written"):
        write_json(tmp_path / "nowhere" / "report.json", example_report())
