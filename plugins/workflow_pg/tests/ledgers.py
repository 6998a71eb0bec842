"""Ledgers as tests open them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bext_workflow_pg.ledger import Ledger
from bext_workflow_pg.opening import open_ledger


@asynccontextmanager
async def opened(location: str) -> AsyncIterator[Ledger]:
    """The ledger of a file, of memory or of a database, closed in the end."""
    async with closed(await open_ledger(location)) as ledger:
        yield ledger


@asynccontextmanager
async def closed(ledger: Ledger) -> AsyncIterator[Ledger]:
    """The ledger, closed in the end."""
    try:
        yield ledger
    finally:
        await ledger.close()
