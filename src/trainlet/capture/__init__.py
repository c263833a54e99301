# SPDX-License-Identifier: Apache-2.0
"""A PyTorch network in, the graph of its training step out."""

from trainlet.capture.step import CapturedStep, Tensors, capture_step

__all__ = ["CapturedStep", "Tensors", "capture_step"]
