# SPDX-License-Identifier: Apache-2.0
"""Each pass on graphs in text form, and on random networks: what comes out does not change."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from random_networks import as_tensor, image_of, trained_networks
from trainlet.capture import capture_step
from trainlet.graph import Graph, GraphError, Role, parse_graph
from trainlet.nn import Int8Network
from trainlet.ops.base import RunState
from trainlet.ops.interpret import interpret
from trainlet.passes import DEFAULT_PASSES, Pass, inference_of, lower, problem_of, run_passes
from trainlet.passes.fuse_updates import fuse_updates
from trainlet.passes.order import order_for_memory
from trainlet.planning.lifetimes import lifetimes_of
from trainlet.planning.methods import find_method

BIAS_STEP = """
graph step {
  input %g : f32[1, 2, 4, 4]
  parameter %b : i32[2]
  constant %qas : f32[2]
  constant %limit : i32[2]
  %sum : f32[2] = channel_sum(%g)
  %b.next : 'i32[2] = sgd_bias(%sum, %b, %qas, %limit) {tensor = 3}
  return %b.next
}
"""


def _peak(graph: Graph) -> int:
    problem = problem_of(graph)
    return lifetimes_of(problem, find_method("keep-all")(problem)).lower_bound_bytes


def test_a_gradient_with_one_reader_is_fused_with_its_update() -> None:
    fused = fuse_updates(parse_graph(BIAS_STEP))
    assert [op.kind for op in fused.ops] == ["channel_sum_sgd"]
    assert fused.ops[0].inputs == ("g", "b", "qas", "limit")
    assert fused.ops[0].attributes == {"tensor": 3}


def test_a_gradient_that_is_also_an_output_is_not_fused() -> None:
    kept = fuse_updates(parse_graph(BIAS_STEP.replace("return", "return %sum,")))
    assert [op.kind for op in kept.ops] == ["channel_sum", "sgd_bias"]


def test_the_copy_of_a_few_channels_runs_before_their_map_is_consumed() -> None:
    graph = parse_graph(
        """
        graph step {
          input %image : i8[1, 8, 8, 8]
          %a : i8[1, 8, 8, 8], %am : b1[1, 8, 8, 8] = clamp(%image) {clamp_min = 0, clamp_max = 9}
          %b : i8[1, 8, 8, 8], %bm : b1[1, 8, 8, 8] = clamp(%a) {clamp_min = 0, clamp_max = 8}
          %few : i8[1, 2, 8, 8] = select_channels(%a) {channels = [0, 5], groups = 1}
          return %b, %few
        }
        """
    )
    ordered = order_for_memory(graph)
    assert [op.kind for op in ordered.ops] == ["clamp", "select_channels", "clamp"]
    assert _peak(ordered) < _peak(graph)


def test_a_pass_that_breaks_the_graph_is_named() -> None:
    def careless(graph: Graph) -> Graph:
        return graph.with_ops(graph.ops[1:])

    with pytest.raises(GraphError, match="after pass 'careless'") as caught:
        run_passes(parse_graph(BIAS_STEP), [Pass("careless", careless)])
    assert "sgd_bias" in str(caught.value)


def test_a_pass_that_does_not_keep_its_promise_is_named() -> None:
    lazy = Pass("lazy", lambda graph: graph, lambda graph: [f"{graph.ops[0]} is still there"])
    with pytest.raises(GraphError, match="pass 'lazy' does not keep its promise"):
        run_passes(parse_graph(BIAS_STEP), [lazy])


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(trained_networks())
def test_passes_change_no_result_and_raise_no_peak(network: Int8Network) -> None:
    captured = capture_step(network, network.input_shape)
    state = RunState(0.01, 0.1, seed=2, step=1)
    inputs = {"image": as_tensor(image_of(network, 1)), "label": torch.tensor([0])}
    before = interpret(captured.graph, captured.tensors, inputs, state)
    lowered = lower(captured.graph)
    after = interpret(lowered, captured.tensors, inputs, state)
    for name in captured.graph.outputs:
        torch.testing.assert_close(after[name].flatten(), before[name].flatten(), rtol=0, atol=0)
    assert _peak(lowered) <= _peak(run_passes(captured.graph, DEFAULT_PASSES[:2]))
    logits = interpret(inference_of(lowered), captured.tensors, inputs, state)
    name = captured.graph.outputs[1]
    torch.testing.assert_close(logits[name], before[name], rtol=0, atol=0)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(trained_networks())
def test_frozen_parameters_have_no_backward_operators(network: Int8Network) -> None:
    graph = capture_step(network, network.input_shape).graph
    learning = {n for n, p in network.named_parameters() if p.requires_grad}
    assert {value.name for value in graph.with_role(Role.PARAMETER)} == learning
    touched = {op.path for op in graph.ops if op.kind in ("channel_sum", "conv2d_grad_weight")}
    assert touched == {n.rpartition(".")[0] for n in learning if not n.startswith("head")}
