"""Tables that many make at once (P41)."""

from __future__ import annotations

import asyncio

from bext_workflow_pg.store.store import PostgresStore
from plugins.workflow_pg.tests.databases import ask

AT_ONCE = 8


async def test_many_that_migrate_an_empty_schema_at_once_all_come_up(url: str) -> None:
    """P41: one of them makes the tables, once; none is told that they are there already."""
    stores = [PostgresStore(url) for _ in range(AT_ONCE)]

    await asyncio.gather(*(store.open(migrate=True) for store in stores))

    for store in stores:
        assert list(await store.hosts()) == []
        await store.close()
    assert await ask(url, "SELECT count(*) FROM schema_version") == 1
