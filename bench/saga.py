"""The saga of three trivial, idempotent steps without a completion hook: four commits forward, six with its undo."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bext_workflow import StepDefinition, StepOutcome, WorkflowDefinition, WorkflowRun
from bext_workflow.app.collector import calm_collector
from bext_workflow.app.logs import logger_for
from bext_workflow.host.clock import SystemChance, SystemClock
from bext_workflow.host.host import Host, HostSettings
from bext_workflow.host.telemetry import HostTelemetry
from bext_workflow.model.access import person
from bext_workflow.model.wait import WaitDefinition
from bext_workflow.plugin.hooks import Hook
from bext_workflow.plugin.registry import Plugin, Registry, Served
from bext_workflow.ports.store import Store
from bext_workflow.service.catalog import Catalog
from bext_workflow.service.service import Service

STEPS = ("reserve_stock", "charge_card", "send_receipt")
CONTEXT = {"order_id": "o-1", "sku": "widget", "quantity": 1, "payment_method": "pm_ok", "email": "a@b.c", "note": "-"}
DEFINITION = WorkflowDefinition(id="saga", steps=tuple(StepDefinition(name=name) for name in STEPS))
WAITING = WorkflowDefinition(id="waiting", steps=(StepDefinition(name="hold", wait=WaitDefinition(signal="go")),))
LOOP = WorkflowDefinition(id="loop", steps=(StepDefinition(name="turn", branches=("turn", "end")),))
LOOP_TURNS = 1_000
SLOW = WorkflowDefinition(id="slow", steps=tuple(StepDefinition(name=name) for name in STEPS))
SLOW_STEP_S = 0.05
ROLLED_BACK = WorkflowDefinition(id="rolled_back", steps=tuple(StepDefinition(name=name) for name in STEPS))


async def run_step(run: WorkflowRun, step_name: str) -> StepOutcome:
    """Works at once, but for the steps of `slow`; the last step of `rolled_back` fails."""
    if step_name == "turn":
        return StepOutcome.Continue({"turn": run.visit}, next="turn" if run.visit < LOOP_TURNS else "end")
    if run.workflow == "slow":
        await asyncio.sleep(SLOW_STEP_S)
    if step_name == "send_receipt" and run.workflow == "rolled_back":
        return StepOutcome.Fail("mail down", compensate=True)
    return StepOutcome.Continue({f"{step_name}_id": "r-123456"})


async def compensate_step(run: WorkflowRun, step_name: str) -> None:
    """Undoes at once."""


def registry() -> Registry:
    """The workflows of one plugin, without any of pluggy."""
    definitions = (DEFINITION, ROLLED_BACK, LOOP, WAITING, SLOW)
    plugin = Plugin(
        name="bench",
        distribution="bench",
        version="0",
        entry_point="bench",
        hooks=frozenset({"run_step", "compensate_step"}),
        definitions=definitions,
        run_step=Hook(run_step, is_async=True),
        compensate_step=Hook(compensate_step, is_async=True),
    )
    return Registry(plugins=(plugin,), served={(one.id, one.version): Served(one, plugin) for one in definitions})


@asynccontextmanager
async def hosting(store: Store, *, concurrency: int = 1_000) -> AsyncIterator[tuple[Host, Service]]:
    """A host over a store that is not open yet, and the service in front of it."""
    known = registry()
    clock, chance = SystemClock(), SystemChance()
    host = Host(
        store=store,
        registry=known,
        settings=HostSettings(concurrency=concurrency),
        clock=clock,
        chance=chance,
        telemetry=HostTelemetry(logger_for("json", -1)),
    )
    service = Service(
        store=store,
        engine=host,
        catalog=Catalog(known),
        clock=clock,
        chance=chance,
        context_bytes=1_048_576,
        who=lambda: person("bench"),
    )
    calm_collector()
    await store.open(migrate=True)
    try:
        async with host.running():
            yield host, service
    finally:
        await store.close()
