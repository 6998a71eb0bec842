"""Whether the sub-workflows that steps name are there, and whether they lead back to where they came from."""

from __future__ import annotations

from collections.abc import Iterator

from bext_workflow.checks.codes import finding
from bext_workflow.plugin.registry import Registry
from bext_workflow.service.wiring import Finding


def check_children(registry: Registry) -> Iterator[Finding]:
    """Steps that are runs of workflows that nobody serves, and cycles."""
    for (workflow, version), served in registry.served.items():
        where = f"{workflow}@{version}"
        for step in served.definition.steps:
            if step.workflow is not None and registry.highest(step.workflow) is None:
                yield finding("child-unserved", f"{where}, step {step.name}", f"nothing serves {step.workflow!r}")
        path = _way_back(registry, workflow, served.definition.sub_workflows)
        if path:
            yield finding("child-cycle", where, f"it runs {' runs '.join(repr(name) for name in path)}")


def _way_back(registry: Registry, workflow: str, children: tuple[str, ...]) -> list[str]:
    """The shortest path by which the workflow runs itself; none if it does not."""
    paths, seen = [[child] for child in children], set(children)
    for path in paths:
        if path[-1] == workflow:
            return path
        served = registry.highest(path[-1])
        for child in () if served is None else served.definition.sub_workflows:
            if child == workflow or child not in seen:
                seen.add(child)
                paths.append([*path, child])
    return []
