"""The ledger in one SQLite file, for as long as one machine is enough."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from bext_workflow_pg.database import open_database, open_for_reading
from bext_workflow_pg.errors import Transient, Unreachable
from bext_workflow_pg.ledger import Ledger
from bext_workflow_pg.rules import Rule

T = TypeVar("T")


class SqliteLedger(Ledger):
    """`Ledger` over a connection, which one thread at a time uses."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._lock = threading.Lock()

    @classmethod
    def open(cls, location: str) -> SqliteLedger:
        """The ledger in a file, or `":memory:"`; a new one has stock."""
        return cls(open_database(location))

    @classmethod
    def open_for_reading(cls, location: str) -> SqliteLedger:
        """A ledger that exists, for `books`."""
        return cls(open_for_reading(location))

    async def carry_out(self, rule: Rule[T], *keys: str) -> T:
        """In a thread: the loop of the host goes on while the disk writes."""
        del keys  # one transaction at a time is written
        return await asyncio.to_thread(self._run, rule, "BEGIN IMMEDIATE")

    async def look_up(self, rule: Rule[T]) -> T:
        return await asyncio.to_thread(self._run, rule, "BEGIN")

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _run(self, rule: Rule[T], begin: str) -> T:
        with self._transaction(begin):
            statement = next(rule)
            while True:
                rows = self._db.execute(*statement).fetchall()
                try:
                    statement = rule.send(rows)
                except StopIteration as done:
                    result: T = done.value
                    return result

    def _close(self) -> None:
        with self._lock:
            self._db.close()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        with self._lock:
            try:
                self._db.execute(begin)
            except sqlite3.OperationalError as error:
                raise Transient(f"the ledger does not answer: {error}") from error
            try:
                yield
                self._db.execute("COMMIT")
            except sqlite3.OperationalError as error:
                raise Unreachable(f"the ledger broke off: {error}") from error
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
