"""Live runs against what would be served: a run keeps the graph that it started with (semantics §10, P49)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bext_workflow.checks.codes import finding
from bext_workflow.model.definition import WorkflowDefinition
from bext_workflow.model.graph import graph_diff
from bext_workflow.model.json import JsonObject
from bext_workflow.service.wiring import Finding


def check_live(
    live: Sequence[tuple[str, int, str, int]],
    served: Mapping[tuple[str, int], WorkflowDefinition],
    kept: Mapping[tuple[str, int, str], JsonObject],
) -> Iterator[Finding]:
    """Each (workflow, version, digest, how many) of the runs that have not ended, as `Store.live_digests` gives it.

    `kept` holds the graphs that the store remembers, by (workflow, version, digest), as far as they are known.
    """
    for workflow, version, digest, count in sorted(live):
        where = f"{workflow}@{version}"
        now = served.get((workflow, version))
        runs = "1 run is" if count == 1 else f"{count} runs are"
        if now is None:
            yield finding("live-unserved", where, f"{runs} live, and nothing here serves this version")
        elif now.digest != digest:
            before = kept.get((workflow, version, digest))
            changes = "; ".join(graph_diff(before, now.graph())) if before else "its old graph is not known"
            yield finding("live-graph-changed", where, f"{runs} live on another graph: {changes}")
