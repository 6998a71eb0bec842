"""The schema by numbers: each file of `migrations/` is applied once, whole, by whoever comes first (P41)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from bext_workflow.errors import NotMigrated
from bext_workflow.ports.hosting import Schema
from bext_workflow.stores.sqlite.connection import open_reader, writing

_FOLDER = Path(__file__).parent / "migrations"
MIGRATIONS = {int(file.name[:4]): file for file in sorted(_FOLDER.glob("[0-9]*.sql"))}
LATEST = max(MIGRATIONS)


def migrate(connection: sqlite3.Connection, place: str) -> None:
    """Brings the schema up to `LATEST`. Raises `NotMigrated` if it is newer than that."""
    while (version := version_of(connection)) != LATEST:
        if version > LATEST:
            raise NotMigrated(
                f"the store {place} has schema {version}, this program speaks {LATEST}",
                mend="upgrade bext-workflow, or open a store of its own version",
            )
        _step(connection)


def look(path: Path | None) -> Schema:
    """What the file has for a schema; a file that is not there has none."""
    if path is None or not path.exists():
        return Schema(0, LATEST)
    with closing(open_reader(path)) as connection:
        return Schema(version_of(connection), LATEST)


def version_of(connection: sqlite3.Connection) -> int:
    """The number of the last migration that was applied; 0 for an empty file."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'schema_version'").fetchone() is None:
        return 0
    (version,) = connection.execute("SELECT max(version) FROM schema_version").fetchone()
    return int(version or 0)


def _step(connection: sqlite3.Connection) -> None:
    """Applies the next migration; under the lock, because another process may have been quicker."""
    with writing(connection):
        number = version_of(connection) + 1
        if number > LATEST:
            return
        for statement in _statements(MIGRATIONS[number].read_text(encoding="utf-8")):
            connection.execute(statement)
        connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY)")
        connection.execute("INSERT INTO schema_version (version) VALUES (?)", (number,))


def _statements(script: str) -> Iterator[str]:
    """One by one: `executescript` would commit first."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
