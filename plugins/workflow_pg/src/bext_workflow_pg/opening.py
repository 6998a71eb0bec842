"""Which stores this plugin opens."""

from __future__ import annotations

SCHEMES = ("postgresql", "postgres")


def open_store(url: str) -> object:
    """The store of a `postgresql://` URL, not opened yet; None for another kind of URL."""
    if url.partition(":")[0] not in SCHEMES:
        return None
    # The driver takes longer to import than the rest of the plugin, and most configs do not need it.
    from bext_workflow_pg.store.store import PostgresStore  # noqa: PLC0415

    return PostgresStore(url)
