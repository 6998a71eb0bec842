"""Hosts over PostgreSQL in the process of the test, with plugins made of functions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bext_workflow.errors import StoreUnavailable
from bext_workflow.host.clock import SystemChance, SystemClock
from bext_workflow.host.host import Host, HostSettings
from bext_workflow.model.access import person
from bext_workflow.model.json import Json
from bext_workflow.model.view import EventView, RunView
from bext_workflow.plugin.registry import Registry
from bext_workflow.ports.store import Store
from bext_workflow.service.catalog import Catalog
from bext_workflow.service.engine import Engine, StoreEngine
from bext_workflow.service.protocols import StartRequest
from bext_workflow.service.service import Service
from bext_workflow_pg.store.store import PostgresStore
from tests.unit.host.support import Recorder, within

SETTINGS = HostSettings(poll_ms=100, lease_ms=60_000, drain_timeout_ms=0)
_PAUSE_S = 0.02


class Desk:
    """The service over a store, with or without a host in this process."""

    def __init__(self, store: Store, served: Registry, engine: Engine | None = None) -> None:
        self.store = store
        clock = SystemClock()
        self.service = Service(
            store=store,
            engine=engine or StoreEngine(store, clock),
            catalog=Catalog(served),
            clock=clock,
            chance=SystemChance(),
            context_bytes=100_000,
            who=lambda: person("ann"),
        )

    async def start(self, workflow: str = "order", *, key: str, **context: Json) -> str:
        """The id of the run; a start that was not acknowledged is sent again with its key."""
        request = StartRequest(workflow=workflow, context=context, key=key)
        async with within():
            while True:
                try:
                    return (await self.service.start(request)).run.run_id
                except StoreUnavailable:
                    await asyncio.sleep(_PAUSE_S)

    async def ended(self, run_id: str) -> RunView:
        """The run, once it has ended."""
        async with within():
            while (run := await self.service.get(run_id)).ended_at is None:  # noqa: ASYNC110 — it may be anybody's
                await asyncio.sleep(_PAUSE_S)
        return run

    async def journal(self, run_id: str) -> list[EventView]:
        return list((await self.service.events(run_id, limit=500)).items)


class Hosted(Desk):
    """A host that drives, and the service over it."""

    def __init__(self, host: Host, store: Store, served: Registry, telemetry: Recorder) -> None:
        super().__init__(store, served, host)
        self.host = host
        self.telemetry = telemetry

    async def until_green(self) -> None:
        """Waits until the host is ready for work."""
        async with within():
            while not self.host.readiness().ready:  # noqa: ASYNC110
                await asyncio.sleep(_PAUSE_S)

    async def until_red(self, reason: str = "") -> None:
        """Waits until it is not, and says these words about it."""
        async with within():
            while not any(reason in one for one in self.host.readiness().reasons):  # noqa: ASYNC110
                await asyncio.sleep(_PAUSE_S)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)
    await store.open(migrate=True)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def hosting(url: str, served: Registry, settings: HostSettings = SETTINGS) -> AsyncIterator[Hosted]:
    """A host over the store of `url`. At the end it drains, with no time for what runs then."""
    telemetry = Recorder()
    async with opened(url) as store:
        host = Host(
            store=store,
            registry=served,
            settings=settings,
            clock=SystemClock(),
            chance=SystemChance(),
            telemetry=telemetry,
        )
        async with host.running():
            yield Hosted(host, store, served, telemetry)
