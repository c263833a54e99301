# SPDX-License-Identifier: Apache-2.0
"""The measured peak: bytes of all tensors alive, seen through PyTorch's dispatcher.

Every operator's results are noted when it returns, every block when PyTorch gives it up.  Blocks
are counted as the CPU allocator hands them out, in multiples of 64 bytes.  What a kernel
allocates and frees inside one call is not seen (see ``resident`` for the whole process).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ALLOCATOR_GRANULE = 64


class LiveBytes(TorchDispatchMode):
    """While the mode is on, ``live`` and ``peak`` are bytes; ``tensors`` are there before."""

    def __init__(self, tensors: Iterable[Tensor] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # PyTorch's base is not annotated
        self.live = 0
        self.peak = 0
        self._blocks: dict[int, weakref.ref[Any]] = {}
        for tensor in tensors:
            self.note(tensor)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self.note(leaf)
        return result

    def note(self, tensor: Tensor) -> None:
        """Count the block behind a tensor, once."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._blocks:
            return
        size = -(-storage.nbytes() // ALLOCATOR_GRANULE) * ALLOCATOR_GRANULE
        self._blocks[key] = weakref.ref(storage, lambda _: self._forget(key, size))
        self.live += size
        self.peak = max(self.peak, self.live)

    def _forget(self, key: int, size: int) -> None:
        del self._blocks[key]
        self.live -= size
