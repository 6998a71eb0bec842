"""The threads of the embedded store: what they accept, in which order, and what a cancelled caller leaves behind."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from bext_workflow.errors import StoreUnavailable
from bext_workflow.ports.store import Committed, RunFilter
from bext_workflow.stores import SqliteStore
from bext_workflow.testing.contract.base import creation, started
from tests.unit.sqlite_support import inside, opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bext.db"


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("bext-sqlite")}


async def gone() -> None:
    """Waits until the threads have ended."""
    for thread in threading.enumerate():
        if thread.name.startswith("bext-sqlite"):
            await asyncio.to_thread(thread.join, 10)
    assert threads() == set()


async def test_caller_that_is_cancelled_does_not_stop_the_work(path: Path) -> None:
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    async with opened(path) as store:
        gate = threading.Event()
        blocked = asyncio.create_task(inside(store, lambda _: gate.wait(10)))
        writing = asyncio.create_task(store.write([creation()]))
        await asyncio.sleep(0)
        writing.cancel()
        blocked.cancel()
        await asyncio.wait([blocked, writing])
        assert writing.cancelled()
        gate.set()

        assert len(await inside(store, lambda _: "")) == 0
        assert len(await store.runs(RunFilter(), limit=9)) == 1
    assert complaints == []


async def test_close_finishes_what_was_accepted(path: Path) -> None:
    async with opened(path) as store:
        gate = threading.Event()
        blocked = asyncio.create_task(inside(store, lambda _: gate.wait(10)))
        await asyncio.sleep(0)
        calls = [asyncio.create_task(store.write([creation(number)])) for number in range(10)]
        await asyncio.sleep(0)
        closing = asyncio.create_task(store.close())
        await asyncio.sleep(0)
        gate.set()
        await closing

        assert await blocked
        answers = await asyncio.gather(*calls)
        assert all(isinstance(answer[0], Committed) for answer in answers)
        with pytest.raises(StoreUnavailable, match="is closed"):
            await store.ping()
    async with opened(path) as store:
        assert len(await store.runs(RunFilter(), limit=20)) == 10


async def test_nothing_is_left_after_close(path: Path) -> None:
    async with opened(path) as store:
        await started(store)
        assert threads() == {"bext-sqlite-writer", "bext-sqlite-reader"}
    await gone()


async def test_opening_that_fails_leaves_no_thread(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> sqlite3.Connection:
        raise sqlite3.OperationalError("no reader today")

    monkeypatch.setattr("bext_workflow.stores.sqlite.store.open_reader", refuse)
    with pytest.raises(StoreUnavailable, match="no reader today"):
        await SqliteStore(path).open(migrate=True)
    await gone()


async def test_opening_that_is_cancelled_leaves_no_thread(path: Path) -> None:
    store = SqliteStore(path)
    opening = asyncio.create_task(store.open(migrate=True))
    await asyncio.sleep(0)
    opening.cancel()
    await asyncio.wait([opening])
    assert opening.cancelled()
    await gone()


async def test_job_that_raises_anything_answers_its_caller_and_the_thread_lives_on(path: Path) -> None:
    async with opened(path) as store:
        for error in (RuntimeError("a"), asyncio.CancelledError("b")):

            def fail(_: sqlite3.Connection, error: BaseException = error) -> None:
                raise error

            with pytest.raises(type(error)):
                await inside(store, fail)
        await store.ping()


def test_loop_that_is_gone_does_not_end_the_thread(path: Path) -> None:
    """A command that gave up: its answer has nobody to go to."""
    gate = threading.Event()
    stores: list[SqliteStore] = []

    async def give_up() -> None:
        store = SqliteStore(path)
        stores.append(store)
        await store.open(migrate=True)
        waiting = asyncio.create_task(inside(store, lambda _: gate.wait(10)))
        await asyncio.sleep(0)
        waiting.cancel()

    async def come_back() -> None:
        gate.set()
        await stores[0].ping()
        await stores[0].close()

    asyncio.run(give_up())
    asyncio.run(come_back())
