# SPDX-License-Identifier: Apache-2.0
"""A network, a scheme and a device in; a checked program and its C library out."""

from trainlet.build.analysis import (
    DEFAULT_STACK_BYTES,
    Analysis,
    PeakValue,
    analyze_program,
    step_timeline,
)
from trainlet.build.compile import (
    FIRMWARE,
    Compiled,
    Settings,
    compile_network,
    linked_figures,
    read_manifest,
    require_empty,
)
from trainlet.build.fit import (
    MisfitError,
    fitting_schemes,
    flash_excess,
    misfit,
    require_fit,
    sram_excess,
)
from trainlet.build.program import build_program

__all__ = [
    "DEFAULT_STACK_BYTES",
    "FIRMWARE",
    "Analysis",
    "Compiled",
    "MisfitError",
    "PeakValue",
    "Settings",
    "analyze_program",
    "build_program",
    "compile_network",
    "fitting_schemes",
    "flash_excess",
    "linked_figures",
    "misfit",
    "read_manifest",
    "require_empty",
    "require_fit",
    "sram_excess",
    "step_timeline",
]
