"""A plugin whose one step writes to the database of the store, in the transaction of its own checkpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from bext_workflow import StepOutcome, WorkflowRun
from bext_workflow.model.json import Json
from bext_workflow.model.transaction import Database
from bext_workflow.plugin.registry import Registry
from plugins.workflow_pg.tests.databases import ask, run_sql
from plugins.workflow_pg.tests.hosted import Hosted, opened
from tests.integration.host.support import plugin, registry, step, workflow
from tests.unit.host.support import within

TABLE = """
    CREATE TABLE payments (
        key text NOT NULL, attempt integer NOT NULL, xact text NOT NULL DEFAULT pg_current_xact_id()::text
    )
"""
PAY = "INSERT INTO payments (key, attempt) VALUES ($1, $2)"

Work: TypeAlias = Callable[[WorkflowRun, Database], Awaitable[object]]


async def paid(run: WorkflowRun, database: Database) -> StepOutcome:
    """It pays, and says so."""
    await database.execute(PAY, run.idempotency_key, run.attempt)
    return StepOutcome.Continue({run.step: run.attempt})


class Payments:
    """Each call of `pay` does what the next of `works` says, the last one over and over, and notes it."""

    def __init__(self, *works: Work) -> None:
        self._works = list(works) or [paid]
        self._noted = asyncio.Event()
        self.calls: list[tuple[str, int]] = []
        self.undone: list[str] = []

    async def run_step(self, run: WorkflowRun, step_name: str) -> object:
        if not run.transactional:
            return StepOutcome.Continue()
        self.calls.append((step_name, run.attempt))
        self._noted.set()
        work = self._works.pop(0) if len(self._works) > 1 else self._works[0]
        async with run.transaction() as database:
            return await work(run, database)

    async def compensate_step(self, run: WorkflowRun, step_name: str) -> None:
        self.undone.append(step_name)

    async def until_called(self, times: int = 1) -> None:
        async with within():
            while len(self.calls) < times:
                self._noted.clear()
                await self._noted.wait()

    def served(self, *steps: str, **fields: Json) -> Registry:
        """Workflow `order`: `pay`, with these fields, and the steps after it."""
        pay = step("pay", transactional=True, compensate_on_failure=True, **fields)
        return registry(plugin(self.run_step, workflow(pay, *steps), compensate_step=self.compensate_step))


async def made(url: str) -> None:
    """The tables of the store, whose journal tells in which transaction each row came, and the plugin's own table."""
    async with opened(url):
        await run_sql(url, f"{TABLE}; ALTER TABLE journal ADD COLUMN xact text DEFAULT pg_current_xact_id()::text")


async def payments(url: str) -> object:
    """How many there are."""
    return await ask(url, "SELECT count(*) FROM payments")


async def kinds(hosted: Hosted, run_id: str) -> Sequence[str]:
    """The journal, by its kinds."""
    return [event.kind for event in await hosted.journal(run_id)]
