"""The store behind a pooler that hands each transaction to whatever session is free."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bext_workflow.model.status import WorkflowStatus
from bext_workflow.ports.store import Store
from bext_workflow.service.copying import copy_store
from bext_workflow.stores import SqliteStore
from bext_workflow.testing import SharedStoreContract
from bext_workflow.testing.contract.base import started
from plugins.workflow_pg.tests.case import PostgresCase
from plugins.workflow_pg.tests.databases import ask, at, fresh_database
from plugins.workflow_pg.tests.fleet import Fleet, acknowledged, orders
from plugins.workflow_pg.tests.hosted import hosting, opened
from plugins.workflow_pg.tests.judge import faults, overlaps
from plugins.workflow_pg.tests.payments import Payments, made, payments
from plugins.workflow_pg.tests.pooler import pooler

pytestmark = pytest.mark.tier("ci")


@pytest.fixture(scope="session")
def pooler_port(local_server: str) -> Iterator[int]:
    with pooler(urlsplit(local_server).port or 5432) as port:
        yield port


@pytest.fixture
async def pooled(local_server: str, pooler_port: int) -> AsyncIterator[str]:
    """The URL of an empty database through the pooler, which passes no `search_path` on."""
    async with fresh_database(local_server) as name:
        yield at(local_server, port=pooler_port, database=name)


class TestPooled(PostgresCase, SharedStoreContract):
    @pytest.fixture(autouse=True)
    def database(self, pooled: str) -> None:
        self.url = pooled

    async def test_hosts_look_oftener_where_nothing_can_tell_them(self, store: Store) -> None:
        """P37: sessions are not ours to listen on; `listen` ends at once."""
        await store.listen(lambda _: None)

        assert store.profile.poll_ms == 1_000


async def test_a_step_acts_with_its_checkpoint_through_the_pooler(pooled: str) -> None:
    """Each attempt's bounds are set in its own transaction, whatever session that is in."""
    await made(pooled)
    pays = Payments()
    async with hosting(pooled, pays.served()) as here:
        runs = [await here.start(key=f"{number}") for number in range(20)]
        assert {(await here.ended(run_id)).status for run_id in runs} == {WorkflowStatus.COMPLETED}

    lone = "SELECT count(*) FROM payments WHERE xact NOT IN (SELECT xact FROM journal WHERE kind = 'step_completed')"
    assert (await payments(pooled), await ask(pooled, lone)) == (20, 0)


async def test_a_store_is_copied_through_the_pooler(pooled: str) -> None:
    source, target = SqliteStore(None), SqliteStore(None)
    for store in (source, target):
        await store.open(migrate=True)
    await started(source)
    async with opened(pooled) as between:
        counted = await copy_store(source, between)
        assert await copy_store(between, target) == counted
    for store in (source, target):
        await store.close()
    assert counted["runs"] == 1


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
