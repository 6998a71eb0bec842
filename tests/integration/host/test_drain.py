"""How a host ends: what runs may finish, nothing new starts, what is left is given back (semantics §11; P50)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from bext_workflow.errors import PluginError
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.plugin.registry import Plugin
from bext_workflow.ports import telemetry as names
from bext_workflow.ports.store import Claimed, HostRow
from tests.integration.host.rigged import RiggedStore
from tests.integration.host.support import (
    SETTINGS,
    Calls,
    desk,
    hosting,
    opened,
    plugin,
    registry,
    saga,
    step,
    workflow,
)
from tests.unit.host.support import within

UNHURRIED = replace(SETTINGS, drain_timeout_ms=10_000)

RUNNING, COMPLETED, PENDING = WorkflowStatus.RUNNING, WorkflowStatus.COMPLETED, WorkflowStatus.PENDING


class Gate:
    """A step that stands at a gate."""

    def __init__(self) -> None:
        self.open = asyncio.Event()

    async def __call__(self, _: WorkflowRun) -> object:
        await self.open.wait()
        return StepOutcome.Continue({"finished": True})


async def test_the_running_attempt_ends_and_is_committed_and_nothing_new_starts(tmp_path: Path) -> None:
    """P50"""
    path, gate = tmp_path / "bext.db", Gate()
    calls = Calls(pack=[gate])
    async with hosting(saga(calls), path, settings=UNHURRIED) as hosted, within():
        run_id = await hosted.start()
        await calls.until("pack")
        hosted.host.drain()
        winding = asyncio.create_task(hosted.host.wound_down())
        await hosted.quiet()
        assert not winding.done()
        assert hosted.host.readiness().reasons == ["the host is draining"]
        gate.open.set()
        await winding
    async with desk(saga(calls), path) as alone:
        (row,) = await alone.store.find(run_id)
        assert (row.status, row.owner) == (RUNNING, None)
        assert row.wake_at is not None
        assert await alone.kinds(run_id) == ["run_created", "step_completed"]
        assert await alone.store.hosts() == []
    assert calls.made == ["pack"]
    async with hosting(saga(calls), path) as hosted:
        assert (await hosted.settled(run_id)).status is COMPLETED
        assert "recovered" not in await hosted.kinds(run_id)
    assert calls.made == ["pack", "ship"]


async def test_what_does_not_end_in_time_is_cut_off_and_is_an_orphan_then(tmp_path: Path) -> None:
    """P50: as after a crash; of a step that must not be repeated that means in doubt."""
    path = tmp_path / "bext.db"
    calls = Calls(pack=[Gate()], pay=[Gate()])
    served = saga(calls, workflow("pack"), workflow(step("pay", idempotent=False), id_="once"))
    async with hosting(served, path, settings=replace(SETTINGS, drain_timeout_ms=20)) as hosted:
        repeatable, once = await hosted.start(), await hosted.start("once")
        await calls.until("pack")
        await calls.until("pay")
    async with hosting(served, path) as hosted:
        assert (await hosted.settled(repeatable)).status is COMPLETED
        assert "recovered" in await hosted.kinds(repeatable)
        assert (await hosted.reaches(once, WorkflowStatus.SUSPENDED)).status is WorkflowStatus.SUSPENDED
    assert calls.made.count("pack") == 2
    assert calls.made.count("pay") == 1


async def test_runs_that_rest_or_wait_for_room_are_given_back_at_once(tmp_path: Path) -> None:
    path = tmp_path / "bext.db"
    calls = Calls(pack=[StepOutcome.Retry(after_ms=900)])
    async with hosting(saga(calls), path, settings=UNHURRIED, concurrency=1) as hosted:
        resting = await hosted.start()
        await hosted.until_kind(resting, "attempt_failed")
        waiting = await hosted.start()
        async with within(3):
            hosted.host.drain()
            await hosted.host.wound_down()
        for run_id, status in ((resting, RUNNING), (waiting, PENDING)):
            (row,) = await hosted.store.find(run_id)
            assert (row.status, row.owner) == (status, None)
    assert calls.made == ["pack"]


async def test_while_the_host_drains_starts_and_acts_are_taken_and_wait(tmp_path: Path) -> None:
    """P50: operator commands still work."""
    path, gate = tmp_path / "bext.db", Gate()
    calls = Calls(pack=[gate])
    async with hosting(saga(calls), path, settings=UNHURRIED) as hosted:
        running = await hosted.start()
        await calls.until("pack")
        hosted.host.drain()
        started = await hosted.start()
        assert await hosted.status(started) is PENDING
        await hosted.cancel(running)
        gate.open.set()
        async with within():
            await hosted.host.wound_down()
    async with hosting(saga(calls), path) as hosted:
        await hosted.reaches(running, WorkflowStatus.COMPENSATED)
        await hosted.reaches(started, COMPLETED)
    assert sorted(calls.made) == ["pack", "pack", "ship", "undo_pack"], "one attempt each: the result in hand counted"


async def test_cancel_now_still_reaches_an_attempt_while_the_host_drains() -> None:
    calls = Calls(pack=[Gate()])
    async with hosting(saga(calls), settings=UNHURRIED) as hosted:
        run_id = await hosted.start()
        await calls.until("pack")
        hosted.host.drain()
        await hosted.cancel(run_id, now=True)
        async with within(3):
            await hosted.host.wound_down()
        assert (await hosted.settled(run_id)).status is WorkflowStatus.CANCELLED


class SlowClaims(RiggedStore):
    """What it claims takes its time to arrive."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.claiming = asyncio.Event()
        self.go_on = asyncio.Event()

    async def claim(
        self,
        owner: str,
        served: Collection[tuple[str, int]],
        *,
        now: int,
        limit: int,
        only: Collection[str] | None = None,
    ) -> Sequence[Claimed]:
        claimed = await super().claim(owner, served, now=now, limit=limit, only=only)
        if claimed:
            self.claiming.set()
            await self.go_on.wait()
        return claimed


