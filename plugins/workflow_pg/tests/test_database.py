"""The ledger's file: private, durable, recognised, and opened by many at once."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Barrier

import pytest

from bext_workflow_pg import sql
from bext_workflow_pg.database import open_database, open_for_reading
from bext_workflow_pg.errors import NotALedger, Unreachable
from bext_workflow_pg.sqlite_ledger import SqliteLedger
from plugins.workflow_pg.tests.ledgers import closed, opened
from plugins.workflow_pg.tests.snapshots import ORDER


@contextmanager
def plain_database(location: str) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(location, isolation_level=None)) as db:
        yield db


async def test_what_was_done_is_there_after_reopening(location: str) -> None:
    async with opened(location) as ledger:
        first = await ledger.reserve("key", ORDER)
    async with opened(location) as ledger:
        assert (await ledger.books()).entries == (first,)
        assert (await ledger.reserve("key", ORDER)).id == first.id


async def test_only_its_owner_can_read_the_file(location: str) -> None:
    async with opened(location) as ledger:
        await ledger.reserve("key", ORDER)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in Path(location).parent.iterdir()}

    assert modes == {"ledger.db": 0o600, "ledger.db-wal": 0o600, "ledger.db-shm": 0o600}


def test_a_commit_is_on_the_disk(location: str) -> None:
    with closing(open_database(location)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db.execute("PRAGMA synchronous").fetchone() == (2,)
        assert db.execute("PRAGMA fullfsync").fetchone() == (1,)
        assert db.execute("PRAGMA busy_timeout").fetchone() == (5000,)


async def test_many_can_open_a_new_ledger_at_once(tmp_path: Path) -> None:
    """One makes the schema and all come up."""
    count = 16
    barrier = Barrier(count)

    def open_and_count(location: str) -> int:
        barrier.wait(timeout=30)
        with closing(open_database(location)) as db:
            return len(db.execute(sql.ALL_STOCK).fetchall())

    with ThreadPoolExecutor(count) as threads:
        for attempt in range(10):
            location = str(tmp_path / f"{attempt}.db")
            assert list(threads.map(open_and_count, [location] * count)) == [4] * count


def test_opening_waits_for_another_that_is_making_the_ledger(location: str) -> None:
    """The change to WAL by itself would not wait."""
    with plain_database(location) as other, ThreadPoolExecutor(1) as thread:
        other.execute("BEGIN IMMEDIATE")
        opening = thread.submit(open_database, location)
        assert not wait([opening], timeout=0.2).done
        other.execute("ROLLBACK")
        opening.result(timeout=30).close()


async def test_a_reader_sees_the_entries_and_leaves_no_files(location: str) -> None:
    async with opened(location) as ledger:
        await ledger.reserve("key", ORDER)
        async with closed(SqliteLedger.open_for_reading(location)) as reader:
            assert await reader.books() == await ledger.books()
    async with closed(SqliteLedger.open_for_reading(location)) as reader:
        assert await reader.calls("key") == 1

    assert [path.name for path in Path(location).parent.iterdir()] == ["ledger.db"]


def test_a_reader_cannot_write(location: str) -> None:
    open_database(location).close()
    with closing(open_for_reading(location)) as db, pytest.raises(sqlite3.OperationalError, match="readonly"):
        db.execute(sql.COUNT_CALL, ("key",))


def test_a_reader_makes_no_file(location: str) -> None:
    with pytest.raises(Unreachable, match=r"ledger\.db: no such file$"):
        open_for_reading(location)

    assert not Path(location).exists()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match=r"no/ledger\.db: No such file or directory$"):
        open_database(str(tmp_path / "no" / "ledger.db"))


def test_a_folder_is_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="unable to open database file"):
        open_database(str(tmp_path))


def test_a_file_that_is_no_database(location: str) -> None:
    Path(location).write_text("not a database, but long enough to have a header" * 10, encoding="utf-8")
    with pytest.raises(NotALedger, match=r"ledger\.db: file is not a database$"):
        open_database(location)


def test_another_database_is_refused_and_not_touched(location: str) -> None:
    """As when the path of the host's own store is given."""
    with plain_database(location) as db:
        db.execute("CREATE TABLE runs (rid INTEGER PRIMARY KEY)")

    for open_it in (open_database, open_for_reading):
        with pytest.raises(NotALedger, match=r"ledger\.db: a database, but not a ledger$"):
            open_it(location)

    with plain_database(location) as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("runs",)]


def test_a_newer_ledger_is_refused(location: str) -> None:
    open_database(location).close()
    with plain_database(location) as db:
        db.execute("PRAGMA user_version = 2")

    with pytest.raises(NotALedger, match="a ledger of version 2, this program reads version 1"):
        open_database(location)


def test_a_first_opening_that_was_cut_off_is_made_good(location: str) -> None:
    """The file was made, its schema was not."""
    Path(location).touch()
    with closing(open_database(location)) as db:
        assert len(db.execute(sql.ALL_STOCK).fetchall()) == 4
