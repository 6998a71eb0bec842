"""Removal and backups in the embedded store: whole, or not at all."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from bext_workflow.errors import Conflict, StoreUnavailable
from bext_workflow.stores import SqliteStore
from bext_workflow.testing.contract.base import committed, creation, following, host, row, started
from bext_workflow.testing.contract.retention import left, over, prune
from tests.unit.sqlite_support import inside, opened

REMOVED_FROM = ("journal", "incidents", "approvals", "inbox", "runs", "start_keys")


def names_in(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


async def count(store: SqliteStore, table: str) -> int:
    return await inside(store, lambda db: int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]))


@pytest.mark.parametrize("table", ["journal", "runs"])
async def test_a_removal_that_breaks_off_has_removed_nothing_and_is_repeated(table: str) -> None:
    """P42: one transaction; what failed half-way is done whole by the next one."""
    broken = f"CREATE TRIGGER broken BEFORE DELETE ON {table} WHEN OLD.rid = 2 BEGIN SELECT RAISE(ABORT, 'no'); END"
    async with opened(None) as store:
        await committed(store, over(1), over(2), over(3, root=1))
        before = [await count(store, name) for name in REMOVED_FROM]
        await inside(store, lambda db: db.execute(broken))
        with pytest.raises(StoreUnavailable):
            await prune(store)

        assert [await count(store, name) for name in REMOVED_FROM] == before
        assert (
            await inside(store, lambda db: db.execute("SELECT max(removed_at) FROM start_keys").fetchone()[0]) is None
        )

        await inside(store, lambda db: db.execute("DROP TRIGGER broken"))
        await prune(store)
        assert [await count(store, name) for name in REMOVED_FROM] == [0, 0, 0, 0, 0, 3]


async def test_a_backup_is_of_one_moment_while_the_host_works(tmp_path: Path) -> None:
    """What is committed before is in it; the source goes on."""
    copy = tmp_path / "copy.db"
    async with opened(tmp_path / "bext.db") as store:
        await store.join(host())
        run = await started(store)

        async def works_on() -> None:
            for _ in range(50):
                await committed(store, following(await row(store, run.rid)))

        await asyncio.gather(store.backup(copy), works_on())
        await committed(store, creation(2))

    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    async with opened(copy) as store:
        kept = await store.load(run.rid)
        assert [event.seq for event in kept.events] == list(range(1, kept.run.seq + 1))
        assert await left(store) == [1]


async def test_a_backup_never_takes_the_place_of_a_file(tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    copy.write_text("mine")
    async with opened(tmp_path / "bext.db") as store:
        with pytest.raises(Conflict, match="there already"):
            await store.backup(copy)
        with pytest.raises(StoreUnavailable, match="No such file"):
            await store.backup(tmp_path / "nowhere" / "copy.db")

    assert copy.read_text() == "mine"
    assert names_in(tmp_path) == ["bext.db", "copy.db"]
