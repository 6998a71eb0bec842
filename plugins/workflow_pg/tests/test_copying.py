"""A store moves to another one (ADR 0016): all of it, while nobody drives, and what was under way goes on there."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from bext_workflow import StepOutcome, WorkflowError, WorkflowRun
from bext_workflow.errors import Conflict, StoreBusy
from bext_workflow.model.status import Action, WorkflowStatus
from bext_workflow.model.wait import ApprovalDefinition, WaitDefinition
from bext_workflow.plugin.registry import Registry
from bext_workflow.ports.audit import AuditEntry
from bext_workflow.ports.copying import KEPT, Copyable, Page, Value
from bext_workflow.ports.store import HostRow, RunFilter, Store
from bext_workflow.ports.tokens import TokenRow
from bext_workflow.ports.webhooks import DeliveryFilter, WebhookRow
from bext_workflow.service import wait_tokens
from bext_workflow.service.copying import copy_store
from bext_workflow.service.protocols import CancelRequest, ResolveRequest, SignalRequest
from bext_workflow.stores import SqliteStore
from bext_workflow.testing.contract.base import started
from bext_workflow_pg.store.store import PostgresStore
from plugins.workflow_pg.tests.databases import ask, run_sql
from plugins.workflow_pg.tests.hosted import Desk, Hosted, hosting, opened
from tests.integration.host import support
from tests.unit.host.support import within

OF_THE_PLACE = {"hosts", "numbers", "schema_version", "journal.id"}
"""Who drives here, which numbers were given out, which schema this is: none of it goes over."""


async def run_step(run: WorkflowRun, step_name: str) -> StepOutcome:
    """`context.wants` says what comes of the first step."""
    if step_name == "tell":
        return StepOutcome.Continue({"told": True})
    match run.context["wants"]:
        case "signal":
            return StepOutcome.Wait(signal="go", for_ms=3_600_000)
        case "timer":
            return StepOutcome.Wait(for_ms=2_000)
        case "doubt":
            raise KeyError("money")
        case "hang":
            await asyncio.sleep(3_600)
        case "fail":
            raise WorkflowError("no")
        case _:
            pass
    return StepOutcome.Continue({"umlaut": "ä\u2028", "float": 1.0, "big": 2**63 - 1})


def served() -> Registry:
    steps = (support.step("do", idempotent=False, timeout_ms=0), "tell")
    asks = support.step("ask", wait=WaitDefinition(signal="ok", approval=ApprovalDefinition(title="Really?")))
    return support.registry(support.plugin(run_step, support.workflow(*steps), support.workflow(asks, id_="approval")))


async def sqlite(path: Path) -> SqliteStore:
    store = SqliteStore(path)
    await store.open(migrate=True)
    return store


@pytest.fixture
async def source(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await sqlite(tmp_path / "bext.db")
    yield store
    await store.close()


@pytest.fixture
async def target(url: str) -> AsyncIterator[PostgresStore]:
    async with opened(url) as store:
        yield store


WANTED = ("all", "signal", "timer", "doubt", "hang", "fail", "late signal")


async def filled(path: Path) -> dict[str, str]:
    """A file with something in every table, and the ids of its runs by what they wanted. Its host has died."""
    runs: dict[str, str] = {}
    async with support.hosting(served(), path) as here:
        for wants in WANTED:
            outcome = "signal" if wants == "late signal" else wants
            runs[wants] = await here.start(key=wants, tags={"wants": wants}, wants=outcome)
        runs["approval"] = await here.start("approval", key="approval")
        for wants in ("signal", "timer", "late signal", "approval"):
            await here.reaches(runs[wants], WorkflowStatus.WAITING)
        await here.settled(runs["doubt"])
        await here.settled(runs["all"])
        await here.settled(runs["fail"])
        await here.store.amend_schedule("nightly", lambda row: replace(row, paused=True, rule="* * * * *"), at=1)
        token = TokenRow(id="t", name="ci", digest="d", scopes=("view",), created_at=1, created_by="ann")
        entry = AuditEntry(name="token-created", by="ann", about="token:ci")
        await here.store.amend_tokens(lambda _: token, at=1, audit=entry)
        hook = WebhookRow(id="w", url="http://127.0.0.1:9/", secret="whsec_eA==", created_at=1, created_by="ann")
        await here.store.amend_webhooks(lambda _: hook, at=1, audit=entry)
        here.dies()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DELETE FROM deliveries")
        row = ("d", "w", "r", "run.completed", "{}", 1, "pending", 0, 9, 503, "x", 2)
        db.execute("INSERT INTO deliveries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    desk = support.desk(served(), path)
    async with desk as beside:
        # Nobody is there to take it: it waits in the inbox.
        await beside.service.signal(runs["late signal"], SignalRequest(name="go", payload=1, id="s-1"))
    return runs


async def contents(store: Copyable) -> dict[str, list[tuple[Value, ...]]]:
    """All rows of each table, in an order of their own."""
    found: dict[str, list[tuple[Value, ...]]] = {table: [] for table in KEPT}
    async for page in store.dump():
        found[page.table] += page.rows
    return {table: sorted(rows, key=repr) for table, rows in found.items()}


async def told(store: Store) -> list[object]:
    """Everything that the port tells."""
    rows = await store.runs(RunFilter(), limit=100)
    every: list[object] = [rows, await store.schedules(), await store.tokens(), await store.audit(limit=100)]
    every += [await store.live_digests(), await store.open_incidents(), await store.secret(wait_tokens.SIGNED_WITH)]
    every += [await store.webhooks(), await store.deliveries(DeliveryFilter(), limit=100)]
    every += [await store.incidents(limit=100), await store.approvals(limit=100)]
    for run in rows:
        every += [await store.load(run.rid), await store.events(run.rid, after=0, limit=1000)]
        every += [await store.started(f"order:{run.workflow}", run.key or "")]
        every += [await store.definition(run.workflow, run.version, run.digest)]
    return every


async def test_everything_goes_there_and_back_again(tmp_path: Path, url: str) -> None:
    """P47: each table row for row, whatever the store, and all that can be asked of it."""
    await filled(tmp_path / "bext.db")
    source, back = await sqlite(tmp_path / "bext.db"), await sqlite(tmp_path / "back.db")
    async with opened(url) as target:
        counted = await copy_store(source, target)
        before = await contents(source)
        assert await contents(target) == before
        assert await told(target) == await told(source)
        assert await copy_store(target, back) == counted
        assert await contents(back) == before
    await source.close()
    await back.close()

    assert counted == {table: len(rows) for table, rows in before.items()}
    assert all(counted.values()), f"the test leaves a table out: {counted}"


async def test_live_runs_go_on_over_there(tmp_path: Path, url: str) -> None:
    """Waits, timers, signals, incidents, approvals and start keys; what a dead host was at is in doubt there."""
    runs = await filled(tmp_path / "bext.db")
    source = await sqlite(tmp_path / "bext.db")
    async with opened(url) as target:
        await copy_store(source, target)
    await source.close()

    async with hosting(url, served()) as here:
        await here.service.signal(runs["signal"], SignalRequest(name="go", payload={"n": 1}, id="s-2"))
        await resolved(here, runs["doubt"])
        await resolved(here, runs["hang"])
        (approval,) = await here.store.approvals(limit=10)
        assert approval.run_id == runs["approval"]
        for wants in ("signal", "timer", "late signal", "doubt", "hang"):
            assert (await here.ended(runs[wants])).status is WorkflowStatus.COMPLETED, wants
        with pytest.raises(Conflict, match="all"):
            await here.start(key="all", wants="something else")
        new = await here.ended(await here.start(key="new", wants="all"))
        assert new.status is WorkflowStatus.COMPLETED
        await here.service.cancel(runs["approval"], CancelRequest(reason="moved"))
        await here.ended(runs["approval"])

    assert await ask(url, "SELECT count(DISTINCT id) = count(*) FROM audit")


async def resolved(here: Hosted, run_id: str) -> None:
    """A person answers the run's incident, once it is there."""
    async with within():
        while not (found := (await here.service.incidents(run_id=run_id)).items):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    request = ResolveRequest(action=Action.DONE, note="looked it up")
    await here.service.resolve(found[0].id, request)


