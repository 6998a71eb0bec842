"""The schema by numbers: each file of `migrations/` is applied once, whole, by whoever comes first (P41)."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import msgspec
from msgspec.structs import replace

from bext_workflow.errors import NotMigrated, StoreUnavailable
from bext_workflow.ports.hosting import Survey
from bext_workflow_pg.store import queries
from bext_workflow_pg.store.connections import Connection, Terms, in_transaction

_SQL = queries.load("schema.sql")
_FOLDER = Path(__file__).parent / "migrations"
MIGRATIONS = {int(file.name[:4]): file for file in sorted(_FOLDER.glob("[0-9]*.sql"))}
LATEST = max(MIGRATIONS)

_OLDEST = 140_000
_LOCK = 0x62657874 << 32
"""With a schema's number: the lock under which its tables are made."""

_MIGRATING_S = 600.0


class Surroundings(msgspec.Struct, frozen=True):
    """What a connection reaches. `number` is that of the schema in the database."""

    number: int
    found: int
    terms: Terms

    @property
    def channel(self) -> str:
        """Where wake-ups of this schema are heard: channels belong to the whole database."""
        return f"bext_{self.number}"


async def look_around(connection: asyncpg.Connection, place: str) -> Surroundings:
    """Raises `StoreUnavailable` for a server that cannot hold a store."""
    return await in_transaction(connection, "BEGIN READ ONLY", lambda inside: _surroundings(inside, place))


async def _surroundings(connection: Connection, place: str) -> Surroundings:
    row = await connection.fetchrow(_SQL["surroundings"])
    if row is None or row["schema"] is None:
        raise StoreUnavailable(
            f"the store {place} has no schema to hold its tables",
            mend="create one, and name it in the URL: ?search_path=NAME",
        )
    if row["version"] < _OLDEST:
        raise StoreUnavailable(
            f"the store {place} is a PostgreSQL {row['version'] // 10_000}, the oldest that serves is "
            f"{_OLDEST // 10_000}",
            mend="upgrade the server",
        )
    if row["encoding"] != "UTF8":
        raise StoreUnavailable(
            f"the database of the store {place} has the encoding {row['encoding']}, not UTF8",
            mend="make one with createdb --encoding=UTF8 --template=template0",
        )
    found = await connection.fetchval(_SQL["version"]) if row["migrated"] else 0
    terms = Terms(
        pooled=row["pid"] != connection.get_server_pid(),
        synchronous_commit="on" if row["synchronous_commit"] == "off" else row["synchronous_commit"],
    )
    return Surroundings(row["schema_number"], found, terms)


async def survey(connection: Connection, *, pooled: bool) -> Survey:
    """The size is that of all tables of the schema, with their indexes."""
    (row,) = await connection.fetch(_SQL["survey"])
    return Survey(engine=f"PostgreSQL {row['version']}", now=row["now"], bytes=row["bytes"], pooled=pooled)


def refuse_other(found: int, place: str) -> None:
    """Raises `NotMigrated` unless the schema is this code's."""
    if found > LATEST:
        raise NotMigrated(
            f"the store {place} has schema {found}, this program speaks {LATEST}",
            mend="upgrade bext-workflow-pg, or open a store of its own version",
        )
    if found < LATEST:
        has = f"has schema {found}" if found else "has no tables yet"
        raise NotMigrated(
            f"the store {place} {has}, this program speaks {LATEST}",
            mend="run `bext-host db migrate`, or `bext-host serve --migrate`",
        )


async def migrate(connection: asyncpg.Connection, around: Surroundings) -> Surroundings:
    """Brings the schema up to `LATEST`, one transaction a step."""
    found = around.found
    while found < LATEST:
        found = await in_transaction(connection, "BEGIN", lambda inside: _step(inside, around.number))
    return replace(around, found=found)


async def _step(connection: Connection, number: int) -> int:
    """Applies the next migration; under the lock, because another process may have been quicker."""
    await connection.fetchval(_SQL["alone"], _LOCK + number, timeout=_MIGRATING_S)
    row = await connection.fetchrow(_SQL["surroundings"])
    found: int = await connection.fetchval(_SQL["version"]) if row is not None and row["migrated"] else 0
    if found >= LATEST:
        return found
    await connection.execute(MIGRATIONS[found + 1].read_text(encoding="utf-8"), timeout=_MIGRATING_S)
    await connection.execute(_SQL["versions"])
    await connection.execute(_SQL["migrated"], found + 1)
    return found + 1
