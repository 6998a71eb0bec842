"""Leases of hosts in one process over one database (semantics §11)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from time import monotonic
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.plugin.registry import Registry
from plugins.workflow_pg.tests.databases import at, fresh_database
from plugins.workflow_pg.tests.hosted import SETTINGS, Desk, hosting, opened
from plugins.workflow_pg.tests.proxy import Proxy, proxied
from tests.integration.host.support import plugin, registry, workflow

pytestmark = pytest.mark.tier("ci")

PAUSE_S = 0.02


def of(run_step: Callable[..., object], *ids: str) -> Registry:
    """A plugin with workflows of one step."""
    return registry(plugin(run_step, *(workflow("pack", id_=id_) for id_ in ids or ("order",))))


class Turnstile:
    """A plain step, of which the first call waits; it notes when each begins, and whether the way was open then."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self.may_end = threading.Event()
        self.began: list[tuple[float, bool]] = []

    def run_step(self, run: WorkflowRun, step_name: str) -> StepOutcome:
        self.began.append((monotonic(), self._proxy.flowing.is_set()))
        self.may_end.wait()
        return StepOutcome.Continue({step_name: run.attempt})


async def test_host_that_cannot_renew_begins_nothing_when_its_lease_has_run_out(local_server: str) -> None:
    """P34: a step gets its thread while the host hears nothing; it begins when the host is back, as another one."""
    lease_s = 1.0
    settings = replace(SETTINGS, lease_ms=int(lease_s * 1000), threads=1)
    async with fresh_database(local_server) as database, proxied(urlsplit(local_server).port or 5432) as proxy:
        step = Turnstile(proxy)
        async with hosting(at(local_server, port=proxy.port, database=database), of(step.run_step), settings) as hosted:
            runs = [await hosted.start(key=f"k-{number}") for number in range(2)]
            first, silent_from = hosted.host.host_id, monotonic()
            proxy.flowing.clear()
            await asyncio.sleep(1.5 * lease_s)
            step.may_end.set()
            await asyncio.sleep(lease_s / 2)
            proxy.flowing.set()
            for run_id in runs:
                assert (await hosted.ended(run_id)).context == {"pack": 1}

            assert hosted.host.host_id != first
            assert [at_s for at_s, open_ in step.began if not open_ and at_s > silent_from + lease_s] == []


async def test_long_step_of_a_living_host_is_nobody_elses(url: str) -> None:
    """P35: it takes several times the lease, which is renewed; a second host that looks often lets it be."""
    settings = replace(SETTINGS, lease_ms=3_000)
    may_end, began = asyncio.Event(), list[str]()

    async def run_step(run: WorkflowRun, step_name: str) -> StepOutcome:
        began.append(f"{run.run_id}:{step_name}")
        await may_end.wait()
        return StepOutcome.Continue()

    async with hosting(url, of(run_step), settings) as one, hosting(url, of(run_step), settings):
        run_id = await one.start(key="k")
        await asyncio.sleep(3 * settings.lease_ms / 1000)
        may_end.set()
        assert (await one.ended(run_id)).status is WorkflowStatus.COMPLETED

    assert began == [f"{run_id}:pack"]


async def test_host_leaves_alone_what_it_does_not_serve(url: str) -> None:
    """P36: a run waits, untouched, for a host that has its workflow."""
    began = list[str]()

    async def run_step(run: WorkflowRun, step_name: str) -> StepOutcome:
        del step_name
        began.append(run.workflow)
        return StepOutcome.Continue()

    async with opened(url) as store, hosting(url, of(run_step, "order")) as one:
        desk = Desk(store, of(run_step, "order", "question"))
        theirs = await desk.start("question", key="q")
        for number in range(3):
            await one.ended(await desk.start("order", key=f"o-{number}"))
        run = await desk.service.get(theirs)
        assert (run.status, run.failure, began) == (WorkflowStatus.PENDING, None, ["order"] * 3)

        async with hosting(url, of(run_step, "order", "question")):
            assert (await desk.ended(theirs)).status is WorkflowStatus.COMPLETED
    assert began == ["order"] * 3 + ["question"]
