# SPDX-License-Identifier: Apache-2.0
"""Data and training loops: labelled images in, learning on a machine out."""

from trainlet.learn.images import LabelledImages, load_images, split_names, to_int8
from trainlet.learn.on_device import accuracy, train, visiting_order

__all__ = [
    "LabelledImages",
    "accuracy",
    "load_images",
    "split_names",
    "to_int8",
    "train",
    "visiting_order",
]
