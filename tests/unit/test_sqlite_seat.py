"""One driver at a time, by an OS lock that dies with its process (semantics §11)."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from bext_workflow.errors import StoreBusy, StoreUnavailable
from bext_workflow.testing.contract.base import SERVED, committed, creation, host, row, started
from tests.unit.sqlite_support import inside, opened, pragma, process

DRIVE = """
async def main():
    from msgspec.structs import replace
    await store.open(migrate=True)
    await store.join(replace(host("host-there"), pid=os.getpid()))
    await committed(store, creation(1, owner="host-there"))
    say("driving")
    heard()
    await store.leave("host-there")
    say("left")
    heard()

asyncio.run(main())
"""

DRIVE_AND_FORK = """
import signal

async def main():
    await store.open(migrate=True)
    await store.join(host("host-there"))
    child = os.fork()
    if child == 0:
        for descriptor in range(3):
            os.close(descriptor)
        signal.pause()
    say(child)
    os.read(0, 1)

asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bext.db"


async def test_second_host_is_told_who_drives(path: Path) -> None:
    async with process(path, DRIVE) as driver, opened(path) as store:
        assert await driver.says() == "driving"

        with pytest.raises(StoreBusy, match=f"bext.db is driven by process {driver.pid} on host example"):
            await store.join(host())

        assert [one.host_id for one in await store.hosts()] == ["host-there"]


async def test_second_handle_of_the_same_process_is_a_second_host(path: Path) -> None:
    async with opened(path) as store, opened(path) as other:
        await store.join(host())

        with pytest.raises(StoreBusy, match="is driven by process 4711 on host example"):
            await other.join(host("host-b"))
        with pytest.raises(StoreBusy):
            await store.join(host("host-b"))

        await store.leave("host-a")
        await other.join(host("host-b"))


async def test_death_frees_the_seat_at_once(path: Path) -> None:
    """P35: `kill -9`; what the dead one drove is an orphan."""
    async with process(path, DRIVE) as driver, opened(path) as store:
        assert await driver.says() == "driving"
        await driver.kill()

        assert list(await store.hosts()) == []
        await store.join(host())
        (claimed,) = await store.claim("host-a", SERVED, now=1_000, limit=9)
        assert claimed.orphan


async def test_child_that_was_forked_does_not_keep_the_seat(path: Path) -> None:
    async with process(path, DRIVE_AND_FORK) as driver, opened(path) as store:
        child = int(await driver.says())
        try:
            await driver.kill()
            await store.join(host())
        finally:
            os.kill(child, signal.SIGKILL)


async def test_leaving_frees_the_seat_and_takes_the_row_away(path: Path) -> None:
    async with process(path, DRIVE) as driver, opened(path) as store:
        assert await driver.says() == "driving"
        await driver.tell()
        assert await driver.says() == "left"

        assert await inside(store, lambda db: db.execute("SELECT count(*) FROM hosts").fetchone()[0]) == 0
        await store.join(host())


async def test_store_that_is_closed_gives_the_seat_back(path: Path) -> None:
    async with opened(path) as store:
        await store.join(host())
    async with opened(path) as store:
        await store.join(host("host-b"))


async def test_only_who_has_the_seat_takes_what_others_own(path: Path) -> None:
    """P32: for whoever has not, the owner may well be alive."""
    async with opened(path) as store, opened(path) as other:
        await store.join(host())
        run = await started(store)
        await committed(store, creation(2, owner=None))

        assert list(await other.claim("host-b", SERVED, now=1_000, limit=9, only=[run.run_id])) == []
        claimed = await other.claim("host-b", SERVED, now=1_000, limit=9)

        assert [one.loaded.run.rid for one in claimed] == [run.rid + 1]
        assert (await row(store, run.rid)).owner == "host-a"


@contextmanager
def looking(path: Path) -> Iterator[None]:
    """Somebody looks who drives: for that moment he holds a shared lock."""
    descriptor = os.open(path.with_name("bext.db.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    try:
        yield
    finally:
        os.close(descriptor)


async def test_host_waits_a_moment_for_those_who_only_look_who_drives(path: Path) -> None:
    async with opened(path) as store:
        with looking(path):
            joining = asyncio.create_task(store.join(host()))
            done, _ = await asyncio.wait([joining], timeout=0.05)
            assert not done
        await joining


async def test_those_who_look_who_drives_do_not_take_one_another_for_a_host(path: Path) -> None:
    async with opened(path) as store:
        await store.join(host())
    async with opened(path) as store:
        with looking(path):
            assert list(await store.hosts()) == []


async def test_lock_names_the_last_holder_only(path: Path) -> None:
    async with opened(path) as store, opened(path) as other:
        await store.join(replace(host(), hostname="a-machine-with-a-very-long-name"))
        await store.leave("host-a")
        await store.join(host())

        with pytest.raises(StoreBusy, match="by process 4711 on host example"):
            await other.join(host("host-b"))


async def test_lock_that_cannot_be_made(path: Path) -> None:
    async with opened(path) as store:
        path.with_name("bext.db.lock").symlink_to(path.parent)
        with pytest.raises(StoreUnavailable, match="Is a directory"):
            await store.join(host())


async def test_host_that_could_not_write_its_row_has_no_seat(path: Path) -> None:
    async with opened(path) as store, opened(path) as other:
        with pytest.raises(UnicodeError):
            await store.join(replace(host(), hostname="\ud800"))
        await pragma(store, "query_only = ON")
        with pytest.raises(StoreUnavailable, match="read-only"):
            await store.join(host())

        await other.join(host("host-b"))
