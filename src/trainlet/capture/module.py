# SPDX-License-Identifier: Apache-2.0
"""Any PyTorch model with its loss becomes one list of aten operators: forward and backward.

What comes out is functional: a buffer that the model changes in place (batch norm statistics)
becomes an output, to be written back when the step succeeds.  Nothing is computed here; shapes
are those of the examples, and the model is left as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, fx, nn
from torch._functorch._aot_autograd.schemas import GraphSignature
from torch._subclasses.fake_tensor import FakeTensorMode

from trainlet.capture.joint import export_step
from trainlet.capture.paths import Seen, align_paths, operators_of
from trainlet.capture.refusals import refusal_of, refuse_lost_draws
from trainlet.capture.slots import Held, Slot, held_tensors, replaced
from trainlet.errors import TrainletError

Batch = Tensor | Sequence[Tensor] | Mapping[str, Tensor]
Loss = Callable[..., Tensor]


@dataclass(frozen=True)
class Layout:
    """What an argument of the step must look like."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, tensor: Tensor) -> Layout:
        """The layout of a tensor."""
        return cls(tuple(tensor.shape), tensor.dtype, tensor.device)

    def __str__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')}{list(self.shape)} on {self.device}"


@dataclass(frozen=True)
class CapturedModule:
    """A functional aten graph of one training step up to the gradients, and what its names mean.

    Attributes:
        model: the user's model, whose tensors the slots refer to.
        graph: the operators; its outputs are not needed, the fields below name them.
        state: placeholder -> where its tensor lies in the model.
        arguments: placeholders of the inputs, then the targets.
        layouts: what each argument must look like.
        constants: ``get_attr`` node -> tensor.
        loss: the node that is the loss.
        gradients: parameter -> node that is its gradient; a parameter without any is left out.
        parameters: parameter -> its slot, for those that have a gradient.
        updates: node that is the new value -> slot of the buffer, in order.
        paths: forward node -> module that ran it.
        training: (module path, whether it was in training mode).
    """

    model: nn.Module
    graph: fx.Graph
    state: Mapping[str, Slot]
    arguments: tuple[str, ...]
    layouts: tuple[Layout, ...]
    constants: Mapping[str, Tensor]
    loss: str
    gradients: Mapping[str, str]
    parameters: Mapping[str, Slot]
    updates: tuple[tuple[str, Slot], ...]
    paths: Mapping[str, str]
    training: tuple[tuple[str, bool], ...]

    def flatten(self, inputs: Batch, targets: Batch) -> tuple[Tensor, ...]:
        """The arguments of a step in order.

        Raises:
            TrainletError: one differs from its example in shape, type or device.
        """
        given = (*_flat(inputs, "input"), *_flat(targets, "target"))
        if len(given) != len(self.layouts):
            raise TrainletError(
                f"the step takes {len(self.layouts)} tensors, as the examples; got {len(given)}"
            )
        for index, (tensor, layout) in enumerate(zip(given, self.layouts, strict=True)):
            if Layout.of(tensor) != layout:
                raise TrainletError(
                    f"tensor {index} of the step is {Layout.of(tensor)}; the step was captured "
                    f"for {layout}: capture it anew"
                )
        return given


def capture_module(
    model: nn.Module, loss: Loss, example_inputs: Batch, example_targets: Batch = ()
) -> CapturedModule:
    """Capture ``loss(model(*inputs), *targets)`` and the gradients of what learns.

    ``example_inputs`` is a tensor, a sequence of tensors, or a mapping of keyword arguments; the
    loss may be a module with parameters and buffers of its own.

    Raises:
        TrainletError: nothing learns, or the model does what cannot be captured; it says what.
    """
    step = _Step(model, loss, example_inputs)
    arguments = (*_flat(example_inputs, "input"), *_flat(example_targets, "target"))
    layouts = tuple(map(Layout.of, arguments))
    _refuse_devices(step, layouts)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode, _explained():
        fakes = tuple(mode.from_tensor(tensor.detach()) for tensor in arguments)
        seen = step.rehearse(mode, fakes)
        module, signature = _exported(step, fakes)
    _refuse_mutations(signature, step, len(_flat(example_inputs, "input")))
    refuse_lost_draws(seen, module.graph)
    return _captured(step, module, signature, layouts, seen)


def _exported(step: _Step, arguments: tuple[Tensor, ...]) -> tuple[fx.GraphModule, GraphSignature]:
    """Export; where several parameters get the very same gradient, once more by way of views.

    The exporter names gradients by node, so each parameter needs one of its own.
    """
    try:
        return export_step(step, arguments)
    except AssertionError as error:
        if "gradients_to_parameters" not in str(error):
            raise
    step.views = True
    return export_step(step, arguments)


@contextmanager
def _explained() -> Iterator[None]:
    """Whatever goes wrong within becomes one line that says which construct is at fault."""
    try:
        yield
    except TrainletError:
        raise
    except Exception as error:
        raise refusal_of(error) from error


