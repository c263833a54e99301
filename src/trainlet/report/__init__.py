# SPDX-License-Identifier: Apache-2.0
"""What a step costs and how it learned, as a page for people and as data for tools."""

from trainlet.report.data import Instructions, ReportData
from trainlet.report.library import report_of_library
from trainlet.report.page import report_html, write_report
from trainlet.report.roles import (
    OperatorNote,
    ValueRole,
    graph_operators,
    graph_roles,
    operators_of,
    roles_of,
)
from trainlet.report.trace import trace_events, write_json, write_trace

__all__ = [
    "Instructions",
    "OperatorNote",
    "ReportData",
    "ValueRole",
    "graph_operators",
    "graph_roles",
    "operators_of",
    "report_html",
    "report_of_library",
    "roles_of",
    "trace_events",
    "write_json",
    "write_report",
    "write_trace",
]
