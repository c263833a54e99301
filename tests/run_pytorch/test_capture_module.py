# SPDX-License-Identifier: Apache-2.0
"""What a model may do and still be captured, and what is refused by name."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from random_plans import random_plan
from torch import Tensor, nn
from training_cases import Case

from trainlet.capture.module import capture_module
from trainlet.errors import TrainletError
from trainlet.run.pytorch import PlannedStep, Trainer

OUTSIDE = torch.tensor([1.0, 2.0, 3.0])


class Base(nn.Module):
    """Two linear layers, a buffer, a plain tensor, and a body that each test gives."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
        self.register_buffer("mean", torch.zeros(3))
        self.plain = torch.tensor([0.5, 1.0, 2.0])
        self.body: Callable[..., Tensor] = lambda s, x: s.a(x)

    def forward(self, x: Tensor, *more: Tensor) -> Tensor:
        return self.body(self, x, *more)


def _case(body: Callable[..., Tensor]) -> Case:
    model = Base()
    model.body = body
    return Case(model, torch.randn(4, 3), torch.randn(4, 3), loss=nn.MSELoss())


def _moving_average(s: Base, x: Tensor) -> Tensor:
    y: Tensor = s.a(x)
    s.mean.mul_(0.9).add_(0.1 * y.detach().mean(0))  # type: ignore[operator]
    return y - s.mean  # type: ignore[operator]


def _in_place(s: Base, x: Tensor) -> Tensor:
    y: Tensor = s.a(x).clone()
    y[:, 0] = 0
    y.add_(1).relu_()
    return s.b(y)  # type: ignore[no-any-return]


def _views(s: Base, x: Tensor) -> Tensor:
    left, right = s.a(x).t().split((1, 2))
    whole = torch.cat([right, left]).t().contiguous()
    return whole.expand(2, -1, -1).sum(0).view(3, 4).reshape(4, 3)[::1]


def _shared_gradient(s: Base, x: Tensor) -> Tensor:
    return x * (s.a.bias + s.b.bias)  # one tensor is the gradient of both


def _constants(s: Base, x: Tensor) -> Tensor:
    y: Tensor = s.a(x) * s.plain + OUTSIDE + torch.tensor([3.0, 4.0, 5.0])
    return y


def _numbers(s: Base, x: Tensor) -> Tensor:
    y: Tensor = s.a(x) * torch.rand(3) + torch.randn_like(x)
    return nn.functional.rrelu(y, training=True)


GOOD = [_moving_average, _in_place, _views, _shared_gradient, _constants, _numbers]


@pytest.mark.parametrize("body", GOOD)
def test_it_is_captured_and_equals_eager(body: Callable[..., Tensor]) -> None:
    case = _case(body)
    planned, _ = case.planned("keep-all")
    planned.assert_equals(case.eager)


def test_tied_and_frozen_parameters() -> None:
    model = Base()
    model.b.weight = model.a.weight
    model.b.bias.requires_grad_(False)
    model.body = lambda s, x: s.b(torch.tanh(s.a(x)))
    case = Case(model, torch.randn(4, 3), torch.randn(4, 3), loss=nn.MSELoss())
    assert list(case.trainer.captured.gradients) == ["a.weight", "a.bias"]
    planned, _ = case.planned("keep-all")
    planned.assert_equals(case.eager)


def test_a_loss_with_tensors_of_its_own_and_keyword_inputs() -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 5)

        def forward(self, *, left: Tensor, right: Tensor) -> Tensor:
            y: Tensor = self.linear(left * right)
            return y

    model = Pair()
    inputs = {"left": torch.randn(4, 3), "right": torch.randn(4, 3)}
    loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]))
    target = torch.tensor([0, 4, 2, 1])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = PlannedStep(Trainer(model, loss, optimizer, inputs, target))
    value = step.backward(inputs, target)
    mine = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    expected = loss(model(**inputs), target)
    expected.backward()
    assert torch.equal(value, expected)
    for gradient, parameter in zip(mine, model.parameters(), strict=True):
        assert torch.equal(gradient, parameter.grad)  # type: ignore[arg-type]
    step.backward(inputs, target)  # adds to what is there, as autograd does
    for gradient, parameter in zip(mine, model.parameters(), strict=True):
        assert torch.equal(2 * gradient, parameter.grad)  # type: ignore[arg-type]


