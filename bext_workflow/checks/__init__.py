"""What can be known before serving: config, plugins, graphs, undo, policies, and live runs against versions."""

from __future__ import annotations

from bext_workflow.checks.codes import CODES, Code
from bext_workflow.checks.examine import (
    Examined,
    access_findings,
    examine,
    make_report,
    store_findings,
    transaction_findings,
)
from bext_workflow.checks.plan import plan_versions
from bext_workflow.checks.versions import check_live

__all__ = [
    "CODES",
    "Code",
    "Examined",
    "access_findings",
    "check_live",
    "examine",
    "make_report",
    "plan_versions",
    "store_findings",
    "transaction_findings",
]
