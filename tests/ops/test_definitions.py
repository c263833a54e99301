# SPDX-License-Identifier: Apache-2.0
"""Every operator of the set: its shape rule, its fake, its reference and its costs agree."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from conv_cases import ConvCase
from hypothesis import HealthCheck, given, settings

from random_networks import as_tensor, image_of, trained_networks
from sample_network import SCHEME, sample_network
from trainlet.capture import capture_step
from trainlet.errors import TrainletError
from trainlet.graph import DType, Graph, Op
from trainlet.nn import Int8Network, apply_scheme
from trainlet.ops import RunState, check_op, definition, kinds
from trainlet.ops.add import AddConstants, add
from trainlet.ops.base import OpDef, register
from trainlet.ops.clamp import clamp, clamp_grad, scale_grad
from trainlet.ops.conv2d import conv2d
from trainlet.ops.conv2d_grad import conv2d_grad_input, conv2d_grad_weight
from trainlet.ops.dequantize import dequantize
from trainlet.ops.interpret import interpret
from trainlet.ops.linear import batch_sum, linear, linear_grad_input, linear_grad_weight
from trainlet.ops.loss import softmax_cross_entropy, softmax_cross_entropy_grad
from trainlet.ops.overlap import ALIGNMENT
from trainlet.ops.pool import avg_pool2d, avg_pool2d_grad, max_pool2d, max_pool2d_grad
from trainlet.ops.select_channels import select_channels
from trainlet.ops.update import channel_sum
from trainlet.passes import lower
from trainlet.scheme import everything

STATE = RunState(0.01, 0.1, seed=2, step=1)


def instances(network: Int8Network) -> Iterator[tuple[Graph, Op, dict[str, torch.Tensor]]]:
    """Every operator of a captured and of a lowered step, with the tensors of a run."""
    captured = capture_step(network, network.input_shape)
    inputs = {"image": as_tensor(image_of(network, 1)), "label": torch.tensor([0])}
    for graph in (captured.graph, lower(captured.graph)):
        values = interpret(graph, captured.tensors, inputs, STATE)
        for op in graph.ops:
            yield graph, op, values


def check(graph: Graph, op: Op, values: dict[str, torch.Tensor]) -> None:
    known = definition(op.kind)
    assert check_op(graph, op) == []
    rule = [tuple(shape) for shape in known.shapes(graph, op)]
    for value, shape, dtype in zip(graph.outputs_of(op), rule, known.outputs, strict=True):
        # The graph's shape is the fake's, the tensor's is the reference's.
        assert value.shape == shape == tuple(values[value.name].shape), op
        assert value.dtype is dtype
    assert known.macs(graph, op) >= 0
    for overwrite in known.overwrites(graph, op):
        assert overwrite.lag >= 0
        assert overwrite.lag % ALIGNMENT == 0
        assert graph.values[op.outputs[overwrite.output]].dtype is not DType.BIT
        assert op.inputs[overwrite.input] is not None


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(trained_networks())
def test_shapes_costs_and_overwrites_agree_with_the_reference(network: Int8Network) -> None:
    for graph, op, values in instances(network):
        check(graph, op, values)


def test_the_sample_runs_every_operator_there_is() -> None:
    seen = set()
    for scheme in (SCHEME, everything()):
        network = sample_network()
        apply_scheme(network, scheme)
        for graph, op, values in instances(network):
            check(graph, op, values)
            seen.add(op.kind)
    assert seen == set(kinds())


def test_a_kind_is_defined_once_and_an_unknown_one_is_refused() -> None:
    with pytest.raises(ValueError, match="'add' is defined twice"):
        register(definition("add"))
    assert isinstance(definition("add"), OpDef)
    with pytest.raises(TrainletError, match="operator 'conv3d' has no kernel"):
        definition("conv3d")


# ---- as PyTorch sees them -------------------------------------------------------------------


def _conv(depthwise: bool) -> tuple[object, ...]:
    case = ConvCase(
        1, 4 if depthwise else 1, 1 if depthwise else 4, 1 if depthwise else 3, (5, 6), (3, 2),
        (2, 1), (1, 0, 0, 1), (0, 2), (-5, 3), (-128, 127), "tflite" if depthwise else "fast", 3,
    )  # fmt: skip
    kept, rest = case.parts()
    assert kept is not None
    given = case.attributes()
    learning = [t.clone().requires_grad_() for t in (case.x, kept, case.bias)]
    tensors = (learning[0], learning[1], rest, learning[2], *case.constants())
    return (*tensors, *given.values())


def _cases() -> list[tuple[str, object, tuple[object, ...]]]:
    draw = torch.Generator().manual_seed(1)

    def real(*shape: int, learns: bool = False) -> torch.Tensor:
        return torch.randn(shape, generator=draw).requires_grad_(learns)

    def whole(*shape: int, learns: bool = True) -> torch.Tensor:
        return torch.randint(-9, 9, shape, generator=draw).float().requires_grad_(learns)

    window = [[2, 3], [1, 2], [1, 0, 0, 1]]
    plain, deep = _conv(False), _conv(True)
    constants = list(AddConstants.of("fast", (0.1, 0.2, 0.2), (1, 2, 3)).values)
    g, mask = real(1, 3, 2, 6), torch.rand(1, 3, 2, 6, generator=draw) > 0.3
    index = max_pool2d(whole(1, 3, 5, 6, learns=False), *window)[1]
    pooled = real(*index.shape)
    label = torch.tensor([2])
    dense = [t.detach() if isinstance(t, torch.Tensor) else t for t in plain]
    sparse = [t.detach() if isinstance(t, torch.Tensor) else t for t in deep]
    where = ([2, 1], [1, 0, 0, 1])
    return [
        ("conv2d", conv2d, plain),
        ("conv2d depthwise", conv2d, deep),
        ("conv2d_grad_input", conv2d_grad_input, (g, *dense[1:3], [0, 2], *where, 1, [5, 6])),
        (
            "conv2d_grad_input depthwise",
            conv2d_grad_input,
            (real(1, 4, 2, 6), *sparse[1:3], [0, 2], *where, 4, [5, 6]),
        ),
        (
            "conv2d_grad_weight",
            conv2d_grad_weight,
            (g, whole(1, 2, 5, 6, learns=False), [0, 2], *where, 1, [3, 2], -5),
        ),
        ("add", add, (whole(1, 2, 3), whole(1, 2, 3), constants, 0.5, 1.0, -128, 127)),
        ("clamp", clamp, (whole(1, 2, 3), -3, 4)),
        ("clamp_grad", clamp_grad, (g, mask, real(3))),
        ("scale_grad", scale_grad, (g, mask, 0.3)),
        ("scale_grad without mask", scale_grad, (g, None, 0.3)),
        ("avg_pool2d", avg_pool2d, (whole(1, 3, 5, 6), *window)),
        ("avg_pool2d_grad", avg_pool2d_grad, (pooled, *window, [5, 6])),
        ("max_pool2d", max_pool2d, (whole(1, 3, 5, 6), *window)),
        ("max_pool2d_grad", max_pool2d_grad, (pooled, index, *window, [5, 6])),
        ("dequantize", dequantize, (whole(1, 2, 3), 0.1, -3)),
        ("linear", linear, (real(1, 2, 3, 2, learns=True), real(4, 12, learns=True),
                            real(4, learns=True))),
        ("linear_grad_input", linear_grad_input, (real(1, 4), real(4, 12), [2, 3, 2])),
        ("linear_grad_weight", linear_grad_weight, (real(1, 4), real(1, 2, 3, 2))),
        ("batch_sum", batch_sum, (real(1, 4),)),
        ("channel_sum", channel_sum, (g,)),
        ("select_channels", select_channels, (whole(1, 6, 2, 2, learns=False), [0, 2], 2)),
        ("softmax_cross_entropy", softmax_cross_entropy, (real(1, 4, learns=True), label)),
        (
            "softmax_cross_entropy_grad",
            softmax_cross_entropy_grad,
            (torch.ones(()), torch.softmax(real(1, 4), 1), label),
        ),
    ]  # fmt: skip


CASES = _cases()


@pytest.mark.parametrize(("name", "op", "arguments"), CASES, ids=[name for name, _, _ in CASES])
def test_pytorchs_own_checks_pass(name: str, op: object, arguments: tuple[object, ...]) -> None:
    checks = ["test_schema", "test_autograd_registration", "test_faketensor"]
    torch.library.opcheck(op, arguments, test_utils=[*checks, "test_aot_dispatch_static"])


def test_each_operator_of_pytorch_is_checked() -> None:
    namespace = {str(s.name).partition("::")[2] for s in torch._C._jit_get_all_schemas()
                 if s.name.startswith("trainlet::")}  # fmt: skip
    assert {name.partition(" ")[0] for name, _, _ in CASES} == namespace
