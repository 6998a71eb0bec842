"""What the errors of PostgreSQL and of the way there mean: the store is unavailable, or one member is not to be had."""

from __future__ import annotations

import socket

import asyncpg
import orjson
from asyncpg.exceptions import _base as client

from bext_workflow.errors import StoreUnavailable

MEMBER_FAULTS = (
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.DataError,
    asyncpg.ProgramLimitExceededError,
    client.DataError,
    orjson.JSONEncodeError,
    UnicodeError,
    OverflowError,
)
"""A value's own fault: a constraint, too large, a wrong type, not JSON, not Unicode, over 64 bits."""

STORE_FAULTS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
"""Whatever else comes from the database or from the way there."""

_AGAIN = "try again: work goes on by itself"

_CAUSES: tuple[tuple[type[BaseException], str, str], ...] = (
    (
        asyncpg.InvalidAuthorizationSpecificationError,
        "the database does not let this user in",
        "set the user and the password in the URL, in PGUSER and PGPASSWORD, or in ~/.pgpass",
    ),
    (
        asyncpg.InvalidCatalogNameError,
        "there is no such database",
        "make it with createdb --encoding=UTF8, or correct the URL",
    ),
    (asyncpg.TooManyConnectionsError, "the server takes no more connections", "raise max_connections of the server"),
    (asyncpg.DiskFullError, "the server's disk is full", "free some space there: work goes on by itself"),
    (asyncpg.ReadOnlySQLTransactionError, "the server takes no writes", "name its primary in the URL"),
    (asyncpg.InsufficientPrivilegeError, "this user may not do that", "grant it the rights on the schema"),
    (asyncpg.UndefinedTableError, "the tables are gone", "bext-host db migrate makes them anew"),
    (asyncpg.CannotConnectNowError, "the server starts or stops", _AGAIN),
    (asyncpg.AdminShutdownError, "the server stops", _AGAIN),
    (asyncpg.QueryCanceledError, "it took too long to answer", _AGAIN),
    (socket.gaierror, "its host has no address", "correct the URL"),
    (ConnectionRefusedError, "nothing answers there", "start PostgreSQL, or correct the URL"),
    (TimeoutError, "it does not answer in time", _AGAIN),
)


def unavailable(error: BaseException, place: str) -> StoreUnavailable:
    """The error that a person reads, with the database's own words, or the system's, in it."""
    told = words_of(error)
    for kind, cause, mend in _CAUSES:
        if isinstance(error, kind):
            return StoreUnavailable(f"the store {place} is unavailable: {cause} ({told})", mend=mend)
    return StoreUnavailable(f"the store {place} is unavailable: it does not answer ({told})", mend=_AGAIN)


def words_of(error: BaseException) -> str:
    """The first line: what follows may show the row, and with it what a run keeps to itself."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
