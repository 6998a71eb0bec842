"""`App`: the command line's view of everything."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, redirect_stdout
from pathlib import Path

from bext_workflow.app.parts import Parts, assemble, load
from bext_workflow.app.reach import reach
from bext_workflow.checks import check_live, examine, make_report, store_findings
from bext_workflow.config import effective, load_config
from bext_workflow.errors import BextError
from bext_workflow.faces.cli.scaffold import scaffold
from bext_workflow.model.definition import read_definition
from bext_workflow.model.json import JsonObject
from bext_workflow.ports.hosting import Schema
from bext_workflow.service.wiring import Finding, Reached, Report, ServeOptions, StoreState, StoreStatus, Target


class App:
    """Implements `service.wiring.Wiring`."""

    def reach(self, target: Target) -> AbstractAsyncContextManager[Reached]:
        return reach(target)

    async def check(self, target: Target, *, strict: bool) -> Report:
        with redirect_stdout(sys.stderr):  # as in `load`
            examined = examine(target.config)
        further: list[Finding] = []
        config, registry = examined.config, examined.registry
        if config is not None and registry is not None and not registry.left_out:
            try:
                further = await _live_findings(assemble(config, registry))
            except BextError as error:
                further = list(store_findings(config.shown_store, error))
        return make_report(examined, strict=strict, further=further)

    def config(self, target: Target) -> JsonObject:
        return effective(load_config(target.config))

    async def store_status(self, target: Target) -> StoreStatus:
        parts = load(target.config, degraded=True)
        return _status(parts, await parts.store.schema())

    async def migrate_store(self, target: Target) -> StoreStatus:
        parts = load(target.config, degraded=True)
        await parts.store.open(migrate=True)
        await parts.store.close()
        return _status(parts, await parts.store.schema())

    async def serve(self, target: Target, options: ServeOptions) -> None:
        # The HTTP stack is what costs most to import, and only this command needs it.
        from bext_workflow.app.serve import serve

        await serve(target, options)

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
    """What the live runs say about what would be served. A store that is not there yet has none."""
    if _is_to_be_made(parts.config.store):
        return []
    await parts.store.open(migrate=False)
    try:
        return await _compare(parts)
    finally:
        await parts.store.close()


def _is_to_be_made(store: str) -> bool:
    file = Path(store.removeprefix("sqlite:"))
    return store.startswith("sqlite:") and not file.exists() and file.parent.is_dir()


async def _compare(parts: Parts) -> list[Finding]:
    live = await parts.store.live_digests()
    kept: dict[tuple[str, int, str], JsonObject] = {}
    for workflow, number, digest, _ in live:
        body = await parts.store.definition(workflow, number, digest)
        if body is not None:
            kept[workflow, number, digest] = read_definition(body).graph()
    served = {key: one.definition for key, one in parts.registry.served.items()}
    return list(check_live(live, served, kept))
