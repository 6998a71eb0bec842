"""Hosts that share a database, as processes: they are stopped, killed, and the database is taken away from them."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import asyncpg
import pytest

from bext_workflow.model.json import JsonObject
from plugins.workflow_pg.tests.databases import fresh_schema, run_sql
from plugins.workflow_pg.tests.effects import GATE
from plugins.workflow_pg.tests.fleet import PATIENCE_S, Fleet, acknowledged, orders
from plugins.workflow_pg.tests.judge import faults, overlaps
from plugins.workflow_pg.tests.server import Server, own_server
from tests.acceptance.hosts import Served

pytestmark = [pytest.mark.tier("ci"), pytest.mark.timeout(400)]

RECOVERY_S = 10
"""What a host may take to be back once its database is (P38)."""

SLOWNESS_S = 20
"""What a busy machine may take for what takes no time."""


@pytest.fixture
def crashing() -> Iterator[Server]:
    """A server that a test may stop."""
    with own_server() as server:
        yield server


@pytest.fixture
async def crashing_url(crashing: Server) -> AsyncIterator[str]:
    async with fresh_schema(crashing.url) as url:
        yield url


async def until(condition: Callable[[], bool], what: str, within_s: float = PATIENCE_S) -> None:
    """Waits for something that another process does; the tasks of the test go on."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {within_s} s for {what}")
        await asyncio.sleep(0.02)


def ready(hosts: list[Served]) -> set[int]:
    return {host.probe("/readyz") for host in hosts}


async def test_host_that_was_stopped_beyond_its_lease_changes_nothing(url: str, tmp_path: Path) -> None:
    """P32, P33: others have gone on with its runs; its late results are discarded, counted and said, and it goes on."""
    fleet = Fleet(tmp_path, url, lease_ms=3_000, poll_ms=500)
    wanted = orders(10, gate="pack")
    with fleet.served("--migrate") as stopped, fleet.served() as heir:
        begun = await acknowledged([stopped.url], wanted)
        await until(lambda: len(fleet.noted) == len(wanted), "the steps to run")
        stopped.process.send_signal(signal.SIGSTOP)
        await until(lambda: len(fleet.noted) == 2 * len(wanted), "the other host to take over")
        (fleet.folder / GATE).touch()
        await fleet.ended(len(wanted))
        before = [await fleet.ask(f"SELECT * FROM {table} ORDER BY 1, 2") for table in ("runs", "journal")]

        stopped.process.send_signal(signal.SIGCONT)
        await until(lambda: stopped.metric("bext_results_discarded_total") >= len(wanted), "late results to be counted")

        assert stopped.metric("bext_results_discarded_total") == len(wanted)
        assert heir.metric("bext_results_discarded_total") == 0
        stopped.heard("lease_lost")
        assert before == [await fleet.ask(f"SELECT * FROM {table} ORDER BY 1, 2") for table in ("runs", "journal")]
        late = await acknowledged([stopped.url], {"late": {}})
        await fleet.ended(len(wanted) + 1)

    assert list(faults(begun | late, await fleet.found(), fleet.noted, losses=1)) == []
    ends = {call.host for call in fleet.noted if call.what == "end" and call.run in begun and call.key == ":pack"}
    assert ends == {stopped.process.pid, heir.process.pid}, "both have called the plugin to the end"


async def test_one_of_three_hosts_is_killed_under_load(url: str, tmp_path: Path) -> None:
    """P3, P32, P35: all runs end right, no key is used by two hosts at once; takeover within lease + poll."""
    lease_ms, poll_ms = 4_000, 1_000
    fleet = Fleet(tmp_path, url, lease_ms=lease_ms, poll_ms=poll_ms)
    wanted = orders(1_000, work_ms=300)
    with ExitStack() as stack, fleet.served("--migrate") as victim:
        others = [stack.enter_context(fleet.served()) for _ in range(2)]
        ((host_id,),) = await fleet.ask("SELECT host_id FROM hosts WHERE pid = $1", victim.process.pid)
        starting = asyncio.create_task(acknowledged([victim.url, *(host.url for host in others)], wanted))
        await until(lambda: len(fleet.noted) >= 600, "some hundreds of calls")

        victim.process.kill()
        fleet.died(victim)
        killed_at = time.time() * 1000
        orphans = [rid for (rid,) in await fleet.ask("SELECT rid FROM runs WHERE owner = $1", host_id)]
        begun = await starting
        await fleet.ended(len(wanted))

    assert orphans
    recovered = await fleet.ask(
        "SELECT rid, min(at) FROM journal WHERE kind = 'recovered' AND rid = ANY ($1) GROUP BY rid", orphans
    )
    assert len(recovered) == len(orphans)
    assert max(at for _, at in recovered) < killed_at + lease_ms + poll_ms + SLOWNESS_S * 1000
    noted = fleet.noted
    assert list(faults(begun, await fleet.found(), noted, losses=1)) == []
    assert list(overlaps(noted)) == []


