# SPDX-License-Identifier: Apache-2.0
"""Why a model cannot be captured, in one line that names the construct and where it stands."""

from __future__ import annotations

import contextlib
import linecache
import traceback
from pathlib import Path
from types import TracebackType

import torch
from torch import fx
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
)

import trainlet
from trainlet.capture.paths import Seen
from trainlet.errors import TrainletError

_OURS = tuple(str(Path(module.__file__ or "").parent) for module in (torch, trainlet))


def refusal_of(error: Exception) -> TrainletError:
    """The error for a person; the exception itself stays its cause."""
    return TrainletError(f"the model cannot be captured{_place(error)}: {_reason(error)}")


def refuse_lost_draws(seen: Seen, graph: fx.Graph) -> None:
    """Hold the random operators of the trace against those that the model itself runs.

    PyTorch's tracer leaves out the dropout between the layers of ``nn.LSTM`` and ``nn.GRU``.

    Raises:
        TrainletError: they differ in number, so the step would not be the model's.
    """
    own = [path for target, path in seen if _is_random(target)]
    traced = [node for node in graph.nodes if _is_random(node.target)]
    if len(own) != len(traced):
        where = ", ".join(f"'{path or 'the model'}'" for path in dict.fromkeys(own)) or "the model"
        raise TrainletError(
            f"the model cannot be captured: it runs {len(own)} random operators (in {where}), "
            f"PyTorch's tracer keeps {len(traced)}; write dropout as a module of its own"
        )


def _is_random(target: object) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())


def _reason(error: Exception) -> str:
    name = str(getattr(error, "func", ""))
    if isinstance(error, DataDependentOutputException):
        return f"Python needs a number out of a tensor there ({name}), which a plan cannot wait for"
    if isinstance(error, DynamicOutputShapeException):
        return f"the size of what {name} makes depends on the data; a plan needs fixed sizes"
    if "requires gradients, and received a mutation" in str(error):
        return "its forward changes a parameter in place; make that a buffer"
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _place(error: Exception) -> str:
    """File, line and text of the innermost line that is neither PyTorch's nor ours."""
    frame = _innermost(error.__traceback__)
    if frame is None:
        return ""
    text = linecache.getline(frame.filename, frame.lineno or 0).strip()
    return f" at {Path(frame.filename).name}:{frame.lineno}" + (f" `{text}`" if text else "")


def _innermost(trace: TracebackType | None) -> traceback.FrameSummary | None:
    aside = ("<", contextlib.__file__, *_OURS)
    frames = [f for f in traceback.extract_tb(trace) if not f.filename.startswith(aside)]
    return frames[-1] if frames else None
