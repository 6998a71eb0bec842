"""Which runs are driven, by which plugin, how many at once, in which order (architecture "The way of a run"; P36)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bext_workflow.errors import NotFound
from bext_workflow.host.committer import MAX_BATCH
from bext_workflow.host.dispatcher import CLAIM_BATCH
from bext_workflow.host.driver import Driver
from bext_workflow.host.progress import Held
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.testing.clock import FakeClock
from tests.integration.host.support import Calls, desk, hosting, plugin, registry, saga, step, workflow
from tests.unit.host.support import within

COMPLETED, PENDING = WorkflowStatus.COMPLETED, WorkflowStatus.PENDING


class Turnstile:
    """A step that counts how many of it are inside at once."""

    def __init__(self) -> None:
        self.inside = 0
        self.most = 0
        self.entered: list[str] = []
        self.open = asyncio.Event()
        self._noted = asyncio.Event()

    async def run_step(self, run: WorkflowRun, step_name: str) -> object:
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.entered.append(run.run_id)
        self._noted.set()
        try:
            await self.open.wait()
            await asyncio.sleep(0)
        finally:
            self.inside -= 1
        return StepOutcome.Continue()

    async def until(self, inside: int) -> None:
        async with within():
            while self.inside < inside:
                self._noted.clear()
                await self._noted.wait()


async def test_no_more_runs_are_driven_at_once_than_the_host_may() -> None:
    turnstile = Turnstile()
    async with hosting(registry(plugin(turnstile.run_step)), concurrency=3) as hosted:
        started = [await hosted.start() for _ in range(10)]
        await turnstile.until(3)
        await hosted.quiet()
        assert [await hosted.status(run_id) for run_id in started[3:]] == [PENDING] * 7
        assert turnstile.entered == started[:3]
        turnstile.open.set()
        for run_id in started:
            assert (await hosted.reaches(run_id, COMPLETED)).status is COMPLETED
        assert turnstile.most == 3


async def test_runs_that_wait_for_room_are_claimed_in_their_order() -> None:
    turnstile = Turnstile()
    clock = FakeClock()
    async with hosting(registry(plugin(turnstile.run_step, workflow("pack"))), clock=clock, concurrency=1) as hosted:
        started = []
        for _ in range(6):
            started.append(await hosted.start())
            clock.advance(1)
        turnstile.open.set()
        await hosted.reaches(started[-1], COMPLETED)
        assert turnstile.entered == started


async def test_more_runs_than_one_claim_takes_are_all_driven(tmp_path: Path) -> None:
    calls = Calls()
    served = saga(calls, workflow("pack"))
    number = CLAIM_BATCH + 20
    assert number < MAX_BATCH
    async with desk(served, tmp_path / "bext.db") as alone:
        for _ in range(number):
            await alone.start()
    async with hosting(served, tmp_path / "bext.db") as hosted:

        async def all_done() -> bool:
            return len(calls.made) == number

        await hosted.store.until(all_done)


async def test_what_a_command_starts_beside_the_host_is_seen_at_the_next_poll(tmp_path: Path) -> None:
    """Semantics §11"""
    calls = Calls()
    served = saga(calls)
    async with hosting(served, tmp_path / "bext.db") as hosted, desk(served, tmp_path / "bext.db") as alone:
        started = await alone.start()
        assert (await hosted.reaches(started, COMPLETED)).status is COMPLETED
        assert (await alone.get(started)).status is COMPLETED


async def test_what_a_command_asks_of_a_running_run_is_seen_at_the_next_poll(tmp_path: Path) -> None:
    turnstile = Turnstile()
    served = registry(plugin(turnstile.run_step))
    async with hosting(served, tmp_path / "bext.db") as hosted, desk(served, tmp_path / "bext.db") as alone:
        run_id = await hosted.start()
        await turnstile.until(1)
        assert (await alone.cancel(run_id, now=True)).driven
        run = await hosted.settled(run_id)
        assert run.status in (WorkflowStatus.CANCELLED, WorkflowStatus.COMPENSATED)


async def test_two_workflows_of_two_plugins_never_cross() -> None:
    """Architecture "Plugins": a step call goes to the one plugin that owns the workflow, undo and end alike."""
    steps = (step("pack"), step("ship"))
    one = Calls(ship=[StepOutcome.Fail("no", True)])
    other = Calls(ship=[StepOutcome.Fail("no", True)])
    served = registry(
        *(
            plugin(
                calls.run_step,
                workflow(*steps, id_=name),
                name=name,
                compensate_step=calls.compensate_step,
                on_workflow_complete=calls.on_workflow_complete,
            )
            for name, calls in (("one", one), ("other", other))
        )
    )
    async with hosting(served) as hosted:
        started = await asyncio.gather(*(hosted.start(name) for name in ("one", "other") * 5))
        for run_id in started:
            await hosted.until_kind(run_id, "completion_settled")
        for name, calls in (("one", one), ("other", other)):
            assert {run.workflow for run in calls.runs} == {name}
            assert {run.run_id for run in calls.runs} == set(started[("one", "other").index(name) :: 2])
            for call in ("pack", "ship", "undo_pack", "complete"):
                assert call in calls.made


async def test_two_versions_of_a_workflow_may_belong_to_two_plugins() -> None:
    old, new = Calls(), Calls()
    served = registry(
        plugin(old.run_step, workflow("pack", version=1), name="old"),
        plugin(new.run_step, workflow("pack", version=2), name="new"),
    )
    async with hosting(served) as hosted:
        first = await hosted.start(version=1)
        latest = await hosted.start()
        for run_id in (first, latest):
            await hosted.settled(run_id)
        assert ([run.run_id for run in old.runs], [run.run_id for run in new.runs]) == ([first], [latest])
        assert (await hosted.get(latest)).version == 2


async def test_runs_of_what_is_not_served_here_are_left_alone(tmp_path: Path) -> None:
    """P36: neither failed nor touched; they still take acts, and whoever serves them drives them."""
    path = tmp_path / "bext.db"
    everything = Calls()
    both = saga(everything, workflow("pack"), workflow("pack", id_="rare"), workflow("pack", version=2))
    async with desk(both, path) as alone:
        left = [await alone.start("rare"), await alone.start(version=2)]
        served_run = await alone.start(version=1)
    calls = Calls()
    async with hosting(saga(calls, workflow("pack")), path) as hosted:
        await hosted.reaches(served_run, COMPLETED)
        await hosted.quiet()
        for run_id in left:
            (row,) = await hosted.store.find(run_id)
            assert (row.status, row.owner, row.fence, row.seq) == (PENDING, None, 0, 1)
        await hosted.cancel(left[0])
        await hosted.quiet()
        assert await hosted.status(left[0]) is PENDING
        assert {run.run_id for run in calls.runs} == {served_run}
        with pytest.raises(NotFound, match="no workflow 'rare' is served"):
            await hosted.start("rare")
    async with hosting(both, path) as hosted:
        await hosted.reaches(left[0], WorkflowStatus.CANCELLED)
        await hosted.reaches(left[1], COMPLETED)
    assert [run.run_id for run in everything.runs] == [left[1]]


async def test_a_host_for_one_run_drives_that_one_only(tmp_path: Path) -> None:
    calls = Calls()
    served, path = saga(calls), tmp_path / "bext.db"
    async with desk(served, path) as alone:
        wanted, other = await alone.start(), await alone.start()
    async with hosting(served, path, only=wanted) as hosted:
        await hosted.settled(wanted)
        await hosted.quiet()
        assert await hosted.status(other) is PENDING
        assert {run.run_id for run in calls.runs} == {wanted}


async def test_a_run_that_is_claimed_again_at_once_keeps_its_new_driver() -> None:
    """The old driver's departure must not take the new one's place away: it would hear of no act any more."""
    turnstile = Turnstile()
    async with hosting(registry(plugin(turnstile.run_step, workflow("pack")))) as hosted:
        run_id = await hosted.start()
        await turnstile.until(1)
        dispatcher = hosted.host._dispatcher
        (driver,) = dispatcher._active.values()
        newer = type(driver)(hosted.host._shop, _held_again(driver))
        dispatcher._active[driver.rid] = newer
        turnstile.open.set()
        await hosted.settled(run_id)
        await hosted.quiet()
        assert dispatcher._active == {driver.rid: newer}
        del dispatcher._active[driver.rid]


def _held_again(driver: Driver) -> Held:
    progress, calls = driver._progress, driver._calls
    return Held(rid=driver.rid, fence=2, state=progress.state, index=progress._index, plugin=calls._plugin)


async def test_a_sync_hook_never_blocks_the_loop() -> None:
    """A plain hook that waits for the loop to go on would never end if it stood in its way."""
    loop = asyncio.get_running_loop()

    def needs_the_loop(run: WorkflowRun, step_name: str) -> object:
        answered = asyncio.run_coroutine_threadsafe(asyncio.sleep(0, step_name), loop)
        return StepOutcome.Continue({"answered": answered.result(5)})

    async with hosting(registry(plugin(needs_the_loop, workflow("pack")))) as hosted:
        run = await hosted.settled(await hosted.start())
        assert (run.status, run.context) == (COMPLETED, {"answered": "pack"})
