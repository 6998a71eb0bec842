"""Connections: how a file is made and opened, and what a transaction is."""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bext_workflow.errors import StoreUnavailable

BUSY_TIMEOUT_S = 5.0
SYNCHRONOUS_FULL = 2

_OLDEST = (3, 33)
"""UPDATE … FROM."""

_CACHE_KIB = 16 * 1024
_READER_CACHE_KIB = 4 * 1024
"""What is only read now and then is as well left to the system's own cache."""
_RETRIES = 250
_PAUSE_S = BUSY_TIMEOUT_S / _RETRIES

_creating = threading.Lock()


def open_writer(path: Path | None) -> sqlite3.Connection:
    """A connection that is durable on COMMIT: WAL, synchronous=FULL. Raises `StoreUnavailable` if SQLite is too old."""
    if sqlite3.sqlite_version_info < _OLDEST:
        raise StoreUnavailable(
            f"the store needs SQLite {'.'.join(map(str, _OLDEST))}, this Python has {sqlite3.sqlite_version}",
            mend="use a newer Python",
        )
    if path is not None:
        _create(path)
    connection = _connect(path)
    try:
        if path is not None:
            _enter_wal(connection)
        connection.execute("PRAGMA synchronous = FULL")
        if sys.platform == "darwin":
            connection.execute("PRAGMA fullfsync = ON")
        assert_durable(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(path: Path) -> sqlite3.Connection:
    """A connection beside the writer's; it cannot write."""
    connection = _connect(path)
    connection.execute("PRAGMA query_only = ON")
    connection.execute(f"PRAGMA cache_size = -{_READER_CACHE_KIB}")
    return connection


def assert_durable(connection: sqlite3.Connection) -> None:
    """Raises `AssertionError` unless a COMMIT of this connection waits for the disk (P2)."""
    (level,) = connection.execute("PRAGMA synchronous").fetchone()
    if level != SYNCHRONOUS_FULL:
        raise AssertionError(f"PRAGMA synchronous is {level}, not {SYNCHRONOUS_FULL} (FULL)")


@contextmanager
def writing(connection: sqlite3.Connection) -> Iterator[None]:
    """A transaction that holds the write lock from its start: no other writer can make it fail half-way (P40)."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # SQLite has already rolled back after some errors (disk full, I/O).
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """A transaction that only reads: all its statements see one moment."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("COMMIT")


def _connect(path: Path | None) -> sqlite3.Connection:
    connection = sqlite3.connect(
        ":memory:" if path is None else path, timeout=BUSY_TIMEOUT_S, isolation_level=None, cached_statements=256
    )
    connection.row_factory = sqlite3.Row
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def _create(path: Path) -> None:
    """Makes the file for its owner's eyes only; SQLite gives its `-wal` and `-shm` the same mode.

    An existing file is not touched: closing any descriptor of it would drop the locks that this process holds on it
    through SQLite. The lock keeps a second opener in this process away until the new file's descriptor is closed.
    """
    with _creating:
        if not path.exists():
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            except OSError:
                # SQLite will say what is wrong with the path; a file that another process has just made is welcome.
                return


def _enter_wal(connection: sqlite3.Connection) -> None:
    """Switches a new file to WAL. SQLite does not wait for the others that do the same, so this does (P41)."""
    pause = threading.Event()
    for _ in range(_RETRIES):
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            pause.wait(_PAUSE_S)
        else:
            if mode == "wal":
                return
    raise sqlite3.OperationalError("the file could not be switched to WAL")
