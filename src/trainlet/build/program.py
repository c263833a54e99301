# SPDX-License-Identifier: Apache-2.0
"""From a network whose scheme is set to the planned program: capture, lower, plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trainlet.capture import capture_step
from trainlet.emit import Planned, Program
from trainlet.graph import Graph
from trainlet.nn import Int8Network
from trainlet.passes import DEFAULT_PASSES, Pass, inference_of, problem_of, run_passes
from trainlet.planning import Problem, make_plan, plan_at
from trainlet.planning.plan import scratch_key


def build_program(
    network: Int8Network, name: str, passes: Sequence[Pass] = DEFAULT_PASSES
) -> Program:
    """Capture, lower and plan a network's step; the plans are checked."""
    captured = capture_step(network, network.input_shape)
    step = _planned(run_passes(captured.graph, passes))
    return Program(
        name=name,
        step=step,
        inference=_forward_part(step),
        tensors=captured.tensors,
        input_shape=network.input_shape,
        input_scale=network.x.scale,
        input_zero=network.x.zero,
        classes=network.classes,
    )


def _planned(graph: Graph) -> Planned:
    problem = problem_of(graph)
    return Planned(graph, problem, make_plan(problem))


def _forward_part(step: Planned) -> Planned:
    """The inference at the step's own addresses, so that the image has one place for both."""
    graph = inference_of(step.graph)
    problem = _with_overlaps_of(step, problem_of(graph))
    addresses = {v.name: step.plan.addresses[v.name] for v in problem.values}
    pairs = zip(step.graph.ops, step.problem.ops, strict=True)
    names = {op.outputs[0]: spec.name for op, spec in pairs}
    for op, spec in zip(graph.ops, problem.ops, strict=True):
        if spec.scratch_bytes:
            key = scratch_key(names[op.outputs[0]], 0)
            addresses[scratch_key(spec.name, 0)] = step.plan.addresses[key]
    return Planned(graph, problem, plan_at(problem, addresses))


def _with_overlaps_of(step: Planned, problem: Problem) -> Problem:
    """The problem with those overlaps alone that the step uses.

    Values die earlier in inference, so that an operator may have a choice which
    the step did not have; the addresses have made it already.
    """
    used = {(overlap.output, overlap.input) for overlap in step.plan.overlaps}
    ops = (
        replace(op, overwrites=tuple(w for w in op.overwrites if (w.output, w.input) in used))
        for op in problem.ops
    )
    return replace(problem, ops=tuple(ops))
