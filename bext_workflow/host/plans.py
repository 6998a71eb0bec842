"""What it takes to drive a run: the definition that it began with, and the plugin that owns its workflow."""

from __future__ import annotations

from bext_workflow.core.state import Plan
from bext_workflow.errors import DefinitionError, NotFound
from bext_workflow.model.definition import WorkflowDefinition, read_definition, write_definition
from bext_workflow.model.event import RunCreated
from bext_workflow.model.graph import graph_diff, policy_diff
from bext_workflow.model.json import JsonObject, loads
from bext_workflow.plugin.registry import Plugin, Registry, Served
from bext_workflow.ports.store import RunRow, Store
from bext_workflow.service.transactional import transaction_faults

_FORGOTTEN = "what it was is not known any more"


def plan_of(definition: WorkflowDefinition, plugin: Plugin) -> Plan:
    """The plan of a run: its definition, and which optional hooks there are."""
    return Plan(
        definition=definition,
        undoes=plugin.compensate_step is not None,
        verifies=plugin.verify_step is not None,
        notifies=plugin.on_workflow_complete is not None,
    )


class RegistryPlans:
    """Plans from what is served now; of an older graph under the same version, from what the store kept."""

    def __init__(self, registry: Registry, store: Store) -> None:
        self._registry = registry
        self._store = store
        self._plans: dict[tuple[str, int, str], Plan] = {
            (id_, version, served.definition.digest): plan_of(served.definition, served.plugin)
            for (id_, version), served in registry.served.items()
        }
        self._changes: dict[tuple[str, int, str, str], tuple[str, ...]] = {}

    def serves(self, workflow: str, version: int) -> Served:
        """What is served under that id and version. Raises `NotFound`."""
        served = self._registry.served.get((workflow, version))
        if served is None:
            raise NotFound(f"workflow {workflow!r} version {version} is not served here")
        return served

    def has(self, created: RunCreated) -> bool:
        """Whether the very definition that the run begins with is served."""
        served = self._registry.served.get((created.workflow, created.version))
        return served is not None and served.definition.digest == created.digest

    def plan_of_served(self, served: Served) -> Plan:
        """The plan of a run that begins now."""
        definition = served.definition
        return self._plans[definition.id, definition.version, definition.digest]

    async def plan_for(self, run: RunRow) -> tuple[Plan, Plugin]:
        served = self.serves(run.workflow, run.version)
        key = run.workflow, run.version, run.digest
        if key not in self._plans:
            body = await self._store.definition(*key)
            if body is None:
                raise NotFound(f"the definition {run.digest} of workflow {run.workflow!r} is not in the store")
            self._plans[key] = plan_of(read_definition(body), served.plugin)
        return self._plans[key], served.plugin

    async def policy_changes(self, definition: WorkflowDefinition, policy: str) -> tuple[str, ...]:
        """What differs now from the policy of that name, in words."""
        key = definition.id, definition.version, definition.digest
        if (*key, policy) not in self._changes:
            body = await self._store.definition(*key, policy=policy)
            told = [_FORGOTTEN] if body is None else policy_diff(read_definition(body), definition)
            self._changes[*key, policy] = tuple(told)
        return self._changes[*key, policy]

    async def keep_definitions(self) -> None:
        """Writes what is served into the store, so that it outlives the config."""
        for (id_, version), served in self._registry.served.items():
            body, own = write_definition(served.definition), served.definition
            await self._store.save_definition(id_, version, own.digest, own.policy, body)

    def refuse_without_transaction(self) -> None:
        """Raises `DefinitionError` if transactional steps are served that could not be (semantics §6)."""
        for where, reason, mend in transaction_faults(self._registry, self._store):
            raise DefinitionError(f"workflow {where}: {reason}", mend=mend)

    async def refuse_changed_graphs(self) -> None:
        """Raises `DefinitionError` if live runs began with another graph under a served id and version (P49)."""
        for workflow, version, digest, live in await self._store.live_digests():
            served = self._registry.served.get((workflow, version))
            if served is None or served.definition.digest == digest:
                continue
            body = await self._store.definition(workflow, version, digest)
            old: JsonObject = read_definition(body).graph() if body is not None else loads(b"{}")
            changes = "\n  ".join(graph_diff(old, served.definition.graph()))
            runs = "1 live run" if live == 1 else f"{live} live runs"
            raise DefinitionError(
                f"workflow {workflow!r} version {version} is not what {runs} began with:\n  {changes}",
                mend="give the new graph a new version, and keep serving the old one until its runs have ended",
            )
