"""Live runs against what would be served: a run keeps the graph that it started with (semantics §10, P49)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bext_workflow.checks.codes import finding
from bext_workflow.checks.plan import Kept, plan_versions
from bext_workflow.model.definition import WorkflowDefinition
from bext_workflow.service.wiring import Change, Finding


def check_live(
    live: Sequence[tuple[str, int, str, int]], served: Mapping[tuple[str, int], WorkflowDefinition], kept: Kept
) -> Iterator[Finding]:
    """What of a plan is a mistake, or may be one; the arguments are those of `plan_versions`."""
    for plan in plan_versions(live, served, kept):
        where = f"{plan.workflow}@{plan.version}"
        runs = "1 run is" if plan.live == 1 else f"{plan.live} runs are"
        if plan.change is Change.UNSERVED:
            yield finding("live-unserved", where, f"{runs} live, and nothing here serves this version")
        elif plan.change is Change.GRAPH:
            yield finding("live-graph-changed", where, f"{runs} live on another graph: {'; '.join(plan.lines)}")