async def test_what_was_being_claimed_as_the_drain_began_is_given_back(tmp_path: Path) -> None:
    """It never ran: it must not look like an orphan."""

    path = tmp_path / "bext.db"
    calls = Calls()
    served = saga(calls)
    async with desk(served, path) as alone:
        run_id = await alone.start()
    store = SlowClaims(path)
    await store.open(migrate=True)
    async with hosting(served, store=store, settings=UNHURRIED) as hosted, within():
        await store.claiming.wait()
        hosted.host.drain()
        winding = asyncio.create_task(hosted.host.wound_down())
        await hosted.quiet()
        assert not winding.done()
        store.go_on.set()
        await winding
    await store.close()
    async with desk(served, path) as alone:
        (row,) = await alone.store.find(run_id)
        assert (row.owner, row.status) == (None, PENDING)
    assert calls.made == []


@pytest.mark.tier("ci")
async def test_a_drain_ends_in_time_with_a_store_that_does_not_answer() -> None:
    """P50: within the drain time-out and 5 s."""
    gate = Gate()
    calls = Calls(pack=[gate])
    async with opened() as store:
        async with (
            within(6),
            hosting(saga(calls), store=store, settings=replace(SETTINGS, drain_timeout_ms=50)) as hosted,
        ):
            await hosted.start()
            await calls.until("pack")
            store.down = True
            gate.open.set()
            await hosted.telemetry.heard(names.STORE_UNAVAILABLE)
        store.down = False


async def test_the_last_commits_are_made_before_the_host_is_gone(tmp_path: Path) -> None:
    """The seat is free only after them."""
    path, gate = tmp_path / "bext.db", Gate()
    calls = Calls(pack=[gate])
    order: list[str] = []

    class Noting(RiggedStore):
        async def leave(self, host_id: str) -> None:
            order.append("left")
            await super().leave(host_id)

    store = Noting(path)
    await store.open(migrate=True)
    async with hosting(saga(calls, workflow("pack")), store=store, settings=UNHURRIED) as hosted:
        run_id = await hosted.start()
        await calls.until("pack")

        async def note(number: int, after: bool) -> None:
            if after:
                order.append("committed")

        store.around = note
        gate.open.set()
    assert order == ["committed", "left"]
    assert (await store.find(run_id))[0].status is COMPLETED
    await store.close()


