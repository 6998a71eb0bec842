"""What the contract needs to know of a PostgreSQL store."""

from __future__ import annotations

from bext_workflow.ports.store import Store
from bext_workflow.testing.contract.base import StoreCase
from bext_workflow_pg.store.store import PostgresStore
from plugins.workflow_pg.tests.databases import run_sql


class PostgresCase(StoreCase):
    """Over the database, or the schema, of `url`, which a fixture sets."""

    url: str

    async def open_store(self) -> Store:
        store = PostgresStore(self.url)
        await store.open(migrate=True)
        return store

    async def crash(self, store: Store) -> Store:
        """The process is gone, and the time of its lease has passed."""
        await store.close()
        await run_sql(self.url, "UPDATE hosts SET expires_at = 0")
        return await self.open_store()
