"""A host in this process that reaches its database through a proxy, and a desk beside it that reaches it straight."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

from msgspec.structs import replace

from bext_workflow.errors import StoreUnavailable
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.service.protocols import RunQuery, SignalRequest
from plugins.workflow_pg.tests.databases import at, fresh_database, run_sql
from plugins.workflow_pg.tests.errand import Errand
from plugins.workflow_pg.tests.hosted import SETTINGS, Desk, Hosted, hosting, opened
from plugins.workflow_pg.tests.proxy import Cut, Proxy, proxied
from tests.unit.host.support import within

_PAUSE_S = 0.02


class Wired:
    """A host that reaches its database through a proxy, and a desk that reaches it straight."""

    def __init__(self, hosted: Hosted, desk: Desk, proxy: Proxy, errand: Errand, database: str) -> None:
        self.hosted = hosted
        self.database = database
        self.desk = desk
        self.proxy = proxy
        self.errand = errand
        self._runs = 0

    async def drive(self, scene: str, cut: Cut | None = None) -> tuple[tuple[str, ...], list[str]]:
        """A run from its start to its end, and what came of it: its journal, and the calls that were made."""
        self._runs += 1
        key = f"order-{self._runs}"
        self.proxy.count(cut)
        match scene:
            case "started here":
                run_id = await self.hosted.start("errand", key=key)
            case "started elsewhere":
                run_id = await self.desk.start("errand", key=key)
            case "rolled back":
                run_id = await self.hosted.start("errand", key=key, fails=True)
            case _:
                run_id = await self.hosted.start("question", key=key)
                await self.signalled(run_id)
        await self.desk.ended(run_id)
        kinds = tuple(event.kind for event in await self.desk.journal(run_id))
        # Whether it was begun here or claimed depends on who was reached first.
        return tuple(kind for kind in kinds if kind != "run_started"), self.errand.made[run_id]

    async def signalled(self, run_id: str) -> None:
        """Sends the signal until it is acknowledged, as one that has an id may be."""
        await until(lambda: self._waits(run_id))
        request = SignalRequest(name="go", payload=1, id="s-1")
        await until(lambda: answered(self.hosted.service.signal(run_id, request)))

    async def looked(self, times: int) -> None:
        """Waits until the host has looked so often for what is due."""
        before = self.proxy.exchanges["next_wake"]
        async with within():
            while self.proxy.exchanges["next_wake"] < before + times:  # noqa: ASYNC110 — the proxy counts
                await asyncio.sleep(_PAUSE_S)

    async def until_runs(self, count: int) -> None:
        """Waits until there are so many runs."""

        async def there() -> bool:
            return len((await self.desk.service.list(RunQuery())).items) == count

        await until(there)

    async def _waits(self, run_id: str) -> bool:
        return (await self.desk.service.get(run_id)).status is WorkflowStatus.WAITING


async def answered(call: Awaitable[object]) -> bool:
    try:
        await call
    except StoreUnavailable:
        return False
    return True


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with within():
        while not await condition():  # noqa: ASYNC110 — it is about another process
            await asyncio.sleep(_PAUSE_S)


@asynccontextmanager
async def guest(server: str, url: str, user: str) -> AsyncIterator[None]:
    """A user who may do what hosts do in that database, and no more."""
    await run_sql(server, f"CREATE ROLE {user} LOGIN")
    try:
        await run_sql(url, f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {user}")
        yield
    finally:
        await run_sql(url, f"DROP OWNED BY {user}")
        await run_sql(server, f"DROP ROLE {user}")


@asynccontextmanager
async def wired(server: str, *, poll_ms: int = 100, user: str | None = None) -> AsyncIterator[Wired]:
    errand = Errand()
    settings = replace(SETTINGS, poll_ms=poll_ms)
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(fresh_database(server))
        proxy = await stack.enter_async_context(proxied(urlsplit(server).port or 5432))
        straight_url = at(server, database=database)
        straight = await stack.enter_async_context(opened(straight_url))
        if user is not None:
            await stack.enter_async_context(guest(server, straight_url, user))
        through = at(server, port=proxy.port, database=database, user=user)
        hosted = await stack.enter_async_context(hosting(through, errand.served, settings))
        yield Wired(hosted, Desk(straight, errand.served), proxy, errand, database)
