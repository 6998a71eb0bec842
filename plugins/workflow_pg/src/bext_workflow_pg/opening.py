"""Which stores this plugin opens, and where its ledger may be."""

from __future__ import annotations

import asyncio

from bext_workflow_pg.ledger import Ledger
from bext_workflow_pg.sqlite_ledger import SqliteLedger

SCHEMES = ("postgresql", "postgres")


# The driver takes longer to import than the rest of the plugin, and most configs do not need it.


def is_postgres(location: str) -> bool:
    """Whether it is the URL of a PostgreSQL database."""
    return location.partition(":")[0] in SCHEMES


def open_store(url: str) -> object:
    """The store of a `postgresql://` URL, not opened yet; None for another kind of URL."""
    if not is_postgres(url):
        return None
    from bext_workflow_pg.store.store import PostgresStore  # noqa: PLC0415

    return PostgresStore(url)


async def open_ledger(location: str) -> Ledger:
    """The ledger of a `postgresql://` URL, or in the file of that path; a new one has stock."""
    if not is_postgres(location):
        return await asyncio.to_thread(SqliteLedger.open, location)
    from bext_workflow_pg.postgres_ledger import PostgresLedger  # noqa: PLC0415

    return await PostgresLedger.open(location)


async def open_ledger_for_reading(location: str) -> Ledger:
    """A ledger that exists, for `books`. Raises `NotALedger` or `Unreachable`."""
    if not is_postgres(location):
        return await asyncio.to_thread(SqliteLedger.open_for_reading, location)
    from bext_workflow_pg.postgres_ledger import PostgresLedger  # noqa: PLC0415

    return await PostgresLedger.open_for_reading(location)
