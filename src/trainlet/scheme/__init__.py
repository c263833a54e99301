# SPDX-License-Identifier: Apache-2.0
"""What learns: which biases, which weights, which share of each weight's input channels."""

from trainlet.scheme.analytic import AnalyticMemory, LayerShape, analytic_memory
from trainlet.scheme.load import load_scheme, scheme_names
from trainlet.scheme.paper import PaperScheme, paper, paper_schemes, smaller_schemes
from trainlet.scheme.resolve import LayerInfo, LayerPlan, resolve
from trainlet.scheme.scheme import (
    RATIOS,
    Scheme,
    everything,
    head_only,
    last_biases,
    ratio_text,
)
from trainlet.scheme.text import from_toml, to_toml

__all__ = [
    "RATIOS",
    "AnalyticMemory",
    "LayerInfo",
    "LayerPlan",
    "LayerShape",
    "PaperScheme",
    "Scheme",
    "analytic_memory",
    "everything",
    "from_toml",
    "head_only",
    "last_biases",
    "load_scheme",
    "paper",
    "paper_schemes",
    "ratio_text",
    "resolve",
    "scheme_names",
    "smaller_schemes",
    "to_toml",
]
