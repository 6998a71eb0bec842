"""What the embedded store says and does when SQLite fails (P39, P40, P7)."""

from __future__ import annotations

import asyncio
import errno
import sqlite3
from collections.abc import Callable
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from bext_workflow.errors import StoreUnavailable
from bext_workflow.ports.store import Append, Committed, Create, Refused, RunFilter
from bext_workflow.stores import SqliteStore
from bext_workflow.stores.sqlite.faults import unavailable
from bext_workflow.testing.contract.base import committed, creation, following, judged, row, started
from tests.unit.sqlite_support import inside, opened, pragma, process

POST_MANY = """
async def main():
    await store.open(migrate=True)
    say("ready")
    heard()
    for _ in range(50):
        await store.post(run_id(0), judged(), at=1_100)
    await store.close()

asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bext.db"


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    file = tmp_path / "notes.txt"
    file.write_text("This is not a database, but it is long enough to be one. " * 20)
    return file


def heavy(number: int, size: int = 20_000) -> Create:
    return replace(creation(number), events=(("run_created", b'{"text":"%s"}' % (b"x" * size)),))


async def fill(store: SqliteStore) -> list[str]:
    """Writes until nothing more fits; returns the ids of what was acknowledged."""
    pages = await pragma(store, "page_count")
    await pragma(store, f"max_page_count = {pages}")
    acknowledged: list[str] = []
    for number in range(1_000, 2_000):
        create = heavy(number, 2_000)
        try:
            await committed(store, create)
        except StoreUnavailable:
            return acknowledged
        acknowledged.append(create.run_id)
    raise AssertionError("the disk is not full")


async def test_full_disk_loses_nothing_and_work_goes_on_when_there_is_space(path: Path) -> None:
    """P39"""
    async with opened(path) as store:
        run = await started(store)
        acknowledged = await fill(store)
        batch: list[Create | Append] = [following(run), heavy(2), creation(3)]
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match=r"bext\.db is unavailable: the disk is full.*goes on by itself"):
                await store.write(batch)
        assert {one.run_id for one in await store.runs(RunFilter(), limit=2_000)} == {run.run_id, *acknowledged}
        assert await row(store, run.rid) == run

        await pragma(store, "max_page_count = 100000")
        results = await store.write(batch)

    assert [type(result) for result in results] == [Committed] * 3
    async with opened(path) as store:
        listed = {one.run_id for one in await store.runs(RunFilter(), limit=2_000)}
        assert listed >= {run.run_id, *acknowledged}
        assert len(listed) == len(acknowledged) + 3


async def test_disk_that_fills_up_while_members_are_judged_one_by_one_judges_none(path: Path) -> None:
    """P39: a refused member makes the batch go one by one; that it is full is still nobody's fault."""
    async with opened(path) as store:
        run = await started(store)
        await fill(store)

        with pytest.raises(StoreUnavailable, match="the disk is full"):
            await store.write([replace(following(run), fence=9), *(heavy(number) for number in range(2, 9))])

        await pragma(store, "max_page_count = 100000")
        assert await row(store, run.rid) == run
        assert [type(one) for one in await store.write([following(run)])] == [Committed]


async def test_database_that_cannot_be_written_names_the_cause_and_recovers(path: Path) -> None:
    """P39"""
    async with opened(path) as store:
        await pragma(store, "query_only = ON")
        for call in (store.ping(), store.write([creation()]), store.save_definition("w", 1, "d", "p", b"{}")):
            with pytest.raises(StoreUnavailable, match="it is read-only") as caught:
                await call
            assert "writable" in caught.value.mend

        await pragma(store, "query_only = OFF")
        await store.ping()
        await started(store)


async def test_database_that_another_process_keeps_locked(path: Path) -> None:
    """P40: above the time-out it is said plainly, and it is over when the lock is."""
    async with opened(path) as store:
        await pragma(store, "busy_timeout = 20")
        with closing(sqlite3.connect(path, isolation_level=None)) as rude:
            rude.execute("BEGIN IMMEDIATE")
            for call in (store.ping(), store.write([creation()])):
                with pytest.raises(StoreUnavailable, match="another process keeps it locked"):
                    await call
            rude.execute("ROLLBACK")

        await started(store)


