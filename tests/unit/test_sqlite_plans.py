"""What the embedded store's statements cost: they seek, and what is stored beside does not make them dearer."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from bext_workflow.errors import StoreUnavailable
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.ports.store import Member, RunFilter
from bext_workflow.stores import SqliteStore
from bext_workflow.stores.sqlite import queries
from bext_workflow.testing.contract.base import (
    SERVED,
    committed,
    creation,
    ended,
    following,
    host,
    judged,
    parked,
    row,
    run_id,
    started,
)
from tests.unit.sqlite_support import inside, opened

GROWING = ("runs", "journal", "incidents", "start_keys", "definitions", "audit", "deliveries")
FILES = (
    "acts.sql",
    "claims.sql",
    "reading.sql",
    "retention.sql",
    "schedules.sql",
    "tokens.sql",
    "verdict.sql",
    "webhooks.sql",
    "write.sql",
)
FEW, MANY = 30, 3_000

STATEMENTS = {name: statement for file in FILES for name, statement in queries.load(file).items()}


def explained(connection: sqlite3.Connection, statement: str) -> list[str]:
    names = re.findall(r":(\w+)", statement)
    values = dict.fromkeys(names) if names else [None] * statement.count("?")
    return [str(line["detail"]) for line in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]


@pytest.mark.parametrize("name", STATEMENTS)
async def test_statement_finds_its_rows_by_an_index(name: str) -> None:
    async with opened(None) as store:
        steps = await inside(store, lambda connection: explained(connection, STATEMENTS[name]))

    scans = [step for step in steps if re.match(rf"SCAN ({'|'.join(GROWING)})\b", step)]
    assert scans == (["SCAN incidents USING INDEX incidents_open"] if name == "open_incidents" else [])


async def test_claim_seeks_in_the_index_of_what_is_due_or_owned() -> None:
    async with opened(None) as store:
        steps = await inside(store, lambda connection: explained(connection, STATEMENTS["claimable"]))

    assert [step for step in steps if step.startswith("SEARCH")] == [
        "SEARCH runs USING INDEX runs_claim (owner=? AND wake_at>? AND wake_at<?)",
        "SEARCH runs USING INDEX runs_claim (owner>? AND owner<?)",
        "SEARCH runs USING INDEX runs_claim (owner>?)",
    ]


async def test_runs_that_have_ended_or_are_parked_are_not_in_the_claim_index() -> None:
    async with opened(None) as store:
        whole = "SELECT rid FROM runs INDEXED BY runs_claim"
        with pytest.raises(StoreUnavailable, match="no query solution"):
            await inside(store, lambda connection: connection.execute(whole))


async def populate(store: SqliteStore, count: int) -> None:
    """Runs that have ended, that are parked on a signal, and that wait for a far timer; ids below 1,000,000."""
    await store.join(host())
    indexes = [ended(), parked(None, WorkflowStatus.WAITING), parked(10**12)]
    for index in indexes:
        first = indexes.index(index) * count
        creates = (replace(creation(number, owner=None), index=index) for number in range(first, first + count))
        await committed(store, *creates)


async def claim(store: SqliteStore) -> None:
    assert len(await store.claim("host-a", SERVED, now=1_000, limit=500)) == 1


async def start(store: SqliteStore) -> None:
    await committed(store, replace(creation(2_000_000), key="k"))


async def end(store: SqliteStore) -> None:
    (run,) = await store.find(run_id(1_000_001))
    await store.write([following(run, index=ended())])


async def step(store: SqliteStore) -> None:
    (run,) = await store.find(run_id(1_000_001))
    await store.write([following(run)])


async def lose(store: SqliteStore) -> None:
    (run,) = await store.find(run_id(1_000_001))
    await store.write([replace(following(run), fence=9)])


async def post(store: SqliteStore) -> None:
    await store.post(run_id(1_000_001), judged(), at=1_100)


async def look(store: SqliteStore) -> None:
    await store.with_acts("host-a")
    await store.next_wake(SERVED)
    await store.hosts()


async def page(store: SqliteStore) -> None:
    await store.runs(RunFilter(), limit=10)
    await store.runs(RunFilter(statuses=(WorkflowStatus.RUNNING, WorkflowStatus.FAILED)), limit=10, before=run_id(20))
    await store.incidents(limit=10)
    await store.audit(limit=10)


async def steps_of(act: Callable[[SqliteStore], Awaitable[None]], count: int) -> int:
    """How many instructions SQLite executes for the act, with `count` runs of each kind beside."""
    async with opened(None) as store:
        await populate(store, count)
        await committed(store, creation(1_000_000, owner=None))
        await started(store, 1_000_001)
        executed = 0

        def tick() -> int:
            nonlocal executed
            executed += 1
            return 0

        await inside(store, lambda connection: connection.set_progress_handler(tick, 1))
        await act(store)
        return executed


@pytest.mark.parametrize("act", [claim, start, step, end, lose, post, look, page])
async def test_cost_does_not_grow_with_the_runs_that_have_ended_or_wait(
    act: Callable[[SqliteStore], Awaitable[None]],
) -> None:
    few, many = await steps_of(act, FEW), await steps_of(act, MANY)

    assert few > 20
    assert many < few * 1.1 + 20


async def statements_of(store: SqliteStore, act: Awaitable[object]) -> list[str]:
    seen: list[str] = []
    await inside(store, lambda connection: connection.set_trace_callback(seen.append))
    await act
    await inside(store, lambda connection: connection.set_trace_callback(None))
    return [statement.split()[0] for statement in seen]


async def test_batch_whose_members_hold_is_few_statements() -> None:
    """The whole batch at once: 128, 64 … rows a statement, and no savepoints."""
    async with opened(None) as store:
        runs = await committed(store, *(creation(number) for number in range(250)))
        batch: list[Member] = [following(run) for run in runs[:200]]
        batch += [following(run, index=ended()) for run in runs[200:]]
        batch += [creation(300), creation(301)]

        seen = await statements_of(store, store.write(batch))

    # 200 = 128 + 64 + 8 and 50 = 32 + 16 + 2 appends, 2 creates, 252 = 128 + 64 + 32 + 16 + 8 + 4 events.
    expected = ["BEGIN", "UPDATE", "SELECT", "INSERT", *["UPDATE"] * 6, *["INSERT"] * 6, "COMMIT"]
    assert seen == expected


async def test_step_leaves_the_indexed_columns_alone() -> None:
    """A step that only goes on rewrites no index of the run's row."""
    async with opened(None) as store:
        run = await started(store)
        touched: list[str] = []

        def watch(action: int, table: str | None, column: str | None, *_: object) -> int:
            if action == sqlite3.SQLITE_UPDATE and table == "runs" and column is not None:
                touched.append(column)
            return sqlite3.SQLITE_OK

        await inside(store, lambda connection: connection.set_authorizer(watch))
        await committed(store, following(run))
        assert set(touched) == {"seq", "step", "failure", "started_at", "updated_at"}

        touched.clear()
        await committed(store, following(await row(store, run.rid), index=ended()))
        assert {"status", "wake_at", "owner", "ended_at"} <= set(touched)