class _Step(nn.Module):
    """The model and its loss as one module with flat names, so that tied tensors appear once."""

    def __init__(self, model: nn.Module, loss: Loss, example_inputs: Batch) -> None:
        super().__init__()
        roots = [("", model)] + ([("loss", loss)] if isinstance(loss, nn.Module) else [])
        # In a tuple the modules stay out of this one's own names.
        self.hidden: tuple[nn.Module, Loss, list[tuple[str, nn.Module]]] = (model, loss, roots)
        self.keywords = tuple(example_inputs) if isinstance(example_inputs, Mapping) else None
        self.count = len(_flat(example_inputs, "input"))
        self.held: dict[str, Held] = {}
        self.views = False
        for index, held in enumerate(held_tensors(roots)):
            self._hold(f"t{index}", held, held.learns)

    def _hold(self, name: str, held: Held, learns: bool) -> None:
        self.held[name] = held
        if learns:
            self.register_parameter(name, nn.Parameter(held.tensor.detach()))
        else:
            self.register_buffer(name, held.tensor.detach())

    @property
    def learning(self) -> tuple[str, ...]:
        """Names of the tensors that get a gradient."""
        return tuple(self._parameters)

    def rehearse(self, mode: FakeTensorMode, arguments: tuple[Tensor, ...]) -> Seen:
        """Run once on shapes: note who runs what, and let what gets no gradient learn nothing."""
        if not self.learning:
            raise TrainletError("nothing learns: no parameter of the model requires a gradient")
        fakes = {name: mode.from_tensor(tensor) for name, tensor in self._tensors().items()}
        found: list[Tensor] = []
        model = self.hidden[0]
        seen = operators_of(model, lambda: found.append(self.run(fakes, arguments)))
        _refuse_loss(found[0])
        learning = self.learning
        gradients = torch.autograd.grad(found[0], [fakes[n] for n in learning], allow_unused=True)
        for name, gradient in zip(learning, gradients, strict=True):
            if gradient is None:
                del self._parameters[name]
                self._hold(name, self.held[name], learns=False)
        return seen

    def forward(self, *arguments: Tensor) -> tuple[Tensor]:
        """The loss of the model on the arguments."""
        return (self.run(self._tensors(), arguments),)

    def run(self, tensors: Mapping[str, Tensor], arguments: tuple[Tensor, ...]) -> Tensor:
        """The loss with other tensors in the model's slots."""
        model, loss, roots = self.hidden
        inputs, targets = arguments[: self.count], arguments[self.count :]
        with replaced(roots, list(self.held.values()), [tensors[name] for name in self.held]):
            if self.keywords is None:
                result = model(*inputs)
            else:
                result = model(**dict(zip(self.keywords, inputs, strict=True)))
            value = loss(result, *targets)
        if not isinstance(value, Tensor):
            raise TrainletError(f"the loss is a {type(value).__name__}; it must be one number")
        return value

    def _tensors(self) -> dict[str, Tensor]:
        tables: dict[str, Any] = {**self._parameters, **self._buffers}
        tensors: dict[str, Tensor] = {name: tables[name] for name in self.held}
        if self.views:
            tensors |= {name: tensors[name].view_as(tensors[name]) for name in self.learning}
        return tensors


def _captured(
    step: _Step,
    module: fx.GraphModule,
    signature: GraphSignature,
    layouts: tuple[Layout, ...],
    seen: Seen,
) -> CapturedModule:
    outputs = [node.name for node in cast(tuple[fx.Node, ...], module.graph.output_node().args[0])]
    learning = list(signature.parameters)
    changed = len(outputs) - 1 - len(learning)
    buffers = list(signature.buffers_to_mutate.items())
    placeholders = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    slots = {name: held.slots[0] for name, held in step.held.items()}
    attributes = [node for node in module.graph.nodes if node.op == "get_attr"]
    return CapturedModule(
        model=step.hidden[0],
        graph=module.graph,
        state={node: slots[name] for node, name in placeholders.items()},
        arguments=tuple(signature.user_inputs),
        layouts=layouts,
        constants={node.name: getattr(module, str(node.target)) for node in attributes},
        loss=outputs[changed],
        gradients={
            slots[name].name: node
            for name, node in zip(learning, outputs[changed + 1 :], strict=True)
        },
        parameters={slots[name].name: slots[name] for name in learning},
        updates=tuple((node, slots[name]) for node, name in buffers),
        paths=align_paths(seen, module.graph),
        training=tuple((path, m.training) for path, m in step.hidden[0].named_modules()),
    )


def _flat(batch: Batch, what: str) -> tuple[Tensor, ...]:
    if isinstance(batch, Tensor):
        return (batch,)
    items = tuple(batch.values()) if isinstance(batch, Mapping) else tuple(batch)
    for index, item in enumerate(items):
        if not isinstance(item, Tensor):
            raise TrainletError(
                f"{what} {index} is a {type(item).__name__}; give tensors, and bind everything "
                "else in the model or the loss"
            )
    return items


def _refuse_loss(loss: Tensor) -> None:
    if loss.numel() != 1:
        raise TrainletError(f"the loss has shape {list(loss.shape)}; it must be one number")
    if not loss.requires_grad:
        raise TrainletError("nothing learns: the loss depends on no parameter that learns")


def _refuse_devices(step: _Step, layouts: Sequence[Layout]) -> None:
    """A step lives on one device, the CPU: the other's memory is not what a plan counts."""
    names = {held.name: held.tensor.device for held in step.held.values()}
    names |= {f"tensor {index} of the examples": one.device for index, one in enumerate(layouts)}
    for name, device in names.items():
        if device.type != "cpu":
            raise TrainletError(f"'{name}' is on {device}; the PyTorch runner plans CPU memory")


def _refuse_mutations(signature: GraphSignature, step: _Step, inputs: int) -> None:
    changed = list(signature.user_inputs_to_mutate.values())
    if changed:
        index = list(signature.user_inputs).index(changed[0])
        what = f"input {index}" if index < inputs else f"target {index - inputs}"
        raise TrainletError(
            f"the model cannot be captured: it changes its {what} in place; let it work on a copy"
        )
    for name in signature.parameters_to_mutate.values():
        raise TrainletError(
            f"the model cannot be captured: its forward changes the parameter "
            f"'{step.held[name].name}' in place; make it a buffer"
        )