async def test_processes_that_write_at_once_never_meet_a_locked_database(path: Path) -> None:
    """P40: post reads first and writes then, which a deferred transaction would not survive."""
    async with opened(path) as store, AsyncExitStack() as stack:
        run = await started(store, 0)
        posters = [await stack.enter_async_context(process(path, POST_MANY)) for _ in range(3)]
        for poster in posters:
            assert await poster.says() == "ready"
        for poster in posters:
            await poster.tell()

        ends = asyncio.gather(*(poster.ends() for poster in posters))
        number = 1
        while not ends.done():
            await committed(store, creation(number))
            await store.post(run.run_id, judged(), at=1_100)
            number += 1

        assert await ends == [0, 0, 0]
        acts = (await store.load(run.rid)).inbox
        assert [act.n for act in acts] == list(range(1, 150 + number))


async def test_member_that_is_too_large_fails_alone(path: Path) -> None:
    """P7"""
    async with opened(path) as store:
        await inside(store, lambda connection: connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10_000))

        first, second, third = await store.write([creation(1), heavy(2), creation(3)])

        assert [type(first), type(third)] == [Committed, Committed]
        assert isinstance(second, Refused)
        assert "too" in second.reason


@pytest.mark.parametrize(
    "create",
    [
        replace(creation(2), tags={"a": "\ud800"}),
        replace(creation(2), workflow="\ud800"),
        replace(creation(2), at=2**63),
        replace(creation(2), digest=None),
        replace(creation(2), digest=object()),
    ],
    ids=["tag", "text", "number", "constraint", "type"],
)
async def test_member_that_cannot_be_kept_fails_alone(path: Path, create: Create) -> None:
    """P7"""
    async with opened(path) as store:
        first, second, third = await store.write([creation(1), create, creation(3)])

        assert [type(first), type(third)] == [Committed, Committed]
        assert isinstance(second, Refused)
        assert second.reason


async def test_act_and_audit_row_are_kept_both_or_neither(path: Path) -> None:
    """One transaction, whichever of the two fails."""
    async with opened(path) as store:
        run = await started(store)
        before = await store.load(run.rid)
        for table in ("inbox", "audit", "runs"):
            await inside(store, closing_trigger(table))
            with pytest.raises(StoreUnavailable, match=f"{table} is closed"):
                await store.post(run.run_id, judged(), at=1_100)
            await inside(store, lambda db: db.execute("DROP TRIGGER closed"))

            assert await store.load(run.rid) == before
            assert list(await store.audit(limit=9)) == []


def closing_trigger(table: str) -> Callable[[sqlite3.Connection], object]:
    """Makes the table refuse what an act writes into it."""
    what = "UPDATE" if table == "runs" else "INSERT"
    trigger = f"BEFORE {what} ON main.{table} BEGIN SELECT raise(ABORT, '{table} is closed'); END"
    return lambda connection: connection.execute(f"CREATE TEMP TRIGGER closed {trigger}")


async def test_file_of_something_else_is_refused(text_file: Path) -> None:
    with pytest.raises(StoreUnavailable, match="the file is not a SQLite database"):
        await SqliteStore(text_file).open(migrate=True)


async def test_folder_that_is_not_there(path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="it cannot be opened") as caught:
        await SqliteStore(path / "deeper" / "bext.db").open(migrate=True)
    assert "folder" in caught.value.mend


async def test_path_that_is_a_folder(path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="it cannot be opened"):
        await SqliteStore(path.parent).open(migrate=True)


@pytest.mark.parametrize(
    ("code", "cause"),
    [(errno.ENOSPC, "the disk is full"), (errno.EACCES, "access was denied"), (errno.EIO, "it does not answer")],
)
def test_systems_errors_are_told_as_sqlites_are(code: int, cause: str) -> None:
    assert cause in unavailable(OSError(code, "no"), "bext.db").message


async def test_store_that_is_not_open(path: Path) -> None:
    store = SqliteStore(path)
    with pytest.raises(StoreUnavailable, match="is closed"):
        await store.ping()
    await store.close()
