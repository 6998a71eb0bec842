"""What is served, for people to read, and for starts to find."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bext_workflow.errors import NotFound
from bext_workflow.model.json import Json
from bext_workflow.model.view import PluginView, WorkflowView
from bext_workflow.plugin.registry import Registry, Served


class Catalog:
    """`Workflows` over the plugins that this process has loaded."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def workflows(self) -> Sequence[WorkflowView]:
        return [_workflow_view(served) for _, served in sorted(self._registry.served.items())]

    async def plugins(self) -> Sequence[PluginView]:
        return [
            PluginView(
                name=plugin.name,
                distribution=plugin.distribution,
                version=plugin.version,
                hooks=sorted(plugin.hooks),
                workflows=[f"{own.id}@{own.version}" for own in plugin.definitions],
            )
            for plugin in self._registry.plugins
        ]

    def served(self, workflow: str, version: int) -> Served | None:
        return self._registry.served.get((workflow, version))

    def highest(self, workflow: str) -> Served:
        """The highest version of the workflow. Raises `NotFound`, naming what there is."""
        highest = self._registry.highest(workflow)
        if highest is None:
            raise self.unknown(workflow, None)
        return highest

    def unknown(self, workflow: str, version: int | None) -> NotFound:
        """The error for a workflow, or a version of it, that is not served."""
        known = sorted(f"{id_}@{number}" for id_, number in self._registry.served)
        wanted = workflow if version is None else f"{workflow}@{version}"
        mend = f"there are: {', '.join(known) or 'none'}"
        if self._registry.left_out:
            unusable = ", ".join(one.name for one in self._registry.left_out)
            mend += f"; these plugins cannot be used: {unusable} (see `bext-host check`)"
        return NotFound(f"no workflow {wanted!r} is served", mend=mend)


def _workflow_view(served: Served) -> WorkflowView:
    definition = served.definition
    return WorkflowView(
        id=definition.id,
        version=definition.version,
        plugin=served.plugin.name,
        digest=definition.digest,
        description=definition.description,
        timeout_ms=definition.timeout_ms,
        steps=[_whole(step) for step in definition.steps],
    )


def _whole(value: object) -> Json:
    """As JSON, with what is as the default has it: a reader wants to know what holds, not what was said."""
    if isinstance(value, msgspec.Struct):
        return {name: _whole(inner) for name, inner in msgspec.structs.asdict(value).items()}
    return msgspec.to_builtins(value)
