"""The PostgreSQL store keeps the port's contract, over each version of the server that is to be had."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bext_workflow.ports.store import Store
from bext_workflow.testing import SharedStoreContract
from bext_workflow_pg.store.store import PostgresStore
from plugins.workflow_pg.tests.databases import fresh_schema, run_sql


class TestPostgres(SharedStoreContract):
    @pytest.fixture(autouse=True)
    async def schema(self, each_server: str) -> AsyncIterator[None]:
        async with fresh_schema(each_server) as self.url:
            yield

    async def open_store(self) -> Store:
        store = PostgresStore(self.url)
        await store.open(migrate=True)
        return store

    async def crash(self, store: Store) -> Store:
        """The process is gone, and the time of its lease has passed."""
        await store.close()
        await run_sql(self.url, "UPDATE hosts SET expires_at = 0")
        return await self.open_store()