async def test_host_events_come_in_their_order() -> None:
    async with hosting(saga(Calls())) as hosted:
        telemetry = hosted.telemetry
        assert [event for event, _ in telemetry.events] == [names.HOST_STARTED]
        hosted.host.drain()
        hosted.host.drain()
    assert [event for event, _ in telemetry.events] == [names.HOST_STARTED, names.HOST_DRAINING, names.HOST_STOPPED]


# Lifespans


def with_lifespan(order: list[str], name: str, fails: str = "") -> Plugin:
    calls = Calls()

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        order.append(f"{name} opens")
        if fails == "open":
            raise ConnectionRefusedError("no database")
        yield
        order.append(f"{name} closes")
        if fails == "close":
            raise ConnectionResetError("gone")

    return plugin(calls.run_step, workflow("pack", id_=name), name=name, lifespan=lifespan)


async def test_plugins_open_before_the_first_call_and_close_after_the_last_in_reverse() -> None:
    order: list[str] = []
    async with hosting(registry(with_lifespan(order, "one"), with_lifespan(order, "other"))) as hosted:
        assert order == ["one opens", "other opens"]
        await hosted.settled(await hosted.start("one"))
    assert order == ["one opens", "other opens", "other closes", "one closes"]


async def test_a_plugin_that_cannot_open_is_one_clear_error_and_the_others_close(tmp_path: Path) -> None:
    order: list[str] = []
    served = registry(with_lifespan(order, "one"), with_lifespan(order, "other", fails="open"))
    async with opened(tmp_path / "bext.db") as store:
        with pytest.raises(
            PluginError, match="plugin 'other' cannot start: its lifespan raised ConnectionRefusedError"
        ) as caught:
            async with hosting(served, store=store):
                pytest.fail("the host must not come up")
        assert caught.value.mend
        assert order == ["one opens", "other opens", "one closes"]
        assert await store.hosts() == []


async def test_a_plugin_that_does_not_close_well_is_named_and_the_others_close() -> None:
    order: list[str] = []
    with pytest.raises(PluginError, match="plugin 'other' did not close well"):
        async with hosting(registry(with_lifespan(order, "one"), with_lifespan(order, "other", fails="close"))):
            pass
    assert order[-2:] == ["other closes", "one closes"]


async def test_a_host_is_listed_with_what_it_serves_while_it_is_there(tmp_path: Path) -> None:
    served = saga(Calls())
    async with hosting(served, tmp_path / "bext.db") as hosted:
        (row,) = await hosted.store.hosts()
        assert isinstance(row, HostRow)
        assert row.host_id == hosted.host.host_id
        assert {(workflow, version) for workflow, version, _ in row.served} == set(served.served)


class HeldClaims(RiggedStore):
    """A claim that is made, and whose answer takes as long as the test says."""

    def __init__(self) -> None:
        super().__init__(None)
        self.claimed = asyncio.Event()
        self.answer = asyncio.Event()

    async def claim(
        self,
        owner: str,
        served: Collection[tuple[str, int]],
        *,
        now: int,
        limit: int,
        only: Collection[str] | None = None,
    ) -> Sequence[Claimed]:
        claimed = await super().claim(owner, served, now=now, limit=limit, only=only)
        if claimed:
            self.claimed.set()
            await self.answer.wait()
        return claimed


async def test_a_claim_that_ends_as_the_host_lets_go_begins_nothing() -> None:
    """P50: the end of the host is no error, and the run is another's to take up."""
    store, calls = HeldClaims(), Calls()
    await store.open(migrate=True)
    try:
        async with hosting(saga(calls), store=store, concurrency=1) as hosted:
            hosted.host._dispatcher.reserve("a run that leaves no room")
            run_id = await hosted.start()
            hosted.host._dispatcher.forget("a run that leaves no room")
            await store.claimed.wait()
            hosted.host.drain()
            await hosted.host.wound_down()
            store.answer.set()
        async with hosting(saga(calls), store=store) as hosted:
            await hosted.reaches(run_id, COMPLETED)
    finally:
        await store.close()
    assert calls.made == ["pack", "ship"]
