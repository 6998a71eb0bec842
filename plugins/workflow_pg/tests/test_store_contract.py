"""The PostgreSQL store keeps the port's contract, over each version of the server that is to be had."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bext_workflow.testing import TellingStoreContract
from plugins.workflow_pg.tests.case import PostgresCase
from plugins.workflow_pg.tests.databases import fresh_schema


class TestPostgres(PostgresCase, TellingStoreContract):
    @pytest.fixture(autouse=True)
    async def schema(self, each_server: str) -> AsyncIterator[None]:
        async with fresh_schema(each_server) as self.url:
            yield
