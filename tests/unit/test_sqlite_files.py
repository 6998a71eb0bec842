"""The embedded store's files and connections."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

import pytest

from bext_workflow.errors import StoreUnavailable, UsageError
from bext_workflow.stores import from_url
from bext_workflow.stores.sqlite.connection import assert_durable
from bext_workflow.testing.contract.base import host, started
from tests.unit.sqlite_support import inside, opened, pragma


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bext.db"


def mode_of(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_url_names_a_file_relative_to_the_folder_or_memory(tmp_path: Path) -> None:
    assert from_url("sqlite:bext.db", tmp_path).path == tmp_path / "bext.db"
    assert from_url("sqlite:/var/bext.db", tmp_path).path == Path("/var/bext.db")
    assert from_url("sqlite::memory:", tmp_path).path is None


@pytest.mark.parametrize("url", ["sqlite:", "sqlite", "postgresql://x", ""])
def test_url_of_something_else_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not name a SQLite store"):
        from_url(url, tmp_path)


async def test_every_file_is_for_its_owner_only(path: Path) -> None:
    before = os.umask(0o000)
    try:
        async with opened(path) as store:
            await store.join(host())
            await started(store)
            modes = {file.name: mode_of(file) for file in path.parent.iterdir()}
    finally:
        os.umask(before)

    assert modes == dict.fromkeys(["bext.db", "bext.db-wal", "bext.db-shm", "bext.db.lock"], 0o600)


async def test_commits_wait_for_the_disk(path: Path) -> None:
    """P2: synchronous is FULL and the journal is a WAL, on the connection that writes."""
    async with opened(path) as store:
        assert await pragma(store, "synchronous") == 2
        assert await pragma(store, "journal_mode") == "wal"
        assert await pragma(store, "busy_timeout") == 5_000


def test_connection_that_would_not_wait_is_noticed() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA synchronous = NORMAL")
    with pytest.raises(AssertionError, match="synchronous is 1"):
        assert_durable(connection)
    connection.close()


async def test_reading_connection_cannot_write(path: Path) -> None:
    async with opened(path) as store:
        with pytest.raises(StoreUnavailable, match="read-only"):
            await store._read(lambda connection: connection.execute("DELETE FROM runs"))


async def test_closing_leaves_one_database_file_and_no_wal(path: Path) -> None:
    async with opened(path) as store:
        await started(store)

    assert [file.name for file in path.parent.iterdir()] == ["bext.db"]


async def test_file_that_is_there_keeps_its_mode(path: Path) -> None:
    os.close(os.open(path, os.O_CREAT, 0o640))
    before = mode_of(path)
    async with opened(path):
        assert mode_of(path) == before != 0o600


async def test_old_sqlite_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 31, 1))
    with pytest.raises(StoreUnavailable, match=r"needs SQLite 3\.33"):
        async with opened(path):
            pass


async def test_text_is_kept_as_text(path: Path) -> None:
    """A person who looks into the file reads JSON."""
    async with opened(path) as store:
        await started(store)
        kinds = await inside(store, lambda db: db.execute("SELECT typeof(data), data FROM journal").fetchone())

    assert tuple(kinds) == ("text", '{"context":{"order_id":"o-1"}}')
