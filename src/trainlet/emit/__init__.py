# SPDX-License-Identifier: Apache-2.0
"""A planned step as a C library."""

from trainlet.emit.library import Rates, check_prefix, constant_bytes, context_bytes, emit_library
from trainlet.emit.program import Planned, Program

__all__ = [
    "Planned",
    "Program",
    "Rates",
    "check_prefix",
    "constant_bytes",
    "context_bytes",
    "emit_library",
]