async def test_a_store_that_holds_something_is_refused(source: SqliteStore, target: PostgresStore) -> None:
    await started(source)
    await target.secret("something")
    with pytest.raises(Conflict, match=r"is not empty: it has secrets"):
        await copy_store(source, target)

    await source.secret("something")
    with pytest.raises(Conflict, match=r"is not empty: it has runs"):
        await copy_store(target, source)
    assert len((await contents(source))["runs"]) == 1


@pytest.mark.parametrize("way", ["from SQLite", "to SQLite"])
@pytest.mark.parametrize("side", ["source", "target"])
async def test_a_living_host_on_either_side_is_refused(
    source: SqliteStore, target: PostgresStore, way: str, side: str
) -> None:
    stores = (source, target) if way == "from SQLite" else (target, source)
    await stores[side == "target"].join(HostRow(host_id="h", pid=7, hostname="box", started_at=1))
    with pytest.raises(Conflict, match=r"h \(pid 7 on box\)"):
        await copy_store(*stores)
    await stores[side == "target"].leave("h")
    await copy_store(*stores)


async def test_no_host_takes_a_file_while_it_is_copied(source: SqliteStore, tmp_path: Path) -> None:
    other = await sqlite(tmp_path / "bext.db")
    pages = source.dump()
    await started(source)
    await anext(pages)
    with pytest.raises(StoreBusy):
        await other.join(HostRow(host_id="h", pid=7, hostname="box", started_at=1))
    await pages.aclose()
    await other.join(HostRow(host_id="h", pid=7, hostname="box", started_at=1))
    await other.close()


