"""How a command reaches a service: straight on the store, or over HTTP. Its code path is the same for both."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, redirect_stdout

import structlog

from bext_workflow.app.parts import Parts, load, os_user
from bext_workflow.client import HttpClient
from bext_workflow.errors import StoreBusy
from bext_workflow.host.host import Host
from bext_workflow.host.telemetry import HostTelemetry
from bext_workflow.model.access import Caller, person
from bext_workflow.model.view import RunView
from bext_workflow.ports.clock import Clock
from bext_workflow.service.administration import Audit, Hosts, Tokens, Webhooks
from bext_workflow.service.engine import Engine, StoreEngine, stands_still
from bext_workflow.service.protocols import Approvals, Operations, Runs, Schedules, Workflows
from bext_workflow.service.wiring import Reached, Target

_SLICE_MS = 30_000

_LOOK_MS = 500
"""How soon a command that waits for a host notices that there is none any more."""


@asynccontextmanager
async def reach(target: Target, clock: Clock) -> AsyncIterator[Reached]:
    """Opens a service for one command."""
    if target.url is not None:
        async with HttpClient(target.url, target.token) as client:
            yield Remote(target.url, client)
        return
    parts = load(target.config, degraded=True, clock=clock)
    await parts.store.open(migrate=False)
    try:
        yield Direct(parts)
    finally:
        await parts.store.close()


class Remote:
    """A host, by its URL."""

    def __init__(self, url: str, client: HttpClient) -> None:
        self.url: str | None = url
        self.runs: Runs = client
        self.operations: Operations = client
        self.workflows: Workflows = client
        self.schedules: Schedules = client
        self.approvals: Approvals = client
        self.tokens: Tokens = client
        self.audit: Audit = client
        self.webhooks: Webhooks = client
        self.hosts: Hosts = client

    async def drive(self, run_id: str, *, wait_ms: int | None) -> RunView:
        """The host drives; this waits."""
        while True:
            run = await self.runs.result(run_id, wait_ms=_SLICE_MS if wait_ms is None else wait_ms)
            if wait_ms is not None or stands_still(run.status):
                return run


class Direct:
    """The store itself, with or without a host elsewhere."""

    def __init__(self, parts: Parts) -> None:
        self.url: str | None = None
        self._parts = parts
        user = person(os_user())

        def who() -> Caller:
            return user

        service = parts.service(StoreEngine(parts.store, parts.clock), who=who)
        self.runs: Runs = service
        self.operations: Operations = service
        self.workflows: Workflows = parts.catalog()
        self.schedules: Schedules = parts.schedules(service, who=who)
        self.approvals: Approvals = parts.approvals(service, who=who)
        self.tokens: Tokens = parts.tokens(who=who)
        self.audit: Audit = parts.audit(service)
        self.webhooks: Webhooks = parts.webhooks(who=who)
        self.hosts: Hosts = parts.hosts()

    async def drive(self, run_id: str, *, wait_ms: int | None) -> RunView:
        """Waits for the host if there is one; else takes the driver's seat for this one run (semantics §11).

        It looks again now and then: the host may go, and the one that was there may have driven another run alone.
        """
        whole_id = (await self.runs.get(run_id)).run_id
        left_ms = wait_ms
        while True:
            if not await self._parts.store.hosts():
                try:
                    return await self._drive_alone(whole_id, left_ms)
                except StoreBusy:
                    pass  # a host has come up in between: it drives
            slice_ms = _LOOK_MS if left_ms is None else min(left_ms, _LOOK_MS)
            run = await self._wait(whole_id, StoreEngine(self._parts.store, self._parts.clock), slice_ms)
            left_ms = None if left_ms is None else left_ms - slice_ms
            if stands_still(run.status) or (left_ms is not None and left_ms <= 0):
                return run

    async def _drive_alone(self, run_id: str, wait_ms: int | None) -> RunView:
        logger = structlog.wrap_logger(
            structlog.PrintLogger(), wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL)
        )
        host: Host = self._parts.host(HostTelemetry(logger), self._parts.settings(), only=run_id)
        with redirect_stdout(sys.stderr):  # as in `load`
            async with host.running():
                run = await self._wait(run_id, host, wait_ms)
                if stands_still(run.status):
                    await host.idle()  # what follows an ending, such as `on_workflow_complete`, is part of the drive
        return await self.runs.get(run_id)

    async def _wait(self, run_id: str, engine: Engine, wait_ms: int | None) -> RunView:
        until = None if wait_ms is None else self._parts.clock.monotonic() + wait_ms / 1000
        while True:
            run = await self.runs.get(run_id)
            left_ms = _SLICE_MS if until is None else int((until - self._parts.clock.monotonic()) * 1000)
            if stands_still(run.status) or left_ms <= 0:
                return run
            await engine.settled(run_id, wait_ms=min(left_ms, _SLICE_MS))
