# SPDX-License-Identifier: Apache-2.0
"""``torch.library.custom_op`` with its function's types kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar, cast

import torch

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class TorchOp(Protocol[P, R_co]):
    """A registered operator: call it, give it a shape rule, give it a gradient."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run the operator."""

    def register_fake(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Set the shape rule."""

    def register_autograd(
        self, backward: Callable[..., Any], *, setup_context: Callable[..., None]
    ) -> None:
        """Set the gradient."""


def torch_op(name: str) -> Callable[[Callable[P, R_co]], TorchOp[P, R_co]]:
    """Register the function as ``trainlet::name``; it must not change its arguments."""

    def decorate(function: Callable[P, R_co]) -> TorchOp[P, R_co]:
        made = torch.library.custom_op(f"trainlet::{name}", mutates_args=())(function)
        return cast(TorchOp[P, R_co], made)

    return decorate
