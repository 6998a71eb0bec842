"""Everything that the file keeps, out of it and into it."""

from __future__ import annotations

import sqlite3

from bext_workflow.errors import Conflict
from bext_workflow.ports.copying import KEPT, Page, Value

PAGE_ROWS = 1_000


def begin(db: sqlite3.Connection) -> None:
    """From the first row on, what is read is of one moment."""
    db.execute("BEGIN")


def roll_back(db: sqlite3.Connection) -> None:
    """Ends what has not been ended."""
    if db.in_transaction:
        db.execute("ROLLBACK")


def rows_of(db: sqlite3.Connection, table: str) -> sqlite3.Cursor:
    return db.execute(f"SELECT {', '.join(KEPT[table])} FROM {table}")  # noqa: S608 — of KEPT


def page_of(db: sqlite3.Connection, cursor: sqlite3.Cursor) -> list[tuple[Value, ...]]:
    """The next rows; none: that was all."""
    del db  # the cursor is its
    return [tuple(row) for row in cursor.fetchmany(PAGE_ROWS)]


def begin_load(db: sqlite3.Connection, place: str) -> None:
    """Raises `Conflict` if something is there already."""
    db.execute("BEGIN IMMEDIATE")
    for table in KEPT:
        if db.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None:  # noqa: S608 — of KEPT
            raise Conflict(f"the store {place} is not empty: it has {table}", mend="copy into a new one")


def take(db: sqlite3.Connection, page: Page) -> None:
    columns = KEPT[page.table]
    places = ", ".join("?" * len(columns))
    insert = f"INSERT INTO {page.table} ({', '.join(columns)}) VALUES ({places})"  # noqa: S608 — of KEPT
    db.executemany(insert, page.rows)


def end_load(db: sqlite3.Connection) -> None:
    """The numbers go on behind those that were given out."""
    db.execute("UPDATE numbers SET last = (SELECT coalesce(max(rid), 0) FROM runs) WHERE name = 'rid'")
    db.execute("COMMIT")
