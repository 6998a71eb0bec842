"""The embedded store keeps the port's contract, in a file and in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bext_workflow.ports.store import Store
from bext_workflow.stores import SqliteStore
from bext_workflow.testing import StoreContract


class TestSqliteFile(StoreContract):
    @pytest.fixture(autouse=True)
    def file(self, tmp_path: Path) -> None:
        self.path = tmp_path / "bext.db"

    async def open_store(self) -> Store:
        store = SqliteStore(self.path)
        await store.open(migrate=True)
        return store


class TestSqliteMemory(StoreContract):
    """One process, one store: every handle is the same one, and a crash is a host that did not leave."""

    @pytest.fixture(autouse=True)
    async def memory(self) -> AsyncIterator[None]:
        self.only = SqliteStore(None)
        await self.only.open(migrate=True)
        yield
        await self.only.close()

    async def open_store(self) -> Store:
        return self.only

    async def crash(self, store: Store) -> Store:
        return store
