"""`App`: the command line's view of everything."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, redirect_stdout
from pathlib import Path

import anyio

from bext_workflow.app.doctor import diagnose
from bext_workflow.app.parts import Parts, assemble, isolate, load, open_store, os_user
from bext_workflow.app.reach import reach
from bext_workflow.checks import (
    access_findings,
    check_live,
    examine,
    make_report,
    plan_versions,
    store_findings,
    transaction_findings,
)
from bext_workflow.config import effective, load_config, shown_store
from bext_workflow.errors import BextError
from bext_workflow.faces.cli.scaffold import scaffold
from bext_workflow.host.clock import SystemClock
from bext_workflow.model.definition import WorkflowDefinition, read_definition
from bext_workflow.model.json import JsonObject
from bext_workflow.ports.clock import Clock
from bext_workflow.ports.hosting import Schema
from bext_workflow.service.copying import copy_store
from bext_workflow.service.health import Diagnosis
from bext_workflow.service.proof import Proof, ProofOptions
from bext_workflow.service.retention import prune_store
from bext_workflow.service.wiring import (
    Finding,
    Prover,
    Reached,
    Report,
    ServeOptions,
    StoreBackup,
    StoreCopy,
    StorePruned,
    StoreState,
    StoreStatus,
    Target,
    VersionPlan,
)


class App:
    """Implements `service.wiring.Wiring`. The clock is this machine's; only the test kit hands in another.

    `prover` is the test kit's, which stands above the app.
    """

    def __init__(self, prover: Prover, clock: Clock | None = None) -> None:
        self._prover = prover
        self._clock = clock or SystemClock()

    def reach(self, target: Target) -> AbstractAsyncContextManager[Reached]:
        return reach(target, self._clock)

    async def check(self, target: Target, *, strict: bool) -> Report:
        with redirect_stdout(sys.stderr):  # as in `load`
            examined = examine(target.config, isolate)
        further: list[Finding] = []
        config, registry = examined.config, examined.registry
        if config is not None and registry is not None and not registry.left_out:
            try:
                parts = assemble(config, registry, self._clock)
                further += transaction_findings(registry, parts.store)
                further += await _live_findings(parts)
                further += access_findings(config.address, guarded=await _is_guarded(parts))
            except BextError as error:
                further += store_findings(config.shown_store, error)
        return make_report(examined, strict=strict, further=further)

    async def plan(self, target: Target) -> Sequence[VersionPlan]:
        parts = load(target.config, degraded=False, clock=self._clock)
        live, kept = await _remembered(parts)
        return plan_versions(live, _served(parts), kept)

    async def prove(self, target: Target, workflow: str, version: int | None, options: ProofOptions) -> Proof:
        return await self._prover(target, workflow, version, options)

    def config(self, target: Target) -> JsonObject:
        return effective(load_config(target.config))

    async def store_status(self, target: Target) -> StoreStatus:
        parts = load(target.config, degraded=True, clock=self._clock)
        return _status(parts, await parts.store.schema())

    async def migrate_store(self, target: Target) -> StoreStatus:
        parts = load(target.config, degraded=True, clock=self._clock)
        await parts.store.open(migrate=True)
        await parts.store.close()
        return _status(parts, await parts.store.schema())

    async def copy_store(self, target: Target, to: str) -> StoreCopy:
        parts = load(target.config, degraded=True, clock=self._clock)
        new = open_store(to, parts.config, parts.registry)
        async with AsyncExitStack() as stack:
            for store, migrate in ((parts.store, False), (new, True)):
                await store.open(migrate=migrate)
                stack.push_async_callback(store.close)
            rows = await copy_store(parts.store, new)
        return StoreCopy(store=parts.config.shown_store, to=shown_store(to), rows=dict(rows))

    async def prune_store(self, target: Target, *, dry_run: bool) -> StorePruned:
        parts = load(target.config, degraded=True, clock=self._clock)
        async with _opened(parts):
            pruned = await prune_store(parts.store, parts.retention(), self._clock, by=os_user(), dry_run=dry_run)
        runs = {status.value: count for status, count in pruned.runs.items()}
        return StorePruned(store=parts.config.shown_store, dry_run=dry_run, runs=runs, start_keys=pruned.start_keys)

    async def back_up_store(self, target: Target, to: Path) -> StoreBackup:
        parts = load(target.config, degraded=True, clock=self._clock)
        async with _opened(parts):
            await parts.store.backup(to)
        size = (await anyio.Path(to).stat()).st_size
        return StoreBackup(store=parts.config.shown_store, to=str(to), bytes=size)

    async def diagnose(self, target: Target) -> Diagnosis:
        return await diagnose(target.config, self._clock)

    def openapi(self) -> JsonObject:
        from bext_workflow.app.openapi import describe_api

        return describe_api()

    async def serve(self, target: Target, options: ServeOptions) -> None:
        # The HTTP stack is what costs most to import, and only this command needs it.
        from bext_workflow.app.serve import serve

        await serve(target, options, self._clock)

    def scaffold(self, folder: Path) -> Sequence[Path]:
        return scaffold(folder)


def _status(parts: Parts, schema: Schema) -> StoreStatus:
    state = StoreState.EMPTY
    if schema.found:
        state = StoreState.OLDER if schema.found < schema.spoken else StoreState.NEWER
    if schema.found == schema.spoken:
        state = StoreState.READY
    return StoreStatus(store=parts.config.shown_store, schema=schema.found, spoken=schema.spoken, state=state)


async def _live_findings(parts: Parts) -> list[Finding]:
    """What the live runs say about what would be served."""
    live, kept = await _remembered(parts)
    return list(check_live(live, _served(parts), kept))


async def _is_guarded(parts: Parts) -> bool:
    """Whether there ever was an access token."""
    if _is_to_be_made(parts.config.store):
        return False
    async with _opened(parts):
        return bool(await parts.store.tokens())


def _served(parts: Parts) -> dict[tuple[str, int], WorkflowDefinition]:
    return {key: one.definition for key, one in parts.registry.served.items()}


async def _remembered(
    parts: Parts,
) -> tuple[Sequence[tuple[str, int, str, int]], dict[tuple[str, int, str], WorkflowDefinition]]:
    """The live runs by graph, and the definitions of these and of what is served, as far as the store has them.

    A store that is not there yet has none.
    """
    if _is_to_be_made(parts.config.store):
        return [], {}
    async with _opened(parts):
        live = await parts.store.live_digests()
        wanted = {(workflow, version, digest) for workflow, version, digest, _ in live}
        wanted |= {(id_, version, one.digest) for (id_, version), one in _served(parts).items()}
        kept: dict[tuple[str, int, str], WorkflowDefinition] = {}
        for key in wanted:
            body = await parts.store.definition(*key)
            if body is not None:
                kept[key] = read_definition(body)
        return live, kept


@asynccontextmanager
async def _opened(parts: Parts) -> AsyncIterator[None]:
    """The store is open while the block runs. Raises `NotMigrated`."""
    await parts.store.open(migrate=False)
    try:
        yield
    finally:
        await parts.store.close()


def _is_to_be_made(store: str) -> bool:
    file = Path(store.removeprefix("sqlite:"))
    return store.startswith("sqlite:") and not file.exists() and file.parent.is_dir()
