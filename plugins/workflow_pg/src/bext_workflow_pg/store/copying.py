"""Everything that the schema keeps, out of it and into it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

import asyncpg

from bext_workflow.errors import Conflict
from bext_workflow.ports.copying import KEPT, Page, Value
from bext_workflow_pg.store import queries
from bext_workflow_pg.store.connections import Connection

_SQL = queries.load("copying.sql")
PAGE_ROWS = 1_000
_LONG_S = 600.0

_TRUTH = {table: columns.index("paused") for table, columns in KEPT.items() if "paused" in columns}
"""Where a table has a truth value, which is a number in a page."""


async def dump(connection: asyncpg.Connection) -> AsyncGenerator[Page, None]:
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        for table, columns in KEPT.items():
            rows: list[tuple[Value, ...]] = []
            convert = _converted(table, int)
            async for row in connection.cursor(_all_of(table, columns), prefetch=PAGE_ROWS):
                rows.append(convert(tuple(row)))
                if len(rows) == PAGE_ROWS:
                    yield Page(table, rows)
                    rows = []
            yield Page(table, rows)


async def fill(connection: Connection, pages: AsyncIterator[Page], place: str) -> None:
    """For a caller that is in a transaction."""
    await connection.execute(_SQL["alone"])
    if await connection.fetchval(_SQL["hosts"]):
        raise Conflict(f"a host drives the runs of the store {place}", mend="stop it")
    for table in KEPT:
        if await connection.fetchval(f"SELECT EXISTS (SELECT 1 FROM {table})"):  # noqa: S608 — of KEPT
            raise Conflict(f"the store {place} is not empty: it has {table}", mend="copy into a new one")
    async for page in pages:
        convert = _converted(page.table, bool)
        records = [convert(row) for row in page.rows]
        await connection.copy_records_to_table(page.table, records=records, columns=KEPT[page.table], timeout=_LONG_S)
    await connection.execute(_SQL["numbers"])


def _all_of(table: str, columns: Sequence[str]) -> str:
    return f"SELECT {', '.join(columns)} FROM {table}"  # noqa: S608 — of KEPT


def _converted(table: str, kind: type[int]) -> Callable[[tuple[Value, ...]], tuple[Value, ...]]:
    place = _TRUTH.get(table)
    if place is None:
        return lambda row: row
    return lambda row: (*row[:place], kind(row[place] or 0), *row[place + 1 :])
