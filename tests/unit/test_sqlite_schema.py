"""The embedded store's schema (P41)."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest

from bext_workflow.errors import NotMigrated, StoreUnavailable
from bext_workflow.ports.store import RunFilter
from bext_workflow.stores import SqliteStore
from bext_workflow.stores.sqlite import schema
from bext_workflow.testing.contract.base import started
from tests.unit.sqlite_support import opened, process

FIRST_OPEN = """
async def main():
    say("ready")
    number = int(heard())
    await store.open(migrate=False)
    await started(store, number)
    await store.close()

asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bext.db"


def versions(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        return [version for (version,) in connection.execute("SELECT version FROM schema_version ORDER BY version")]


def tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def add_migration(monkeypatch: pytest.MonkeyPatch, file: Path, script: str) -> None:
    """Makes `script` the migration after the last."""
    file.write_text(script)
    monkeypatch.setattr(schema, "MIGRATIONS", {**schema.MIGRATIONS, schema.LATEST + 1: file})
    monkeypatch.setattr(schema, "LATEST", schema.LATEST + 1)


def test_migrations_are_numbered_without_a_gap() -> None:
    assert list(schema.MIGRATIONS) == list(range(1, schema.LATEST + 1))


@pytest.mark.parametrize("migrate", [True, False])
async def test_empty_file_gets_the_schema_at_its_first_opening_only(path: Path, migrate: bool) -> None:
    for _ in range(2):
        store = SqliteStore(path)
        await store.open(migrate=migrate)
        await store.close()

    assert versions(path) == list(range(1, schema.LATEST + 1))


async def test_older_schema_is_brought_up_to_date_and_keeps_its_rows(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(path) as store:
        run = await started(store)
    old = schema.LATEST

    add_migration(monkeypatch, tmp_path / "next.sql", "CREATE TABLE later (x TEXT DEFAULT 'a;b');\n")
    async with opened(path) as store:
        assert list(await store.runs(RunFilter(), limit=9)) == [run]

    assert versions(path) == list(range(1, old + 2))
    assert "later" in tables(path)


async def test_newer_schema_is_refused_and_left_alone(path: Path) -> None:
    async with opened(path):
        pass
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO schema_version (version) VALUES (99)")
        connection.commit()

    store = SqliteStore(path)
    with pytest.raises(NotMigrated, match=f"has schema 99, this program speaks {schema.LATEST}") as caught:
        await store.open(migrate=True)

    assert "upgrade" in caught.value.mend
    assert versions(path)[-1] == 99
    await store.close()


async def test_interrupted_migration_leaves_nothing_and_is_taken_up_again(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(path):
        pass
    old = versions(path)
    with monkeypatch.context() as broken:
        add_migration(broken, tmp_path / "next.sql", "CREATE TABLE half (x);\nINSERT INTO nowhere VALUES (1);\n")
        with pytest.raises(StoreUnavailable, match="nowhere"):
            await SqliteStore(path).open(migrate=True)

    assert versions(path) == old
    assert "half" not in tables(path)

    add_migration(monkeypatch, tmp_path / "next.sql", "CREATE TABLE half (x);\nCREATE TABLE whole (x);\n")
    async with opened(path):
        pass
    assert versions(path) == [*old, len(old) + 1]
    assert {"half", "whole"} <= tables(path)


async def test_opening_waits_for_those_who_open_the_same_new_file(path: Path) -> None:
    """P41: SQLite itself does not always wait when it switches a file to WAL."""
    store = SqliteStore(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as first:
        first.execute("CREATE TABLE something (x)")
        first.execute("BEGIN IMMEDIATE")
        opening = asyncio.create_task(store.open(migrate=True))
        done, _ = await asyncio.wait([opening], timeout=0.05)
        assert not done
        first.execute("COMMIT")
        await opening
        await store.close()


async def test_processes_that_open_an_empty_file_at_once_all_succeed(path: Path) -> None:
    """P41: and the schema is made once."""
    async with AsyncExitStack() as stack:
        openers = [await stack.enter_async_context(process(path, FIRST_OPEN)) for _ in range(6)]
        for opener in openers:
            assert await opener.says() == "ready"
        for number, opener in enumerate(openers):
            await opener.tell(str(number))
        assert [await opener.ends() for opener in openers] == [0] * 6

    assert versions(path) == list(range(1, schema.LATEST + 1))
    async with opened(path) as store:
        assert len(await store.runs(RunFilter(), limit=9)) == 6
