# SPDX-License-Identifier: Apache-2.0
"""Networks from files: what a file is, is told by its content."""

from trainlet.importers.load import load_network
from trainlet.importers.records import BlockRecord, ConvRecord, NetworkRecord
from trainlet.importers.tiny_training import import_tiny_training
from trainlet.importers.tiny_training_records import read_tiny_training

__all__ = [
    "BlockRecord",
    "ConvRecord",
    "NetworkRecord",
    "import_tiny_training",
    "load_network",
    "read_tiny_training",
]
