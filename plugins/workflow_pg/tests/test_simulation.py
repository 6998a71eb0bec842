"""Simulated hosts over both stores: one seed comes to the same ends, whatever happens on the way.

Replay: `python -m plugins.workflow_pg.tests.test_simulation SEED`
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

import pytest

from bext_workflow.ports.store import Store
from bext_workflow_pg.store.store import PostgresStore
from plugins.workflow_pg.tests.databases import fresh_schema, run_sql
from plugins.workflow_pg.tests.server import any_server
from tests.simulation.trouble import CALM, STORM
from tests.simulation.world import World, fair, faults, replayable


class PostgresPlace:
    """A schema, whose runs three hosts drive."""

    hosts = 3

    def __init__(self, url: str) -> None:
        self._url = url

    async def open(self) -> Store:
        store = PostgresStore(self._url)
        await store.open(migrate=True)
        return store

    async def bury(self, host_id: str) -> None:
        await run_sql(self._url, f"UPDATE hosts SET expires_at = 0 WHERE host_id = '{host_id}'")


async def simulate(seed: int, server: str, folder: Path) -> World:
    """The stormy world. Raises what it finds wrong."""
    with replayable("plugins.workflow_pg.tests.test_simulation", seed):
        expected = await fair(seed, folder)
        async with fresh_schema(server) as url:
            calm = await World(seed, PostgresPlace(url), CALM).live()
        async with fresh_schema(server) as url:
            stormy = await World(seed, PostgresPlace(url), STORM).live()
        assert faults(calm, expected) == []
        assert faults(stormy, expected) == []
    return stormy


@pytest.mark.tier("ci")
@pytest.mark.parametrize("seed", range(12))
async def test_runs_end_as_on_the_embedded_store(seed: int, server: str, tmp_path: Path) -> None:
    """P1, P4, P6, P16, P32, P35: three hosts that die and lose answers, and one that does not."""
    await simulate(seed, server, tmp_path)


if __name__ == "__main__":
    with any_server() as found, tempfile.TemporaryDirectory() as place:
        world = asyncio.run(simulate(int(sys.argv[1]), found, Path(place)))
    print(*world.ends.items(), f"{world.died} hosts died", sep="\n")