async def test_database_crashes_five_times_under_load(crashing: Server, crashing_url: str, tmp_path: Path) -> None:
    """P38: nothing acknowledged is lost, nothing is done twice; hosts say so, and are back by themselves."""
    fleet = Fleet(tmp_path, crashing_url, lease_ms=60_000, poll_ms=1_000)
    with fleet.served("--migrate") as one, fleet.served() as other:
        hosts = [one, other]
        begun: dict[str, JsonObject] = {}
        for number in range(5):
            wanted = {f"{number}-{key}": context for key, context in orders(150, work_ms=50).items()}
            calls = len(fleet.noted)
            starting = asyncio.create_task(acknowledged([one.url, other.url], wanted))
            await until(lambda: len(fleet.noted) > calls + 60, "load")  # noqa: B023 — it is over before the next round
            crashing.stop()
            await until(lambda: ready(hosts) == {503}, "both hosts to say that they wait")
            crashing.start()
            await until(lambda: ready(hosts) == {200}, "both hosts to be back", RECOVERY_S)
            begun |= await starting
        await fleet.ended(len(begun))

    noted = fleet.noted
    assert list(faults(begun, await fleet.found(), noted, losses=0)) == []
    assert list(overlaps(noted)) == []


async def test_database_is_away_for_longer_than_the_leases(crashing: Server, crashing_url: str, tmp_path: Path) -> None:
    """P33, P38: all hosts come back with new ids; what ran then is repeated at most once, and everything ends."""
    lease_ms = 3_000
    fleet = Fleet(tmp_path, crashing_url, lease_ms=lease_ms, poll_ms=500)
    wanted = orders(200, work_ms=100)
    with fleet.served("--migrate") as one, fleet.served() as other:
        starting = asyncio.create_task(acknowledged([one.url, other.url], wanted))
        await until(lambda: len(fleet.noted) > 100, "load")
        before = {host_id for (host_id,) in await fleet.ask("SELECT host_id FROM hosts")}
        crashing.stop()
        await asyncio.sleep(lease_ms / 1000 + 0.5)  # the time of the leases, on the clock of the database
        crashing.start()
        begun = await starting
        await fleet.ended(len(wanted))
        after = {host_id for (host_id,) in await fleet.ask("SELECT host_id FROM hosts")}

    assert (len(before), len(after), before & after) == (2, 2, set())
    assert list(faults(begun, await fleet.found(), fleet.noted, losses=1)) == []


async def test_three_hosts_start_at_once_on_an_empty_database(url: str, tmp_path: Path) -> None:
    """P41: with `--migrate` the tables are made once, and all three come up and work."""
    fleet = Fleet(tmp_path, url)
    with ExitStack() as stack:
        starts = [asyncio.to_thread(stack.enter_context, fleet.served("--migrate")) for _ in range(3)]
        hosts = await asyncio.gather(*starts)
        begun = await acknowledged([host.url for host in hosts], orders(60, work_ms=100))
        await fleet.ended(len(begun))

    assert [tuple(row) for row in await fleet.ask("SELECT version FROM schema_version")] == [(1,)]
    assert list(faults(begun, await fleet.found(), fleet.noted, losses=0)) == []
    assert len({call.host for call in fleet.noted}) == 3


async def test_host_refuses_a_schema_that_is_not_its_own(url: str, tmp_path: Path) -> None:
    """P41: none, and one that is newer; a word about it and no traceback."""
    fleet = Fleet(tmp_path, url)

    bare = fleet("serve", "--listen", "127.0.0.1:0")
    assert (bare.code, "db migrate" in bare.err) == (6, True), bare.err
    assert fleet("db", "migrate").code == 0
    await run_sql(url, "INSERT INTO schema_version (version) VALUES (99)")
    newer = fleet("serve", "--listen", "127.0.0.1:0", "--migrate")

    assert (newer.code, "has schema 99" in newer.err) == (6, True), newer.err
    assert "Traceback" not in bare.err + newer.err


async def test_migration_that_was_interrupted_is_made_anew(url: str, tmp_path: Path) -> None:
    """P41: whoever makes the tables is killed in the midst of it; nothing of it stays, and the next one makes them."""
    fleet = Fleet(tmp_path, url)
    blocking = await asyncpg.connect(url)
    try:
        await blocking.execute("BEGIN; CREATE TABLE inbox ()")
        with fleet.process("db", "migrate") as process:
            waits = "SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))"
            await fleet.told(waits, blocking.get_server_pid())
            process.kill()
            process.wait()
        assert await fleet.ask("SELECT FROM pg_tables WHERE schemaname = current_schema()") == []
        await blocking.execute("ROLLBACK")
        assert fleet("db", "migrate").code == 0
    finally:
        await blocking.close()

    with fleet.served() as host:
        begun = await acknowledged([host.url], orders(3))
        await fleet.ended(len(begun))