@pytest.mark.parametrize("to", ["SQLite", "PostgreSQL"])
async def test_a_copy_that_breaks_off_leaves_nothing(source: SqliteStore, target: PostgresStore, to: str) -> None:
    """All or nothing, and so it can be done again."""
    await started(source)

    async def broken() -> AsyncGenerator[Page, None]:
        async for page in source.dump():
            yield page
            raise RuntimeError("pulled the plug")

    into: Copyable = target if to == "PostgreSQL" else SqliteStore(None)
    if isinstance(into, SqliteStore):
        await into.open(migrate=True)
    with pytest.raises(RuntimeError, match="pulled the plug"):
        await into.fill(broken())
    assert not any((await contents(into)).values())
    await into.fill(source.dump())
    assert len((await contents(into))["runs"]) == 1
    if isinstance(into, SqliteStore):
        await into.close()


async def test_numbers_go_on_behind_those_that_were_given_out(source: SqliteStore, target: PostgresStore) -> None:
    for number in range(1, 4):
        await started(source, number)
    await copy_store(source, target)
    back = SqliteStore(None)
    await back.open(migrate=True)
    await copy_store(target, back)
    last = max(run.rid for run in await source.runs(RunFilter(), limit=10))

    assert [(await started(store, 4)).rid for store in (source, target, back)] == [last + 1] * 3
    await back.close()


async def test_every_table_and_column_goes_over(source: SqliteStore, target: PostgresStore, url: str) -> None:
    """So that a new one is not forgotten: what is not kept is said by name."""
    del target
    columns = await source._read(
        lambda db: db.execute(
            "SELECT m.name, c.name FROM sqlite_master AS m, pragma_table_info(m.name) AS c WHERE m.type = 'table'"
        ).fetchall()
    )
    in_file = {f"{table}.{column}" for table, column in columns if table not in OF_THE_PLACE}
    kept = {f"{table}.{column}" for table, names in KEPT.items() for column in names}
    assert in_file - OF_THE_PLACE == kept

    listed = await ask(
        url,
        "SELECT array_agg(table_name || '.' || column_name) FROM information_schema.columns"
        " WHERE table_schema = current_schema()",
    )
    assert isinstance(listed, list)
    in_database = {name for name in listed if name.partition(".")[0] not in OF_THE_PLACE}
    assert in_database == kept


async def test_a_plugins_own_tables_stay_where_they_are(source: SqliteStore, target: PostgresStore, url: str) -> None:
    await run_sql(url, "CREATE TABLE payments (key text); INSERT INTO payments VALUES ('one')")
    await copy_store(target, source)
    desk = Desk(source, served())
    assert (await desk.service.incidents()).items == []
