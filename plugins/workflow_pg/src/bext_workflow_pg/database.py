"""The SQLite file of a ledger: how it is opened, made durable, and recognised."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path

from bext_workflow_pg import sql
from bext_workflow_pg.errors import NotALedger, Unreachable

MEMORY = ":memory:"
BUSY_TIMEOUT_S = 5.0


def open_database(location: str) -> sqlite3.Connection:
    """Opens the ledger, or begins a new one that only its owner can read. A commit that returned is on the disk."""
    if location == MEMORY:
        return _connect(MEMORY, MEMORY, _make_durable, _make_schema)
    try:
        Path(location).touch(mode=0o600)  # SQLite gives the mode of the file to its -wal and -shm too.
    except OSError as error:
        raise Unreachable(f"{location}: {error.strerror}") from error
    return _connect(location, _uri(location), _make_durable, _make_schema)


def open_for_reading(location: str) -> sqlite3.Connection:
    """Opens a ledger that is there, and never writes an entry."""
    if not Path(location).is_file():
        raise Unreachable(f"{location}: no such file")
    return _connect(location, _uri(location), _forbid_writing, _recognise)


def _uri(location: str) -> str:
    # Read-only mode would leave -wal and -shm files behind.
    return f"{Path(location).absolute().as_uri()}?mode=rw"


def _connect(location: str, uri: str, *prepare: Callable[[sqlite3.Connection], None]) -> sqlite3.Connection:
    """A connection that any thread may use, one at a time, with transactions begun and ended by hand."""
    try:
        db = sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        return _prepared(db, prepare)
    except sqlite3.OperationalError as error:
        raise Unreachable(f"{location}: {error}") from error
    except (sqlite3.DatabaseError, NotALedger) as error:
        raise NotALedger(f"{location}: {error}") from error


def _prepared(db: sqlite3.Connection, prepare: Iterable[Callable[[sqlite3.Connection], None]]) -> sqlite3.Connection:
    try:
        for step in prepare:
            step(db)
    except BaseException:
        db.close()
        raise
    return db


def _make_durable(db: sqlite3.Connection) -> None:
    _enter_wal(db)
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA fullfsync = ON")


def _enter_wal(db: sqlite3.Connection) -> None:
    # The change to WAL does not wait for others who make it at the same moment; a write transaction does.
    for _ in range(10):
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            db.execute("BEGIN IMMEDIATE")
            db.execute("ROLLBACK")
    db.execute("PRAGMA journal_mode = WAL")


def _make_schema(db: sqlite3.Connection) -> None:
    db.execute("BEGIN IMMEDIATE")
    if db.execute(sql.COUNT_TABLES).fetchone() == (0,):
        for statement in sql.SCHEMA:
            db.execute(statement)
    _recognise(db)
    db.execute("COMMIT")


def _forbid_writing(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA query_only = ON")


def _recognise(db: sqlite3.Connection) -> None:
    (application_id,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if application_id != sql.APPLICATION_ID:
        raise NotALedger("a database, but not a ledger")
    if version != sql.VERSION:
        raise NotALedger(f"a ledger of version {version}, this program reads version {sql.VERSION}")
