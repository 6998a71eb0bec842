"""What a database does to its clients: silence, locks, no room, refusals. The host lives on, and so does its lease."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from urllib.parse import urlsplit

import asyncpg
import pytest

from bext_workflow.model.status import WorkflowStatus
from bext_workflow_pg.store import connections
from plugins.workflow_pg.tests.databases import at, fresh_database, fresh_schema, run_sql
from plugins.workflow_pg.tests.errand import Errand
from plugins.workflow_pg.tests.hosted import Hosted, hosting
from plugins.workflow_pg.tests.pooler import pooler
from plugins.workflow_pg.tests.wired import Wired, wired

pytestmark = [pytest.mark.tier("ci"), pytest.mark.timeout(400)]

LONGEST_POLL_MS = 60_000
PAUSE_S = 0.02


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is waited for is over sooner than with a database of a real network."""
    for name, seconds in (("CONNECT_S", 1.0), ("ACQUIRE_S", 2.0), ("COMMAND_S", 2.0)):
        monkeypatch.setattr(connections, name, seconds)


async def start_many(hosted: Hosted, count: int, prefix: str = "many") -> list[str]:
    """Starts runs at once; returns once all are acknowledged."""
    async with asyncio.TaskGroup() as tasks:
        starting = [tasks.create_task(hosted.start("errand", key=f"{prefix}-{n}")) for n in range(count)]
    return [one.result() for one in starting]


async def all_done(here: Wired, begun: Iterable[str]) -> None:
    """The runs end as without trouble, and nothing was called twice."""
    for run_id in begun:
        assert (await here.desk.ended(run_id)).status is WorkflowStatus.COMPLETED
        kinds = [event.kind for event in await here.desk.journal(run_id)]
        assert [kind for kind in kinds if kind != "run_started"] == [
            "run_created",
            "step_completed",
            "step_completed",
            "run_completed",
        ]
    assert here.errand.repeated() == {}


@pytest.mark.usefixtures("impatient")
async def test_a_database_that_is_silent_is_found_out(local_server: str) -> None:
    """P38: half-open connections; what was held up reaches the database later, when nobody waits for it any more."""
    async with wired(local_server) as here, asyncio.TaskGroup() as tasks:
        for number in range(3):
            starting = tasks.create_task(start_many(here.hosted, 40, f"round-{number}"))
            await asyncio.sleep(PAUSE_S)
            here.proxy.flowing.clear()
            await here.hosted.until_red()
            here.proxy.flowing.set()
            await here.hosted.until_green()
            await all_done(here, await starting)


async def test_a_slow_way_is_no_trouble(local_server: str) -> None:
    """P38: 30 ms for each exchange; nobody is red, and everything ends."""
    async with wired(local_server) as here:
        here.proxy.delay_s = 0.03
        await all_done(here, await start_many(here.hosted, 40))
        assert here.hosted.host.readiness().ready


async def test_all_connections_are_cut_again_and_again(local_server: str) -> None:
    """P6, P38: failover, as a client sees it."""
    async with wired(local_server) as here, asyncio.TaskGroup() as tasks:
        starting = tasks.create_task(start_many(here.hosted, 200))
        for _ in range(20):
            await asyncio.sleep(PAUSE_S)
            here.proxy.cut_all()
        await all_done(here, await starting)
        await here.hosted.until_green()


@pytest.mark.usefixtures("impatient")
async def test_a_lock_that_lasts_ends_at_the_statement_time_out(local_server: str) -> None:
    """P38: the host says so, tries again, and goes on when it is gone."""
    async with wired(local_server) as here, asyncio.TaskGroup() as tasks:
        await all_done(here, await start_many(here.hosted, 1, "first"))
        locking = await asyncpg.connect(at(local_server, database=here.database))
        await locking.execute("BEGIN; LOCK TABLE runs IN EXCLUSIVE MODE")
        starting = tasks.create_task(start_many(here.hosted, 20))
        await here.hosted.until_red("took too long")
        await locking.execute("ROLLBACK")
        await locking.close()
        await here.hosted.until_green()
        await all_done(here, await starting)


async def test_too_many_connections(local_server: str) -> None:
    """P38: the server takes none of ours for a while; the host says so, and is back by itself."""
    async with wired(local_server, user="bounded") as here, asyncio.TaskGroup() as tasks:
        await run_sql(local_server, "ALTER ROLE bounded CONNECTION LIMIT 0")
        here.proxy.cut_all()
        starting = tasks.create_task(start_many(here.hosted, 20))
        await here.hosted.until_red("takes no more connections")
        await run_sql(local_server, "ALTER ROLE bounded CONNECTION LIMIT -1")
        await here.hosted.until_green()
        await all_done(here, await starting)


async def test_a_pool_of_one_connection(local_server: str) -> None:
    """P38: nothing in the host holds one while it waits for another."""
    errand = Errand()
    with pooler(urlsplit(local_server).port or 5432, size=1) as port:
        async with (
            fresh_database(local_server) as name,
            hosting(at(local_server, port=port, database=name), errand.served) as hosted,
        ):
            for run_id in await start_many(hosted, 100):
                assert (await hosted.ended(run_id)).status is WorkflowStatus.COMPLETED
    assert errand.repeated() == {}


async def test_the_listening_connection_is_lost(local_server: str) -> None:
    """P37: what is written until it is there again is found at once, long before the next poll."""
    async with wired(local_server, poll_ms=LONGEST_POLL_MS) as here:
        await here.drive("started elsewhere")
        here.proxy.refuses = True
        await run_sql(local_server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
        run_id = await here.desk.start("errand", key="untold")
        here.proxy.refuses = False
        assert (await here.desk.ended(run_id)).status is WorkflowStatus.COMPLETED


async def test_a_result_that_the_database_refuses_fails_alone(local_server: str) -> None:
    """P7: the attempt has an unknown end, so its run is rolled back; the others of the batch go on."""
    errand = Errand()
    async with fresh_schema(local_server) as url, hosting(url, errand.served) as hosted:
        await run_sql(url, 'ALTER TABLE journal ADD CONSTRAINT decent CHECK (data NOT LIKE \'%"ship":"rude"%\')')
        async with asyncio.TaskGroup() as tasks:
            fine = tasks.create_task(start_many(hosted, 50))
            rude = tasks.create_task(hosted.start("errand", key="rude", text="rude"))
        assert {(await hosted.ended(run_id)).status for run_id in fine.result()} == {WorkflowStatus.COMPLETED}
        run = await hosted.ended(rude.result())

    assert run.status is WorkflowStatus.COMPENSATED
    assert run.failure is not None
    assert 'violates check constraint "decent"' in run.failure
    assert "rude" not in run.failure
    assert errand.made[run.run_id] == ["pack", "ship", "undo of pack"]
