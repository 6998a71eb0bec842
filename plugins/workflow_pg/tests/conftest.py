from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest

from bext_workflow.plugin.hookspecs import HostInfo
from bext_workflow_pg.checkout import CheckoutPlugin
from plugins.workflow_pg.tests import programs
from plugins.workflow_pg.tests.databases import fresh_schema
from plugins.workflow_pg.tests.server import VARIABLE, any_server, own_server


@pytest.fixture
def host(tmp_path: Path) -> HostInfo:
    return HostInfo(data_dir=tmp_path, store=f"sqlite:{tmp_path / 'bext.db'}")


@pytest.fixture(params=["memory", "postgres"])
async def place(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """Where a new ledger may be: in memory, or in a schema of its own."""
    if request.param == "memory":
        yield ":memory:"
    else:
        async with fresh_schema(request.getfixturevalue("server")) as url:
            yield url


@pytest.fixture
async def plugin(host: HostInfo, place: str) -> AsyncIterator[CheckoutPlugin]:
    """A plugin of its own, as between start and stop of a host, with a new ledger."""
    plugin = CheckoutPlugin()
    plugin.configure({"ledger": place} if place == ":memory:" else {"dsn": place}, host)
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


@pytest.fixture(scope="session")
def local_server(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a database of this machine, before which a proxy may stand, with a test as its administrator."""
    if VARIABLE in os.environ:
        with own_server() as server:
            yield server.url
    else:
        yield request.getfixturevalue("server")


def _versions() -> Sequence[object]:
    """The server of `server` in every tier, the other versions that the system has in tier `ci`."""
    others = {} if VARIABLE in os.environ else programs.of_system()
    return [
        pytest.param(None, id="server"),
        *(pytest.param(bin, id=f"postgres{major}", marks=pytest.mark.tier("ci")) for major, bin in others.items()),
    ]


@pytest.fixture(scope="session", params=_versions())
def each_server(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a database, one after the other of each version that is to be had."""
    if request.param is None:
        yield request.getfixturevalue("server")
    else:
        with own_server(bin=request.param) as server:
            yield server.url


@pytest.fixture
async def url(server: str) -> AsyncIterator[str]:
    """The URL of an empty schema of its own."""
    async with fresh_schema(server) as url:
        yield url
