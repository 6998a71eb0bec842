"""A host on a store that it shares begins work only while its lease surely holds; a lost lease ends what it does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from bext_workflow.errors import StoreUnavailable
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.plugin.registry import Registry
from bext_workflow.ports import telemetry as names
from bext_workflow.ports.hosting import Profile
from bext_workflow.testing.clock import FakeClock
from tests.integration.host.rigged import TROUBLE, RiggedStore
from tests.integration.host.support import PATIENT, Calls, Hosted, hosting, saga, step, workflow
from tests.unit.host.support import within

LEASE_MS = 9_000
TRUSTED_MS = 8_100
RENEWED_MS = 3_000
AGAIN_MS = 200


class LeasedStore(RiggedStore):
    """Leases hold or not as the test says; `answer` of None: the store does not answer."""

    def __init__(self) -> None:
        super().__init__(None)
        self.shared = True
        self.answer: bool | None = True
        self.joined: list[str] = []
        self.renewed: list[str] = []
        self._asked = asyncio.Event()

    @property
    def profile(self) -> Profile:
        return Profile(poll_ms=20, shared=self.shared)

    async def renew(self, host_id: str) -> bool:
        self.renewed.append(host_id)
        self._asked.set()
        if self.answer is None:
            raise StoreUnavailable(TROUBLE)
        return self.answer

    async def asked(self, times: int) -> None:
        """Waits until renewal has been asked for so often."""
        async with within():
            while len(self.renewed) < times:
                self._asked.clear()
                await self._asked.wait()


class Stage:
    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.clock = FakeClock()
        self.store = LeasedStore()

    async def waits(self, _: WorkflowRun) -> object:
        await self.gate.wait()
        return StepOutcome.Continue({"packed": True})

    @asynccontextmanager
    async def hosting(self, served: Registry) -> AsyncIterator[Hosted]:
        """A host that has renewed its lease once, at the time 0 of the clock."""
        await self.store.open(migrate=True)
        try:
            settings = replace(PATIENT, lease_ms=LEASE_MS)
            async with hosting(served, store=self.store, clock=self.clock, settings=settings) as hosted:
                if self.store.shared:
                    await self.store.asked(1)
                yield hosted
        finally:
            await self.store.close()

    async def silent(self, ms: int) -> None:
        """So long the store answers no renewal."""
        self.store.answer = None
        asked = len(self.store.renewed)
        self.clock.advance(ms)
        await self.store.asked(asked + 1)

    async def answers(self) -> None:
        asked = len(self.store.renewed)
        self.store.answer = True
        self.clock.advance(AGAIN_MS)
        await self.store.asked(asked + 1)


async def test_lease_is_renewed_in_time() -> None:
    stage = Stage()
    async with stage.hosting(saga(Calls())):
        for times in range(2, 5):
            stage.clock.advance(RENEWED_MS)
            await stage.store.asked(times)

        assert len(set(stage.store.renewed)) == 1


async def test_step_begins_while_the_lease_surely_holds() -> None:
    """P34: to the last moment."""
    stage = Stage()
    calls = Calls(pack=[stage.waits])
    async with stage.hosting(saga(calls)) as hosted:
        run_id = await hosted.start()
        await calls.until("pack")
        await stage.silent(TRUSTED_MS - 1)

        stage.gate.set()

        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED


async def test_no_step_begins_once_the_lease_may_have_run_out() -> None:
    """P34: what has begun goes on, its result counts, and the next step waits for the renewal."""
    stage = Stage()
    calls = Calls(pack=[stage.waits])
    async with stage.hosting(saga(calls)) as hosted:
        run_id = await hosted.start()
        await calls.until("pack")
        await stage.silent(TRUSTED_MS)

        stage.gate.set()
        await hosted.until_kind(run_id, "step_completed")
        await hosted.quiet()
        assert calls.made == ["pack"]

        await stage.answers()
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED
        assert calls.made == ["pack", "ship"]
        assert len(set(stage.store.renewed)) == 1


async def test_no_branch_begins_once_the_lease_may_have_run_out() -> None:
    """P34, of work side by side: one branch is through, and the other one still at work."""
    stage, right = Stage(), asyncio.Event()

    async def waits_longer(_: WorkflowRun) -> object:
        await right.wait()
        return StepOutcome.Continue({})

    ends = [step(name, next="end") for name in ("far", "right")]
    fork = workflow(step("pack", next=("left", "right")), step("left", next="far"), *ends)
    calls = Calls(left=[stage.waits], right=[waits_longer])
    async with stage.hosting(saga(calls, fork)) as hosted:
        run_id = await hosted.start()
        await calls.until("left")
        await calls.until("right")
        await stage.silent(TRUSTED_MS)

        stage.gate.set()
        await hosted.until_kind(run_id, "step_completed", 2)
        await hosted.quiet()
        assert "far" not in calls.made

        await stage.answers()
        await calls.until("far")
        right.set()
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED


async def test_run_that_is_started_meanwhile_is_nobodys() -> None:
    stage = Stage()
    calls = Calls()
    async with stage.hosting(saga(calls)) as hosted:
        await stage.silent(TRUSTED_MS)

        run_id = await hosted.start()
        await hosted.quiet()
        (row,) = await hosted.store.find(run_id)
        assert (row.owner, row.status, calls.made) == (None, WorkflowStatus.PENDING, [])

        await stage.answers()
        assert (await hosted.reaches(run_id, WorkflowStatus.COMPLETED)).status is WorkflowStatus.COMPLETED


async def test_call_whose_intent_took_too_long_waits_for_the_renewal() -> None:
    """P34, P4: the intent is durable, and nothing has acted; once the lease holds again, it does."""
    stage = Stage()
    calls = Calls()
    async with stage.hosting(saga(calls, workflow(step("pack", idempotent=False)))) as hosted:
        stage.store.close_gate()
        starting = asyncio.ensure_future(hosted.start())
        await stage.store.reached()
        stage.store.let_one_through()
        run_id = await starting
        await stage.store.reached()
        await stage.silent(TRUSTED_MS)

        stage.store.open_gate()
        await hosted.until_kind(run_id, "attempt_started")
        await hosted.quiet()
        assert calls.made == []

        await stage.answers()
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED
        assert calls.made == ["pack"]


async def test_lost_lease_ends_what_runs_and_another_host_comes_back() -> None:
    """P33: what it drove is let go, and taken up like a dead host's."""
    stage = Stage()
    calls = Calls(pack=[stage.waits])
    async with stage.hosting(saga(calls)) as hosted:
        first = hosted.host.host_id
        run_id = await hosted.start()
        await calls.until("pack")
        stage.store.answer = False
        stage.clock.advance(RENEWED_MS)

        lost = await hosted.telemetry.heard(names.HOST_LEASE_LOST)
        assert lost["host_id"] == first
        assert (await hosted.telemetry.heard(names.LEASE_LOST))["run_id"] == run_id
        stage.store.answer = True
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED

        assert [run.idempotency_key for run in calls.of("pack")] == [f"{run_id}:pack"] * 2
        assert "recovered" in await hosted.kinds(run_id)
        (row,) = await hosted.store.hosts()
        assert row.host_id == hosted.host.host_id != first
        assert hosted.telemetry.value(names.RESULTS_DISCARDED) == 1


