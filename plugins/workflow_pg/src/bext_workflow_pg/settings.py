"""The plugin's own config, `[plugins.config]`."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from bext_workflow.model.json import Json
from bext_workflow.plugin.hookspecs import HostInfo
from bext_workflow_pg.database import MEMORY

KEYS = ("ledger",)


def ledger_location(config: Mapping[str, Json], host: HostInfo) -> str:
    """Where the ledger is: `ledger.db` beside the store, or what `ledger` says. Raises `ValueError` for another key."""
    for key in config:
        if key not in KEYS:
            nearest = get_close_matches(key, KEYS, n=1, cutoff=0.0)[0]
            raise ValueError(f"unknown key {key!r}: the nearest known one is {nearest!r}")
    ledger = config.get("ledger", "ledger.db")
    if not isinstance(ledger, str) or not ledger:
        raise ValueError(f'ledger is {ledger!r}: it must be a path or ":memory:"')
    return ledger if ledger == MEMORY else str(host.data_dir / ledger)
