"""What a workflow's graph tells before it runs: where a run can go, and whether it can end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bext_workflow.checks.codes import finding
from bext_workflow.model.definition import WorkflowDefinition
from bext_workflow.model.graph_rules import side_by_side
from bext_workflow.model.names import END
from bext_workflow.service.wiring import Finding


def check_graph(definition: WorkflowDefinition, where: str) -> Iterator[Finding]:
    """Unreachable steps, steps that no path leads out of, and loops."""
    after = {step.name: _reached(definition, step.name) for step in definition.steps}
    reachable = {definition.first} | after[definition.first]
    for step in definition.steps:
        place = f"{where}, step {step.name}"
        if step.name not in reachable:
            yield finding("step-unreachable", place, "no path from the first step leads here")
        elif END not in after[step.name]:
            yield finding("never-ends", place, "no path leads from here to the end")
    looping = [step for step in definition.steps if step.name in after[step.name] & reachable]
    if looping:
        bounds = ", ".join(f"{step.name} (max_visits {step.max_visits})" for step in looping)
        yield finding("loop", where, f"a run may come back to {bounds}")


def check_waits(definition: WorkflowDefinition, where: str) -> Iterator[Finding]:
    """Waits for one signal, side by side, whose payloads come under one key: the branches could not meet (§9)."""
    told = set[frozenset[str]]()
    for one, other in side_by_side(definition.steps):
        if one.wait is None or other.wait is None or frozenset((one.name, other.name)) in told:
            continue
        key = one.wait.into or one.wait.signal
        if one.wait.signal == other.wait.signal and key == (other.wait.into or other.wait.signal):
            told.add(frozenset((one.name, other.name)))
            waits = f"steps {one.name} and {other.name} wait side by side for {one.wait.signal!r}"
            yield finding("waits-share-key", where, f"{waits}, both into {key!r}")


def _reached(definition: WorkflowDefinition, start: str) -> set[str]:
    """Every name that one or more transitions from `start` can lead to, `end` too."""
    possible: Mapping[str, tuple[str, ...]] = {step.name: definition.successors(step.name) for step in definition.steps}
    reached: set[str] = set()
    pending = [start]
    while pending:
        fresh = [target for target in possible.get(pending.pop(), ()) if target not in reached]
        reached.update(fresh)
        pending.extend(fresh)
    return reached
