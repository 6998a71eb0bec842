"""The plugin's own config, `[plugins.config]`."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from urllib.parse import parse_qs, urlsplit

from bext_workflow.model.json import Json
from bext_workflow.plugin.hookspecs import HostInfo
from bext_workflow_pg.database import MEMORY
from bext_workflow_pg.opening import is_postgres

KEYS = ("ledger", "dsn")


def ledger_location(config: Mapping[str, Json], host: HostInfo) -> str:
    """Where the ledger is: `ledger.db` beside the store, or what `ledger` or `dsn` says.

    Raises `ValueError` for another key or value.
    """
    for key in config:
        if key not in KEYS:
            nearest = get_close_matches(key, KEYS, n=1, cutoff=0.0)[0]
            raise ValueError(f"unknown key {key!r}: the nearest known one is {nearest!r}")
    if "dsn" in config:
        return _database(config)
    ledger = config.get("ledger", "ledger.db")
    if not isinstance(ledger, str) or not ledger:
        raise ValueError(f'ledger is {ledger!r}: it must be a path or ":memory:"')
    return ledger if ledger == MEMORY else str(host.data_dir / ledger)


def in_store(location: str, store: str) -> bool:
    """Whether a ledger is surely in the database, and the schema, that the URL of the store leads to too."""
    if not (is_postgres(location) and is_postgres(store)):
        return False
    try:
        return _whereabouts(location) == _whereabouts(store)
    except ValueError:
        return False


def _whereabouts(url: str) -> tuple[object, ...]:
    parts = urlsplit(url)
    schema = parse_qs(parts.query).get("search_path")
    return parts.username, parts.hostname, parts.port or 5432, parts.path, schema


def _database(config: Mapping[str, Json]) -> str:
    """What is wrong is not repeated: it may be a secret."""
    dsn = config["dsn"]
    if "ledger" in config:
        raise ValueError("ledger and dsn are both given: the ledger is kept in one place")
    if not isinstance(dsn, str) or not is_postgres(dsn):
        raise ValueError("dsn must be the URL of a database, postgresql://USER@HOST:PORT/DATABASE")
    return dsn