class Recurrent(nn.Module):
    """A recurrent network; the states of its last layer are the result."""

    def __init__(self, kind: type[nn.RNNBase], dropout: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cells = kind(3, 4, num_layers=2, batch_first=True, dropout=dropout)

    def forward(self, x: Tensor) -> Tensor:
        states: Tensor = self.cells(x)[0]
        return states


STATES = torch.randn(2, 3, 3), torch.randn(2, 3, 4)


def test_a_recurrent_network() -> None:
    case = Case(Recurrent(nn.GRU, 0.0), *STATES, loss=nn.MSELoss())
    for plan in ("keep-all", random_plan(case.trainer.problem, 1, drop=0.1, page=0)):
        planned, _ = case.planned(plan)
        planned.assert_equals(case.eager)


def test_bfloat16_and_channels_last() -> None:
    """The kernels keep less, and lie otherwise, than the tracer says."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3))
    model = model.to(torch.bfloat16, memory_format=torch.channels_last)  # type: ignore[call-overload]
    x, y = torch.randn(2, 3, 8, 8), torch.randn(2, 4, 4, 4)
    case = Case(model, x.bfloat16(), y.bfloat16(), loss=nn.MSELoss())
    for plan in ("keep-all", random_plan(case.trainer.problem, 1, drop=0.1, page=0)):
        planned, _ = case.planned(plan)
        planned.assert_equals(case.eager)


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
def test_a_draw_that_the_tracer_loses_is_refused(kind: type[nn.RNNBase]) -> None:
    with pytest.raises(TrainletError, match=r"1 random operators \(in 'cells'\), .* keeps 0"):
        capture_module(Recurrent(kind, 0.3), nn.MSELoss(), *STATES)


def test_an_operator_that_hides_its_bytes_is_refused() -> None:
    """And the same network by way of plain operators is not."""
    with pytest.raises(TrainletError, match=r"mkldnn_rnn_layer.* does not tell the bytes"):
        Case(Recurrent(nn.LSTM, 0.0), *STATES, loss=nn.MSELoss())
    with torch.backends.mkldnn.flags(enabled=False):
        case = Case(Recurrent(nn.LSTM, 0.0), *STATES, loss=nn.MSELoss())
        planned, _ = case.planned("keep-all")
        planned.assert_equals(case.eager)


def _branches(s: Base, x: Tensor) -> Tensor:
    y: Tensor = s.a(x)
    return y if y.sum() > 0 else -y


def _selects(s: Base, x: Tensor) -> Tensor:
    y: Tensor = s.a(x)
    return y[x > 0]


def _assigns(s: Base, x: Tensor) -> Tensor:
    s.mean = s.mean * 0.9
    return s.a(x)  # type: ignore[no-any-return]


def _remembers(s: Base, x: Tensor) -> Tensor:
    s.last = s.a(x)
    return s.last


def _spoils_input(s: Base, x: Tensor) -> Tensor:
    return s.a(x.mul_(2))  # type: ignore[no-any-return]


def _spoils_parameter(s: Base, x: Tensor) -> Tensor:
    with torch.no_grad():
        s.a.weight.mul_(0.5)
    return s.a(x)  # type: ignore[no-any-return]


def _leaves_torch(s: Base, x: Tensor) -> Tensor:
    return s.a(torch.from_numpy(x.numpy()))  # type: ignore[no-any-return]


BAD = {
    _branches: r"test_capture_module\.py:[0-9]+ `return y if y\.sum\(\) > 0 else -y`: Python needs",
    _selects: "the size of what aten.nonzero.default makes depends on the data",
    _assigns: "its forward assigns a tensor to 'mean'",
    _remembers: "its forward assigns a tensor to 'last'",
    _spoils_input: "it changes its input 0 in place",
    _spoils_parameter: "changes a parameter in place",
    _leaves_torch: r"`return s\.a\(torch\.from_numpy\(x\.numpy\(\)\)\).*`: ",
}


@pytest.mark.parametrize("body", BAD)
def test_it_is_refused_by_name_and_left_as_it_was(body: Callable[..., Tensor]) -> None:
    model = Base()
    model.body = body
    before = {name: (id(t), t.clone()) for name, t in model.state_dict(keep_vars=True).items()}
    attributes = set(vars(model))
    with pytest.raises(TrainletError, match=BAD[body]) as caught:
        capture_module(model, nn.MSELoss(), torch.randn(4, 3), torch.randn(4, 3))
    assert "\n" not in str(caught.value)
    assert set(vars(model)) == attributes
    for name, tensor in model.state_dict(keep_vars=True).items():
        assert id(tensor) == before[name][0]
        assert torch.equal(tensor, before[name][1])


def test_an_operator_that_mutates_is_refused_by_name() -> None:
    @torch.library.custom_op("trainlet_test::double_in_place", mutates_args=("x",))
    def double_in_place(x: Tensor) -> None:
        x.mul_(2)

    def body(s: Base, x: Tensor) -> Tensor:
        y = x.clone()
        double_in_place(y)
        return s.a(y)  # type: ignore[no-any-return]

    with pytest.raises(TrainletError, match="double_in_place"):
        _case(body)


def test_what_cannot_learn_is_refused() -> None:
    inputs, targets = torch.randn(4, 3), torch.randn(4, 3)
    model = Base()
    with pytest.raises(TrainletError, match="it must be one number"):
        capture_module(model, lambda y, t: y - t, inputs, targets)
    with pytest.raises(TrainletError, match="the loss is a float"):
        capture_module(model, lambda y, t: 3.0, inputs, targets)  # type: ignore[arg-type,return-value]
    with pytest.raises(TrainletError, match="depends on no parameter"):
        capture_module(model, lambda y, t: (y.detach() - t).sum(), inputs, targets)
    with pytest.raises(TrainletError, match="input 1 is a int"):
        capture_module(model, nn.MSELoss(), (inputs, 3), targets)  # type: ignore[arg-type]
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    with pytest.raises(TrainletError, match="no parameter of the model requires a gradient"):
        capture_module(model, nn.MSELoss(), inputs, targets)


def test_an_optimizer_that_evaluates_again_is_refused() -> None:
    model = Base()
    optimizer = torch.optim.LBFGS(model.parameters())
    with pytest.raises(TrainletError, match="LBFGS evaluates the model several times"):
        Trainer(model, nn.MSELoss(), optimizer, torch.randn(4, 3), torch.randn(4, 3))