async def test_run_that_was_begun_under_a_lost_lease_is_driven_once() -> None:
    """P32: its commit came after the loss."""
    stage = Stage()
    calls = Calls()
    async with stage.hosting(saga(calls)) as hosted:
        stage.store.close_gate()
        starting = asyncio.ensure_future(hosted.start())
        await stage.store.reached()
        stage.store.answer = False
        stage.clock.advance(RENEWED_MS)
        await hosted.telemetry.heard(names.HOST_LEASE_LOST)
        stage.store.answer = True

        stage.store.open_gate()
        run_id = await starting
        hosted.host.wake()

        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED
        assert calls.made == ["pack", "ship"]
        assert "recovered" in await hosted.kinds(run_id)


async def test_drain_does_not_wait_for_a_renewal() -> None:
    stage = Stage()
    calls = Calls(pack=[stage.waits])
    async with within(), stage.hosting(saga(calls)) as hosted:
        run_id = await hosted.start()
        await calls.until("pack")
        await stage.silent(TRUSTED_MS)
        stage.gate.set()
        await hosted.until_kind(run_id, "step_completed")

        hosted.host.drain()
        await hosted.host.idle()

        (row,) = await hosted.store.find(run_id)
        assert row.owner is None
        assert calls.made == ["pack"]


@pytest.mark.parametrize("ms", [TRUSTED_MS, 10 * LEASE_MS])
async def test_host_that_drives_alone_has_nothing_to_renew(ms: int) -> None:
    stage = Stage()
    stage.store.shared = False
    calls = Calls()
    async with stage.hosting(saga(calls)) as hosted:
        stage.clock.advance(ms)

        assert (await hosted.settled(await hosted.start())).status is WorkflowStatus.COMPLETED
        assert stage.store.renewed == []
