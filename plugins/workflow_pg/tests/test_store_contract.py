"""The PostgreSQL store keeps the port's contract."""

from __future__ import annotations

import pytest

from bext_workflow.ports.store import Store
from bext_workflow.testing import SharedStoreContract
from bext_workflow_pg.store.store import PostgresStore
from plugins.workflow_pg.tests.databases import run_sql


class TestPostgres(SharedStoreContract):
    @pytest.fixture(autouse=True)
    def schema(self, url: str) -> None:
        self.url = url

    async def open_store(self) -> Store:
        store = PostgresStore(self.url)
        await store.open(migrate=True)
        return store

    async def crash(self, store: Store) -> Store:
        """The process is gone, and the time of its lease has passed."""
        await store.close()
        await run_sql(self.url, "UPDATE hosts SET expires_at = 0")
        return await self.open_store()
