"""The store behind a pooler that hands each transaction to whatever session is free."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bext_workflow.ports.store import Store
from bext_workflow.testing import SharedStoreContract
from plugins.workflow_pg.tests.case import PostgresCase
from plugins.workflow_pg.tests.databases import at, fresh_database
from plugins.workflow_pg.tests.fleet import Fleet, acknowledged, orders
from plugins.workflow_pg.tests.judge import faults, overlaps
from plugins.workflow_pg.tests.pooler import pooler

pytestmark = pytest.mark.tier("ci")


@pytest.fixture(scope="session")
def pooler_port(server: str) -> Iterator[int]:
    with pooler(urlsplit(server).port or 5432) as port:
        yield port


@pytest.fixture
async def pooled(server: str, pooler_port: int) -> AsyncIterator[str]:
    """The URL of an empty database through the pooler, which passes no `search_path` on."""
    async with fresh_database(server) as name:
        yield at(server, port=pooler_port, database=name)


class TestPooled(PostgresCase, SharedStoreContract):
    @pytest.fixture(autouse=True)
    def database(self, pooled: str) -> None:
        self.url = pooled

    async def test_hosts_look_oftener_where_nothing_can_tell_them(self, store: Store) -> None:
        """P37: sessions are not ours to listen on; `listen` ends at once."""
        await store.listen(lambda _: None)

        assert store.profile.poll_ms == 1_000


async def test_hosts_share_runs_through_the_pooler(pooled: str, tmp_path: Path) -> None:
    """P32, P35: no session is theirs, and they drive, are woken by looking, and one takes over from another."""
    fleet = Fleet(tmp_path, pooled, lease_ms=3_000)
    wanted = orders(120, work_ms=20)
    with fleet.served("--migrate") as one, fleet.served() as other:
        begun = await acknowledged([one.url, other.url], wanted)
        one.process.kill()
        fleet.died(one)
        await fleet.ended(len(wanted))

    noted = fleet.noted
    assert list(faults(begun, await fleet.found(), noted, losses=1)) == []
    assert list(overlaps(noted)) == []
    assert len({call.host for call in noted}) == 2
