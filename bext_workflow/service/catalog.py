"""What is served, for people to read, and for starts to find."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bext_workflow.errors import BextError, NotFound
from bext_workflow.model.json import Json
from bext_workflow.model.view import PluginView, WorkflowView
from bext_workflow.plugin.registry import LeftOut, Plugin, Registry, Served


class Catalog:
    """`Workflows` over the plugins that this process has loaded."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def workflows(self) -> Sequence[WorkflowView]:
        return [_workflow_view(served) for _, served in sorted(self._registry.served.items())]

    async def plugins(self) -> Sequence[PluginView]:
        return [*map(_plugin_view, self._registry.plugins), *map(_left_out_view, self._registry.left_out)]

    def served(self, workflow: str, version: int) -> Served | None:
        return self._registry.served.get((workflow, version))

    def highest(self, workflow: str) -> Served:
        """The highest version of the workflow. Raises what `unknown` returns."""
        highest = self._registry.highest(workflow)
        if highest is None:
            raise self.unknown(workflow, None)
        return highest

    def unknown(self, workflow: str, version: int | None) -> BextError:
        """The error for a workflow, or a version of it, that is not served.

        It is that of the unusable plugin that should serve it, if there is one.
        """
        unusable = self._registry.left_out
        others = {id_ for id_, _ in self._registry.served}
        for one in unusable:
            # The workflows of a plugin to which the config gives none are its own: nobody knows them.
            if workflow in one.workflows or not (one.workflows or workflow in others):
                return one.error.with_traceback(None)  # of the last time that it was raised
        known = sorted(f"{id_}@{number}" for id_, number in self._registry.served)
        wanted = workflow if version is None else f"{workflow}@{version}"
        mend = f"there are: {', '.join(known) or 'none'}"
        if unusable:
            names = ", ".join(one.name for one in unusable)
            mend += f"; these plugins cannot be used: {names} (see `bext-host check`)"
        return NotFound(f"no workflow {wanted!r} is served", mend=mend)


def _plugin_view(plugin: Plugin) -> PluginView:
    return PluginView(
        name=plugin.name,
        distribution=plugin.distribution,
        version=plugin.version,
        isolation=plugin.isolation.value,
        hooks=sorted(plugin.hooks),
        workflows=[f"{own.id}@{own.version}" for own in plugin.definitions],
    )


def _left_out_view(one: LeftOut) -> PluginView:
    return PluginView(name=one.name, distribution="", version="", hooks=[], workflows=[], error=str(one.error))


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
