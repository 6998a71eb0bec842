"""One thread that owns one connection and does what it is handed, in order."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

from bext_workflow.errors import StoreUnavailable

T = TypeVar("T")


class Worker:
    """Everything that was accepted is done, also when nobody waits for it any more."""

    def __init__(self, name: str, connect: Callable[[], sqlite3.Connection]) -> None:
        self._name = name
        self._connect = connect
        self._jobs: SimpleQueue[Callable[[sqlite3.Connection], None] | None] = SimpleQueue()
        self._running = False

    async def start(self) -> None:
        """Opens the connection; raises what that raises."""
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._jobs = SimpleQueue()
        threading.Thread(target=self._work, args=(started,), name=self._name, daemon=True).start()
        try:
            await started
        except BaseException:
            # Nobody will hand it anything: if it has come up, it goes again.
            self._jobs.put(None)
            raise
        self._running = True

    async def call(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """Runs the job on the thread: one hop there, one hop back. Raises `StoreUnavailable` when it has stopped."""
        if not self._running:
            raise StoreUnavailable("the store is closed")
        return await self._hand_over(job)

    async def stop(self) -> None:
        """Does what was accepted, then closes the connection. A second call does nothing."""
        if not self._running:
            return
        self._running = False

        def finish(connection: sqlite3.Connection) -> None:
            self._jobs.put(None)
            connection.close()

        await self._hand_over(finish)

    async def _hand_over(self, job: Callable[[sqlite3.Connection], T]) -> T:
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def run(connection: sqlite3.Connection) -> None:
            try:
                result = job(connection)
            # Whatever it is, it belongs to the caller, and the thread lives on.
            except BaseException as error:
                _hop(done, partial(done.set_exception, error))
            else:
                _hop(done, partial(done.set_result, result))

        self._jobs.put(run)
        return await done

    def _work(self, started: asyncio.Future[None]) -> None:
        try:
            connection = self._connect()
        except BaseException as error:
            _hop(started, partial(started.set_exception, error))
            return
        _hop(started, partial(started.set_result, None))
        while (job := self._jobs.get()) is not None:
            job(connection)
        connection.close()


def _hop(future: asyncio.Future[T], settle: Callable[[], None]) -> None:
    """Settles the future on its loop, if anybody still waits."""

    def unless_done() -> None:
        if not future.done():
            settle()

    # A closed loop has nobody who waits.
    with suppress(RuntimeError):
        future.get_loop().call_soon_threadsafe(unless_done)
