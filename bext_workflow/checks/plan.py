"""`plan`: what a config means for the runs that are live, before it is served (semantics §10)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bext_workflow.model.definition import WorkflowDefinition
from bext_workflow.model.graph import graph_diff, policy_diff
from bext_workflow.service.wiring import Change, VersionPlan

Kept = Mapping[tuple[str, int, str], WorkflowDefinition]
"""The definitions that the store keeps, by (workflow, version, digest), each with the policy that was in force last."""


def plan_versions(
    live: Sequence[tuple[str, int, str, int]], served: Mapping[tuple[str, int], WorkflowDefinition], kept: Kept
) -> list[VersionPlan]:
    """What becomes of each version that is served or has live runs; `live` is what `Store.live_digests` gives."""
    plans = list(_of_live(live, served, kept))
    told = {(plan.workflow, plan.version) for plan in plans}
    for (workflow, version), definition in served.items():
        if (workflow, version) not in told:
            known = kept.get((workflow, version, definition.digest))
            plans.append(_of_served(definition, known, highest=_is_highest(served, workflow, version)))
    return sorted(plans, key=lambda plan: (plan.workflow, plan.version))


def _of_live(
    live: Sequence[tuple[str, int, str, int]], served: Mapping[tuple[str, int], WorkflowDefinition], kept: Kept
) -> Iterator[VersionPlan]:
    for workflow, version, digest, count in live:
        now, before = served.get((workflow, version)), kept.get((workflow, version, digest))
        if now is None:
            lines = list(_without(served, workflow, version))
            yield VersionPlan(workflow=workflow, version=version, live=count, change=Change.UNSERVED, lines=lines)
        elif now.digest != digest:
            lines = ["its old graph is not known"] if before is None else graph_diff(before.graph(), now.graph())
            yield VersionPlan(workflow=workflow, version=version, live=count, change=Change.GRAPH, lines=lines)
        else:
            lines = [] if before is None else policy_diff(before, now)
            change = Change.POLICY if lines else Change.NONE
            yield VersionPlan(workflow=workflow, version=version, live=count, change=change, lines=lines)


def _of_served(now: WorkflowDefinition, before: WorkflowDefinition | None, *, highest: bool) -> VersionPlan:
    if before is None:
        lines = ["starts that name no version take it from now on"] if highest else []
        return VersionPlan(workflow=now.id, version=now.version, live=0, change=Change.NEW, lines=lines)
    lines = policy_diff(before, now)
    change = Change.POLICY if lines else Change.NONE
    return VersionPlan(workflow=now.id, version=now.version, live=0, change=change, lines=lines)


def _without(served: Mapping[tuple[str, int], WorkflowDefinition], workflow: str, version: int) -> Iterator[str]:
    """What it means for starts that the version is gone."""
    highest = max((number for id_, number in served if id_ == workflow), default=None)
    if highest is None:
        yield "no version of it can be started from now on"
    elif highest < version:
        yield f"starts that name no version take {highest} from now on"


def _is_highest(served: Mapping[tuple[str, int], WorkflowDefinition], workflow: str, version: int) -> bool:
    return version == max(number for id_, number in served if id_ == workflow)
