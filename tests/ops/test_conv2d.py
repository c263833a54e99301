# SPDX-License-Identifier: Apache-2.0
"""The convolution against loops over Python integers, its gradients against PyTorch's autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from conv_cases import ConvCase, assembled, conv_cases, loops, real_layer, requantized
from hypothesis import given, settings
from torch import Tensor

from trainlet.ops.conv2d import accumulate, conv2d

few = settings(max_examples=40, deadline=None)


def run(case: ConvCase, x: Tensor, kept: Tensor | None, bias: Tensor) -> tuple[Tensor, Tensor]:
    rest = case.parts()[1]
    return conv2d(x, kept, rest, bias, *case.constants(), **case.attributes())


@few
@given(conv_cases())
def test_every_output_is_that_of_exact_integers(case: ConvCase) -> None:
    y, mask = run(case, case.x, case.parts()[0], case.bias)
    multiplier, shift, _ = case.constants()
    acc = loops(case)
    assert tuple(y.shape) == acc.shape
    for at in np.ndindex(*acc.shape):
        own = None if shift is None else int(shift[at[1]])
        wide = requantized(int(acc[at]), int(multiplier[at[1]]), own) + case.zeros[1]
        low, high = case.clamp
        assert int(y[at]) == min(max(wide, low), high)
        assert bool(mask[at]) == (low <= wide <= high)


def test_sums_beyond_float32_are_exact() -> None:
    x = torch.full((1, 600, 1, 1), 255.0)
    weight = torch.full((1, 600, 1, 1), 127.0)
    weight[0, 0], x[0, 0] = 1.0, 1.0
    assert int(accumulate(x, weight, (0, 0, 0, 0), (1, 1), 1)) == 599 * 255 * 127 + 1


def gradients(case: ConvCase) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Gradients by the operator, and by autograd through the real layer where the mask lets it."""
    own, plain = {}, {}
    kept, rest = case.parts()
    leaves = {"x": case.x, "bias": case.bias} | ({} if kept is None else {"kept": kept})
    ours = {n: t.clone().requires_grad_() for n, t in leaves.items()}
    y, mask = run(case, ours["x"], ours.get("kept"), ours["bias"])
    gy = torch.randn(y.shape, generator=torch.Generator().manual_seed(case.seed % 2**31))
    y.backward(gy)
    theirs = {n: t.double().clone().requires_grad_() for n, t in leaves.items()}
    weight = assembled(case, theirs.get("kept"), rest)
    real = real_layer(case, theirs["x"], weight, theirs["bias"])
    (real * mask * gy.double()).sum().backward()
    for name in leaves:
        assert ours[name].grad is not None
        own[name], plain[name] = ours[name].grad, theirs[name].grad
    return own, plain


def close(got: Tensor, expected: Tensor) -> None:
    largest = max(float(expected.abs().max()), 1e-12)
    assert float((got.double() - expected).abs().max()) <= 1e-5 * largest


@few
@given(conv_cases())
def test_gradients_are_autograds(case: ConvCase) -> None:
    own, plain = gradients(case)
    for name, expected in plain.items():
        close(own[name], expected)


@settings(few, max_examples=20)
@given(conv_cases(depthwise=True))
def test_gradients_of_depthwise_are_autograds(case: ConvCase) -> None:
    own, plain = gradients(case)
    for name, expected in plain.items():
        close(own[name], expected)


def case_of(**changes: object) -> ConvCase:
    given = {
        "batch": 1, "groups": 1, "width": 4, "per_group": 3, "size": (5, 6), "kernel": (3, 2),
        "stride": (2, 1), "padding": (1, 0, 0, 1), "channels": (1, 2), "zeros": (-128, 3),
        "clamp": (-128, 127), "mode": "fast", "seed": 7,
    }  # fmt: skip
    return ConvCase(**(given | changes))


@pytest.mark.parametrize(
    "case",
    [
        case_of(),
        case_of(groups=2, channels=(0, 3)),
        case_of(groups=5, width=1, per_group=1, channels=(1, 4)),
        case_of(kernel=(1, 1), padding=(0, 0, 0, 0), stride=(1, 1), channels=(0, 1, 2, 3)),
    ],
    ids=["general", "groups", "depthwise", "pointwise"],
)
def test_gradients_are_finite_differences(case: ConvCase) -> None:
    own, _ = gradients(case)
    kept, rest = case.parts()
    assert kept is not None
    point = {"x": case.x.double(), "bias": case.bias, "kept": kept.double()}
    _, mask = run(case, case.x, kept, case.bias)
    gy = torch.randn(mask.shape, generator=torch.Generator().manual_seed(case.seed)).double()

    def loss(at: dict[str, Tensor]) -> float:
        real = real_layer(case, at["x"], assembled(case, at["kept"], rest), at["bias"])
        return float((real * mask * gy).sum())

    draw = np.random.default_rng(1)
    for name, value in point.items():
        for _ in range(6):
            index = int(draw.integers(value.numel()))
            step = torch.zeros(value.numel(), dtype=torch.float64)
            step[index] = 0.5
            ahead, back = (point | {name: value + s * step.view_as(value)} for s in (1, -1))
            slope = loss(ahead) - loss(back)
            assert slope == pytest.approx(float(own[name].flatten()[index]), rel=1e-4, abs=1e-5)


def test_the_zero_point_is_in_the_weight_gradient() -> None:
    case = case_of(zeros=(-128, 0), channels=(0, 1, 2, 3))
    silent = case.x.clone().fill_(-128.0)
    kept = case.weight.clone().requires_grad_()
    y, mask = run(case, silent, kept, case.bias)
    assert mask.any()
    y.backward(torch.ones_like(y))
    assert not kept.grad.any()  # an input that is zero everywhere teaches its weights nothing


def test_the_gradient_of_a_skip_connection_adds_up() -> None:
    case = case_of(per_group=4, kernel=(1, 1), padding=(0, 0, 0, 0), stride=(1, 1))
    x = case.x.clone().requires_grad_()
    branch = run(case, x, case.parts()[0], case.bias)[0]
    gy = torch.randn(branch.shape, generator=torch.Generator().manual_seed(3))
    (alone,) = torch.autograd.grad(branch, x, gy, retain_graph=True)
    (both,) = torch.autograd.grad(branch + x, x, gy)
    torch.testing.assert_close(both, alone + gy)


@pytest.mark.parametrize("needed", ["x", "kept", "bias"])
def test_only_what_learns_has_a_gradient(needed: str) -> None:
    case = case_of()
    kept = case.parts()[0]
    leaves = {"x": case.x.clone(), "kept": kept.clone(), "bias": case.bias.clone()}
    leaves[needed].requires_grad_()
    y, _ = run(case, **leaves)
    y.sum().backward()
    assert [name for name, leaf in leaves.items() if leaf.grad is not None] == [needed]
