"""One life of a host process: it starts, takes an order, drives it until only a person could move it, and drains.

Whatever happened in earlier lives, a life does the same: it sends the order with the same start key, as a customer does
who got no answer, and gives the answers that it was told to give to incidents.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from pathlib import Path
from typing import cast

import msgspec
import structlog

import bext_workflow_pg
from bext_workflow import StepOutcome
from bext_workflow.app.parts import Parts, load
from bext_workflow.errors import Conflict
from bext_workflow.host.clock import SystemClock
from bext_workflow.host.host import Host
from bext_workflow.host.telemetry import HostTelemetry
from bext_workflow.model.access import person
from bext_workflow.model.json import JsonObject
from bext_workflow.model.status import Action, IncidentKind
from bext_workflow.model.view import EventView, RunView
from bext_workflow.service.engine import StoreEngine, stands_still
from bext_workflow.service.protocols import CancelRequest, ResolveRequest, RunQuery, StartRequest
from bext_workflow.service.service import Service
from bext_workflow.stores.sqlite.store import SqliteStore
from tests.acceptance.points import Points, WatchedCheckout, WatchedStore, WatchedToTheEnd

BY = "ada"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a person answers to an incident."""

    action: Action
    updates: JsonObject = {}


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """What one process is to do. `folder` holds the config, `number` tells this life from others in the same folder.

    `fatal`: the point at which the process kills itself. `waits`: the order is in the store before a host is there.
    `spoilt`: what becomes of the charge's return, "KeyError" or "None". `cancel`: the run is cancelled while the card
    is charged, "plain" or "now"; `drains`: the host is told to drain then. `told_of_the_end`: the plugin has the hook
    `on_workflow_complete`.
    """

    folder: str
    number: int
    order: JsonObject
    fatal: str | None = None
    answers: dict[IncidentKind, Answer] = {}
    waits: bool = False
    spoilt: str | None = None
    cancel: str | None = None
    drains: bool = False
    told_of_the_end: bool = False


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a process that was not killed tells: the points it passed, the journal as it found and as it left it."""

    number: int
    points: list[str]
    found: list[EventView]
    journal: list[EventView]
    run: RunView


def live(life: Life) -> Told:
    """Lives that life in this process."""
    return asyncio.run(_Life(life).whole())


class _Life:
    def __init__(self, life: Life) -> None:
        self._life = life
        self._points = Points(life.fatal)
        self._charged = asyncio.Event()
        self._may_return = threading.Event()
        self._answered: set[str] = set()

    async def whole(self) -> Told:
        parts, store = self._parts()
        await store.open(migrate=True)
        try:
            on_store = parts.service(StoreEngine(parts.store, parts.clock), who=lambda: person(BY))
            found = await _journal(on_store)
            # The points must come in the same order each time: no commit of a start beside those of a driver.
            sent = await on_store.start(self._order()) if self._life.waits or found else None
            host = parts.host(_silent(), parts.settings())
            async with host.running():
                service = parts.service(host, who=lambda: person(BY))
                await store.looked.wait()
                started = sent or await service.start(self._order())
                run = await self._drive(host, service, store, started.run.run_id)
                await host.idle()
            return Told(
                number=self._life.number,
                points=self._points.passed,
                found=found,
                journal=await _journal(on_store),
                run=run,
            )
        finally:
            await store.close()

    def _parts(self) -> tuple[Parts, WatchedStore]:
        """The real parts, with the points at which the process may die in their seams."""
        folder = Path(self._life.folder)
        watched = WatchedToTheEnd if self._life.told_of_the_end else WatchedCheckout
        loop = asyncio.get_running_loop()
        vars(bext_workflow_pg)["plugin"] = watched(
            self._points, folder / "calls.jsonl", self._life.number, lambda outcome: self._after_charge(loop, outcome)
        )
        parts = load(folder / "bext.config.toml", degraded=False, clock=SystemClock())
        if not isinstance(parts.store, SqliteStore) or parts.store.path is None:
            raise TypeError("the config names another store than a SQLite file")
        store = WatchedStore(parts.store.path, self._points)
        return msgspec.structs.replace(parts, store=store), store

    def _after_charge(self, loop: asyncio.AbstractEventLoop, outcome: StepOutcome) -> StepOutcome:
        if self._life.cancel is not None or self._life.drains:
            loop.call_soon_threadsafe(self._charged.set)
            self._may_return.wait()
        match self._life.spoilt:
            case None:
                return outcome
            case "None":
                return cast(StepOutcome, None)  # as a step does that forgets to return
            case _:
                raise KeyError("charge")

    def _order(self) -> StartRequest:
        return StartRequest(workflow="checkout", context=self._life.order, key="order-1")

    async def _drive(self, host: Host, service: Service, store: WatchedStore, run_id: str) -> RunView:
        if self._life.drains:
            await self._drain_during_the_charge(host)
            return await service.get(run_id)
        async with asyncio.TaskGroup() as tasks:
            canceller = tasks.create_task(self._cancel_the_charge(service, store, run_id))
            run = await self._stand_still(host, service, run_id)
            canceller.cancel()
        if self._charged.is_set() and not self._may_return.is_set():
            self._may_return.set()
            await self._late_result(host, service, run_id)
        return run

    async def _drain_during_the_charge(self, host: Host) -> None:
        await self._charged.wait()
        host.drain()
        self._may_return.set()
        await host.wound_down()

    async def _cancel_the_charge(self, service: Service, store: WatchedStore, run_id: str) -> None:
        await self._charged.wait()
        now = self._life.cancel == "now"
        await service.cancel(run_id, CancelRequest(reason="changed my mind", now=now))
        if not now:
            await store.next_look()
            await store.next_look()  # In the first one the host has seen the cancel.
            self._may_return.set()

    async def _late_result(self, host: Host, service: Service, run_id: str) -> None:
        """Waits until the result of the attempt that was given up is with the incident."""
        while True:
            told = host.settlements.next(run_id)
            (incident,) = (await service.incidents(run_id=run_id)).items
            if incident.evidence is not None:
                return
            await told

    async def _stand_still(self, host: Host, service: Service, run_id: str) -> RunView:
        """The run, once it has ended or waits for an answer that this life does not have."""
        while True:
            told = host.settlements.next(run_id)
            run = await service.get(run_id)
            still = stands_still(run.status) and await self._is_told(service, run_id)
            if still and not await self._answer(service, run):
                return run
            await told

    async def _is_told(self, service: Service, run_id: str) -> bool:
        """Whether the plugin has been told of every ending that it wants to hear of."""
        events = (await service.events(run_id, limit=500)).items
        endings = [event for event in events if event.data.get("notify")]
        return len(endings) == [event.kind for event in events].count("completion_settled")

    async def _answer(self, service: Service, run: RunView) -> bool:
        """Gives the answers that are known, each once; false if the run waits for none of them."""
        answered = False
        for incident_id in run.holds or ():
            incident = await service.incident(incident_id)
            answer = self._life.answers.get(incident.kind)
            if answer is None:
                continue
            answered = True
            if incident_id in self._answered:
                continue
            self._answered.add(incident_id)
            request = ResolveRequest(action=answer.action, note="I looked", context_updates=answer.updates)
            # In conflict: it was answered before this process began, and the answer is on its way.
            with suppress(Conflict):
                await service.resolve(incident_id, request)
        return answered


def _silent() -> HostTelemetry:
    return HostTelemetry(
        structlog.wrap_logger(
            structlog.PrintLogger(), wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL)
        )
    )


async def _journal(service: Service) -> list[EventView]:
    """The journal of the one run that there is."""
    runs = (await service.list(RunQuery())).items
    if len(runs) > 1:
        raise AssertionError(f"one order made {len(runs)} runs")
    return (await service.events(runs[0].run_id, limit=500)).items if runs else []
