"""What SQLite's errors mean: the store is unavailable, or one member is not to be had."""

from __future__ import annotations

import errno
import sqlite3

import orjson

from bext_workflow.errors import StoreUnavailable

MEMBER_FAULTS = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.ProgrammingError,
    orjson.JSONEncodeError,
    UnicodeError,
    OverflowError,
)
"""A value's own fault: a constraint, too large, a wrong type, not JSON, not Unicode, over 64 bits."""

_PRIMARY = 0xFF
"""The part of an error code that is not the refinement."""

_CAUSES: dict[int, tuple[str, str]] = {
    sqlite3.SQLITE_FULL: ("the disk is full", "free some space: work goes on by itself"),
    sqlite3.SQLITE_READONLY: ("it is read-only", "make the file and its folder writable for this user"),
    sqlite3.SQLITE_CANTOPEN: ("it cannot be opened", "check that the folder exists and is writable for this user"),
    sqlite3.SQLITE_PERM: ("access was denied", "make the file and its folder writable for this user"),
    sqlite3.SQLITE_IOERR: ("reading or writing failed", "check the disk"),
    sqlite3.SQLITE_BUSY: ("another process keeps it locked", "try again, or end the process that locks it"),
    sqlite3.SQLITE_LOCKED: ("it is locked", "try again"),
    sqlite3.SQLITE_NOTADB: ("the file is not a SQLite database", "give the store another path"),
    sqlite3.SQLITE_CORRUPT: ("the file is damaged", "restore it from a backup"),
}
_LIKE = {
    errno.ENOSPC: sqlite3.SQLITE_FULL,
    errno.EDQUOT: sqlite3.SQLITE_FULL,
    errno.EROFS: sqlite3.SQLITE_READONLY,
    errno.EACCES: sqlite3.SQLITE_PERM,
    errno.EPERM: sqlite3.SQLITE_PERM,
}
"""What the system says of the lock's file, in SQLite's terms."""


def unavailable(error: sqlite3.Error | OSError, place: str) -> StoreUnavailable:
    """The error that a person reads, with SQLite's own words, or the system's, in it."""
    code = _LIKE.get(error.errno or 0, 0) if isinstance(error, OSError) else getattr(error, "sqlite_errorcode", 0)
    cause, mend = _CAUSES.get(code & _PRIMARY, ("it does not answer", ""))
    return StoreUnavailable(f"the store {place} is unavailable: {cause} ({error})", mend=mend)
