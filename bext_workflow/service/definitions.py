"""Which definition a start takes, and those that the store keeps for the runs that began with them (semantics §10)."""

from __future__ import annotations

from bext_workflow.errors import Conflict, NotFound
from bext_workflow.model.definition import WorkflowDefinition, read_definition, write_definition
from bext_workflow.ports.store import Store
from bext_workflow.service.catalog import Catalog
from bext_workflow.service.engine import Engine


class Definitions:
    """Definitions by name, from the hosts and the config, and by digest, from the store."""

    def __init__(self, store: Store, catalog: Catalog, engine: Engine) -> None:
        self._store = store
        self._catalog = catalog
        self._engine = engine
        self._kept: dict[tuple[str, int, str], WorkflowDefinition] = {}

    async def to_start(self, workflow: str, version: int | None = None) -> WorkflowDefinition:
        """The version asked for, else the highest that a live host serves, else the highest in the config.

        What a live host serves is taken as it serves it: a config that is not served yet holds for nothing. Raises
        `NotFound`, or the error of the plugin that should serve it.
        """
        hosts = await self._engine.served() or ()
        live = [one for one in hosts if one[0] == workflow and version in (None, one[1])]
        if live:
            return await self.kept(*max(live, key=lambda one: one[1]))
        if version is None:
            return self._catalog.highest(workflow).definition
        served = self._catalog.served(workflow, version)
        if served is None:
            raise self._catalog.unknown(workflow, version)
        return served.definition

    async def children_of(self, definition: WorkflowDefinition) -> dict[str, tuple[int, str]]:
        """The (version, digest) of each workflow that a step of this one runs; they stay what they are for the run.

        Raises what `to_start` raises.
        """
        children: dict[str, tuple[int, str]] = {}
        for workflow in definition.sub_workflows:
            child = await self.to_start(workflow)
            await self.keep(child)
            children[workflow] = child.version, child.digest
        return children

    async def refuse_other_graph(self, workflow: str, version: int, digest: str) -> None:
        """Raises `Conflict` if that version is served with another graph only: a live run of this one forbids that."""
        served = self._catalog.served(workflow, version)
        known = set() if served is None else {served.definition.digest}
        known |= {one[2] for one in await self._engine.served() or () if one[:2] == (workflow, version)}
        if known and digest not in known:
            raise Conflict(
                f"workflow {workflow!r} version {version} is served with another graph than this run had",
                mend="start a new run instead",
            )

    async def keep(self, definition: WorkflowDefinition) -> None:
        """Sees to it that the store has the definition."""
        key = definition.id, definition.version, definition.digest
        if key not in self._kept:
            if await self._store.definition(*key, policy=definition.policy) is None:
                await self._store.save_definition(*key, definition.policy, write_definition(definition))
            self._kept[key] = definition

    async def kept(self, workflow: str, version: int, digest: str) -> WorkflowDefinition:
        """The definition that a run began with. Raises `NotFound`."""
        key = workflow, version, digest
        if key not in self._kept:
            body = await self._store.definition(*key)
            if body is None:
                raise NotFound(f"the store does not know the definition {digest} of {workflow!r} version {version}")
            self._kept[key] = read_definition(body)
        return self._kept[key]
