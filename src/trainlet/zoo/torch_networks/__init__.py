# SPDX-License-Identifier: Apache-2.0
"""Float networks as ordinary PyTorch code with random weights, and the user's own by name."""

from trainlet.zoo.torch_networks.catalogue import (
    TrainingTask,
    torch_network_names,
    training_task,
)
from trainlet.zoo.torch_networks.factory import load_task

__all__ = ["TrainingTask", "load_task", "torch_network_names", "training_task"]
