# SPDX-License-Identifier: Apache-2.0
"""Clamp, dequantize, linear and the loss: values by definition, gradients by PyTorch's autograd."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from trainlet.ops.clamp import clamp
from trainlet.ops.dequantize import dequantize
from trainlet.ops.linear import linear
from trainlet.ops.loss import softmax_cross_entropy
from trainlet.ops.select_channels import select_channels


@pytest.fixture
def draw() -> torch.Generator:
    return torch.Generator().manual_seed(17)


def close(got: Tensor | None, expected: Tensor | None) -> None:
    assert got is not None
    assert expected is not None
    largest = max(float(expected.abs().max()), 1e-30)
    assert float((got.double() - expected.double()).abs().max()) <= 1e-5 * largest


def integers(draw: torch.Generator, *shape: int) -> Tensor:
    return torch.randint(-128, 128, shape, generator=draw).float()


def test_clamp_passes_the_gradient_on_both_of_its_limits(draw: torch.Generator) -> None:
    x = torch.tensor([-128.0, -91.0, -90.0, 0.0, 100.0, 101.0, 127.0]).requires_grad_()
    y, mask = clamp(x, -90, 100)
    assert y.tolist() == [-90, -90, -90, 0, 100, 100, 100]
    assert mask.tolist() == [False, False, True, True, True, False, False]
    gy = torch.randn(7, generator=draw)
    y.backward(gy)
    assert x.grad.tolist() == (gy * mask).tolist()


def test_dequantize_has_its_scale_as_gradient(draw: torch.Generator) -> None:
    x = integers(draw, 2, 3, 4, 5).requires_grad_()
    y = dequantize(x, 0.0371, -17)
    close(y.detach(), (x.detach().double() + 17) * 0.0371)
    gy = torch.randn(y.shape, generator=draw)
    y.backward(gy)
    close(x.grad, gy.double() * 0.0371)


@pytest.mark.parametrize("shape", [(3, 7), (2, 3, 4, 5), (1, 6, 1, 1)])
def test_linear_is_pytorchs_on_maps_too(shape: tuple[int, ...], draw: torch.Generator) -> None:
    features = math.prod(shape[1:])
    leaves = [torch.randn(size, generator=draw) for size in (shape, (5, features), (5,))]
    ours = [leaf.clone().requires_grad_() for leaf in leaves]
    theirs = [leaf.double().requires_grad_() for leaf in leaves]
    y = linear(*ours)
    plain = torch.nn.functional.linear(theirs[0].flatten(1), theirs[1], theirs[2])
    close(y.detach(), plain.detach())
    gy = torch.randn(y.shape, generator=draw)
    y.backward(gy)
    plain.backward(gy.double())
    for own, other in zip(ours, theirs, strict=True):
        close(own.grad, other.grad)


@pytest.mark.parametrize("size", [0.1, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("batch", [1, 3])
def test_loss_is_pytorchs(size: float, batch: int, draw: torch.Generator) -> None:
    logits = torch.randn(batch, 6, generator=draw) * size
    label = torch.randint(0, 6, (batch,), generator=draw)
    own, other = logits.clone().requires_grad_(), logits.double().requires_grad_()
    loss, probabilities = softmax_cross_entropy(own, label)
    plain = torch.nn.functional.cross_entropy(other, label)
    assert float(loss.detach()) == pytest.approx(float(plain.detach()), rel=1e-6, abs=1e-30)
    close(probabilities.detach().sum(1), torch.ones(batch))
    (loss * 2.0).backward()
    (plain * 2.0).backward()
    close(own.grad, other.grad)


def test_selected_channels_come_group_after_group(draw: torch.Generator) -> None:
    x = integers(draw, 1, 6, 2, 3)
    assert torch.equal(select_channels(x, [0, 2], 2), x[:, [0, 2, 3, 5]])
    assert torch.equal(select_channels(x, [1], 1), x[:, [1]])
