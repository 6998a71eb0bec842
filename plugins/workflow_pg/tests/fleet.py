"""Several `bext-host` processes over one database, what they are given to do, and what has come of it."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from types import ModuleType

import asyncpg
import msgspec

from bext_workflow.client import HttpClient
from bext_workflow.errors import Unavailable
from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.service.protocols import StartRequest
from plugins.workflow_pg.tests import effects
from plugins.workflow_pg.tests.judge import Found, Noted
from tests.acceptance.hosts import Place, Served, install

PATIENCE_S = 100
_AT_ONCE = 32
_PAUSE_S = 0.1

_CONFIG = """
[host]
store = "{url}"
{settings}

[[plugins]]
name = "workflow-pg"

[[plugins]]
name = "{plugin}"
"""


class Fleet(Place):
    """Hosts with a plugin, a module of that name with a `plugin` in it, over the store of `url`.

    `settings` are those of `[host]`.
    """

    def __init__(self, folder: Path, url: str, plugin: ModuleType = effects, **settings: int) -> None:
        lines = "\n".join(f"{name} = {value}" for name, value in settings.items())
        name = plugin.__name__.rpartition(".")[2]
        super().__init__(folder, _CONFIG.format(url=url, settings=lines, plugin=name))
        shutil.copy(str(plugin.__file__), self.site)
        install(self.site, f"test-{name}", **{name: f"{name}:plugin"})
        self.url = url
        self._noted = self.folder / effects.CALLS

    @property
    def noted(self) -> list[Noted]:
        """What the plugin has written down so far."""
        lines = self._noted.read_text(encoding="utf-8").splitlines() if self._noted.exists() else []
        return [msgspec.json.decode(line, type=Noted) for line in lines]

    def died(self, host: Served) -> None:
        """Writes down that the process is gone: what it was doing is over."""
        host.process.wait()
        with self._noted.open("a", encoding="utf-8") as calls:
            calls.write(f'{{"host": {host.process.pid}}}\n')

    async def ask(self, query: str, *values: object) -> list[asyncpg.Record]:
        """Rows of the database, as they are."""
        connection = await asyncpg.connect(self.url)
        try:
            return await connection.fetch(query, *values)
        finally:
            await connection.close()

    async def told(self, query: str, *values: object) -> list[asyncpg.Record]:
        """The rows, once there are any."""
        async with asyncio.timeout(PATIENCE_S):
            while not (rows := await self.ask(query, *values)):  # noqa: ASYNC110 — another process writes them
                await asyncio.sleep(_PAUSE_S)
        return rows

    async def ended(self, count: int) -> None:
        """Waits until that many runs have ended."""
        await self.told("SELECT WHERE (SELECT count(*) FROM runs WHERE ended_at IS NOT NULL) >= $1", count)

    async def found(self) -> dict[str, Found]:
        """How each run stands, and what its journal tells, without who drove it and from when on."""
        rows = await self.ask(
            "SELECT run_id, status, kind FROM runs JOIN journal USING (rid)"
            " WHERE kind NOT IN ('recovered', 'run_started') ORDER BY run_id, journal.seq"
        )
        return {
            run_id: Found(WorkflowStatus(status), tuple(row["kind"] for row in events))
            for (run_id, status), events in groupby(rows, key=lambda row: (row["run_id"], row["status"]))
        }


def orders(count: int, **more: Json) -> dict[str, JsonObject]:
    """Start keys, each with the context of its run: most of them succeed, some are rolled back."""
    return {
        f"order-{number}": {**more, **({"fails": effects.STEPS[number % 3]} if number % 7 == 0 else {})}
        for number in range(count)
    }


async def acknowledged(
    hosts: Sequence[str], wanted: Mapping[str, JsonObject], workflow: str = "errand"
) -> dict[str, JsonObject]:
    """The ids of the runs, each with its context, once all hosts together have acknowledged every start.

    A start that was not acknowledged is sent again with its key, to the next host, as a careful client does.
    """
    waiting = list(wanted.items())
    begun: dict[str, JsonObject] = {}

    async def send() -> None:
        while waiting:
            key, context = waiting.pop()
            begun[await _start(hosts, key, context, workflow)] = context

    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        for _ in range(_AT_ONCE):
            tasks.create_task(send())
    return begun


async def _start(hosts: Sequence[str], key: str, context: JsonObject, workflow: str) -> str:
    request = StartRequest(workflow=workflow, context=context, key=key)
    turn = hash(key) + os.getpid()
    while True:
        turn += 1
        async with HttpClient(hosts[turn % len(hosts)]) as client:
            try:
                return (await client.start(request)).run.run_id
            except Unavailable:
                await asyncio.sleep(_PAUSE_S)
