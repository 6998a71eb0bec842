"""A plugin that pays in the transaction of its checkpoint. It is copied out of the repo and installed there.

Workflow `purchase`: `pay`, then `ship`; `gate` in the context names the one that waits for the file `open`, at its end.
Every call is noted in a transaction of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg

from bext_workflow import RetryPolicy, StepDefinition, StepOutcome, WorkflowDefinition, WorkflowRun, hookimpl
from bext_workflow.model.json import Json
from bext_workflow.plugin.hookspecs import HostInfo

GATE = "open"
POLL_S = 0.01
TABLES = """
    SELECT pg_advisory_xact_lock(7420);
    CREATE TABLE IF NOT EXISTS purse_payments (run_id text NOT NULL);
    CREATE TABLE IF NOT EXISTS purse_calls (run_id text NOT NULL, step text NOT NULL);
"""


class Purse:
    def __init__(self) -> None:
        self._folder = Path()
        self._url = ""
        self._own: asyncpg.Pool | None = None

    @hookimpl
    def name(self) -> str:
        return "purse"

    @hookimpl
    def configure(self, config: Mapping[str, Json], host: HostInfo) -> None:
        del config
        self._folder, self._url = host.data_dir, host.store

    @hookimpl
    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        async with asyncpg.create_pool(self._url, min_size=0, max_size=2) as own:
            self._own = own
            await own.execute(TABLES)
            yield

    @hookimpl
    def definitions(self) -> list[WorkflowDefinition]:
        pay = StepDefinition(name="pay", transactional=True, idempotent=False, retries=RetryPolicy.none())
        return [WorkflowDefinition(id="purchase", version=1, steps=(pay, StepDefinition(name="ship")))]

    @hookimpl
    async def run_step(self, run: WorkflowRun, step_name: str) -> StepOutcome:
        if step_name == "pay":
            async with run.transaction() as database:
                await database.execute("INSERT INTO purse_payments (run_id) VALUES ($1)", run.run_id)
                await self._work(run, step_name)
        else:
            await self._work(run, step_name)
        return StepOutcome.Continue()

    async def _work(self, run: WorkflowRun, step_name: str) -> None:
        assert self._own is not None
        await self._own.execute("INSERT INTO purse_calls (run_id, step) VALUES ($1, $2)", run.run_id, step_name)
        # A file is what another process can make.
        while run.context.get("gate") == step_name and not (self._folder / GATE).exists():  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)


plugin = Purse()
