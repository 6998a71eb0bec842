"""The stores that come with the host: the embedded SQLite one. Others come from plugins, by the scheme of their URL."""

from __future__ import annotations

from pathlib import Path

from bext_workflow.errors import UsageError
from bext_workflow.stores.sqlite.store import SqliteStore

__all__ = ["SCHEME", "SqliteStore", "from_url"]

SCHEME = "sqlite"


def from_url(url: str, folder: Path) -> SqliteStore:
    """The store of `sqlite:PATH` (relative to `folder`) or `sqlite::memory:`, not opened yet. Raises `UsageError`."""
    scheme, _, path = url.partition(":")
    if scheme != SCHEME or not path:
        raise UsageError(f"{url!r} does not name a SQLite store", mend='write "sqlite:bext.db" or "sqlite::memory:"')
    return SqliteStore(None if path == ":memory:" else folder / path)
