from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bext_workflow.plugin.hookspecs import HostInfo
from bext_workflow_pg.checkout import CheckoutPlugin
from plugins.workflow_pg.tests.databases import fresh_schema
from plugins.workflow_pg.tests.server import any_server


@pytest.fixture
def host(tmp_path: Path) -> HostInfo:
    return HostInfo(data_dir=tmp_path, store=f"sqlite:{tmp_path / 'bext.db'}")


@pytest.fixture
async def plugin(host: HostInfo) -> AsyncIterator[CheckoutPlugin]:
    """A plugin of its own, as between start and stop of a host, with its ledger in memory."""
    plugin = CheckoutPlugin()
    plugin.configure({"ledger": ":memory:"}, host)
    async with plugin.lifespan():
        yield plugin


@pytest.fixture
def location(tmp_path: Path) -> str:
    return str(tmp_path / "ledger.db")


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The URL of a PostgreSQL database."""
    with any_server() as url:
        yield url


@pytest.fixture
async def url(server: str) -> AsyncIterator[str]:
    """The URL of an empty schema of its own."""
    async with fresh_schema(server) as url:
        yield url
