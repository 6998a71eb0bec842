"""Acts from outside that arrive between a decision and its commit, at every commit of a run (P18, P26, P28, P29)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from bext_workflow.errors import Conflict
from bext_workflow.model.definition import WorkflowDefinition
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.model.view import SignalState
from bext_workflow.model.wait import WaitDefinition
from bext_workflow.ports import telemetry as names
from bext_workflow.service.protocols import CancelRequest, SignalRequest
from bext_workflow.testing.clock import FakeClock
from tests.integration.host.support import SETTINGS, Calls, Desk, Hosted, desk, hosting, saga, step, workflow
from tests.integration.host.waiting_support import DAY, HOUR, let_pass, parked
from tests.unit.host.support import within

POINTS = [(write, after) for write in (2, 3) for after in (False, True)]
"""Before and after each commit that follows the start of a run of two steps."""


def at(point: tuple[int, bool], act: Callable[[], Awaitable[None]]) -> Callable[[int, bool], Awaitable[None]]:
    """Acts at that point of the store's writes, and only then."""

    async def around(write: int, after: bool) -> None:
        if (write, after) == point:
            await act()

    return around


@pytest.mark.parametrize("point", POINTS)
async def test_a_signal_that_races_the_end_of_the_run_is_refused_or_listed(
    tmp_path: Path, point: tuple[int, bool]
) -> None:
    """P26, P29: acknowledged and then lost is what must not be; it comes from another process."""
    path = tmp_path / "bext.db"
    calls = Calls()
    served = saga(calls, workflow("a", "b"))
    answers: list[str] = []
    answered = asyncio.Event()
    async with hosting(served, path, clock=FakeClock()) as hosted, desk(served, path, clock=hosted.clock) as other:

        async def send() -> None:
            try:
                await other.service.signal(run_id, SignalRequest(name="go", payload=1))
                answers.append("accepted")
            except Conflict as refused:
                answers.append(refused.message)
            answered.set()

        hosted.store.close_gate()
        hosted.store.let_one_through()
        run_id = await hosted.start()
        hosted.store.around = at(point, send)
        hosted.store.open_gate()
        async with within():
            await answered.wait()
        await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
        view = await hosted.get(run_id)
    signals = [(signal.name, signal.payload, signal.state) for signal in view.signals or ()]
    if answers == ["accepted"]:
        assert signals == [("go", 1, SignalState.KEPT)]
    else:
        assert signals == []
        assert (point, answers) == ((3, True), ["the run is COMPLETED: it takes no signals any more"])
    assert calls.made == ["a", "b"], "no call is made twice for it"


@pytest.mark.parametrize("point", POINTS)
async def test_a_signal_that_races_the_beginning_of_its_wait_is_taken(tmp_path: Path, point: tuple[int, bool]) -> None:
    """P26: the last point is the one after it has parked; the run always ends by it."""
    path = tmp_path / "bext.db"
    calls = Calls(b=[StepOutcome.Wait(signal="go", into="answer")])
    served = saga(calls, workflow("a", "b"))
    async with hosting(served, path, clock=FakeClock()) as hosted, desk(served, path, clock=hosted.clock) as other:

        async def send() -> None:
            await other.service.signal(run_id, SignalRequest(name="go", payload=1))
            hosted.host.wake()

        hosted.store.close_gate()
        hosted.store.let_one_through()
        run_id = await hosted.start()
        hosted.store.around = at(point, send)
        hosted.store.open_gate()
        view = await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
    assert view.context == {"answer": 1}
    assert calls.made == ["a", "b"]


async def due(hosted: Hosted, clock: FakeClock, act: Callable[[], Awaitable[None]]) -> None:
    """A wait's timer is about to fire, its decision is made, and before its commit somebody acts."""
    hosted.store.around = at((hosted.store._number + 1, False), act)
    await let_pass(hosted, clock, 500)
    await hosted.quiet()


def napping(clock: FakeClock) -> Calls:
    return Calls(clock=clock, order=[StepOutcome.Wait(signal="go", for_ms=500, on_timeout="chase")])


TIMED = workflow(step("order", branches=("chase",), next="ship"), step("ship", next="end"), step("chase"))


async def raced(
    path: Path, act: Callable[[Desk, str], Awaitable[object]], until: WorkflowStatus
) -> tuple[Calls, list[str]]:
    """The calls and the journal of a run whose timer and `act` race; the act is durable first."""
    clock = FakeClock()
    calls = napping(clock)
    served = saga(calls, TIMED)
    async with hosting(served, path, clock=clock) as hosted, desk(served, path, clock=clock) as other:
        run_id = await hosted.start()
        await hosted.settled(run_id)

        async def acts() -> None:
            await act(other, run_id)

        await due(hosted, clock, acts)
        await hosted.reaches(run_id, until)
        await hosted.quiet()
        assert not hosted.telemetry.all(names.DRIVER_CRASHED)
        return calls, await hosted.kinds(run_id)


async def test_a_cancel_that_is_durable_before_the_timer_has_its_way(tmp_path: Path) -> None:
    """P18: the wait ends by the stop; `chase` never begins."""
    calls, kinds = await raced(
        tmp_path / "bext.db", lambda other, run: other.service.cancel(run, CancelRequest()), WorkflowStatus.COMPENSATED
    )
    assert calls.made == ["order", "undo_order"]
    assert "incident_opened" not in kinds


async def test_a_signal_that_is_durable_before_the_timer_but_came_after_its_time_is_late(tmp_path: Path) -> None:
    """P28: one wins, the other is visible; here by the time of acceptance, which is the due time itself."""
    calls, kinds = await raced(
        tmp_path / "bext.db",
        lambda other, run: other.service.signal(run, SignalRequest(name="go")),
        WorkflowStatus.COMPLETED,
    )
    assert calls.made == ["order", "chase"]
    assert kinds[-4:] == ["signal_received", "wait_ended", "step_completed", "run_completed"]


# A pause, at each move that the driver makes by itself

Scene = Callable[[Hosted, Desk, FakeClock, Callable[[str], Awaitable[None]]], Awaitable[str]]
"""Sets a run going and has the move's commit come to the store after the act; returns the run's id."""


def before_next(hosted: Hosted, act: Callable[[], Awaitable[None]], nth: int = 1) -> None:
    hosted.store.around = at((hosted.store._number + nth, False), act)


async def beginning(hosted: Hosted, other: Desk, clock: FakeClock, act: Callable[[str], Awaitable[None]]) -> str:
    run_id = await other.start()
    before_next(hosted, lambda: act(run_id))
    await let_pass(hosted, clock, SETTINGS.poll_ms)
    return run_id


async def opening(hosted: Hosted, other: Desk, clock: FakeClock, act: Callable[[str], Awaitable[None]]) -> str:
    hosted.store.close_gate()
    hosted.store.let_one_through()
    run_id = await hosted.start()
    before_next(hosted, lambda: act(run_id), nth=2)  # the first one is that of the step before
    hosted.store.open_gate()
    return run_id


async def firing(hosted: Hosted, other: Desk, clock: FakeClock, act: Callable[[str], Awaitable[None]]) -> str:
    run_id = await hosted.start()
    await parked(hosted, run_id)
    before_next(hosted, lambda: act(run_id))
    await let_pass(hosted, clock, HOUR)
    return run_id


async def expiring(hosted: Hosted, other: Desk, clock: FakeClock, act: Callable[[str], Awaitable[None]]) -> str:
    run_id = await hosted.start()
    await parked(hosted, run_id)
    before_next(hosted, lambda: act(run_id))
    await let_pass(hosted, clock, DAY)
    return run_id


async def settling(hosted: Hosted, other: Desk, clock: FakeClock, act: Callable[[str], Awaitable[None]]) -> str:
    run_id = await hosted.start()
    await parked(hosted, run_id)
    before_next(hosted, lambda: act(run_id), nth=2)  # the first one takes the cancel
    await hosted.cancel(run_id)
    return run_id


@pytest.mark.parametrize(
    ("scene", "moved", "ends"),
    [
        (beginning, "run_started", WorkflowStatus.WAITING),
        (opening, "wait_opened", WorkflowStatus.WAITING),
        (firing, "wait_ended", WorkflowStatus.COMPLETED),
        (expiring, "run_timed_out", WorkflowStatus.COMPENSATED),
        (settling, "wait_ended", WorkflowStatus.COMPENSATED),
    ],
)
async def test_a_pause_that_is_durable_before_a_move_holds_it(
    tmp_path: Path, scene: Scene, moved: str, ends: WorkflowStatus
) -> None:
    """§4: nothing starts in it, nobody stumbles over it, and `resume` makes the move."""
    path, clock = tmp_path / "bext.db", FakeClock()
    nap = step("nap", wait=WaitDefinition(signal="go")) if scene is expiring else step("nap", sleep_ms=HOUR)
    timed = WorkflowDefinition(id="order", steps=workflow("order", nap).steps, timeout_ms=DAY)
    served = saga(Calls(), timed)
    async with hosting(served, path, clock=clock) as hosted, desk(served, path, clock=clock) as other:

        async def pause(run_id: str) -> None:
            await other.service.pause(run_id, "")

        run_id = await scene(hosted, other, clock, pause)
        await hosted.until_kind(run_id, "run_paused")
        await hosted.quiet()
        assert moved not in await hosted.kinds(run_id)
        assert not hosted.telemetry.all(names.DRIVER_CRASHED)
        await hosted.service.resume(run_id, "")
        await hosted.reaches(run_id, ends)
        assert (await hosted.kinds(run_id)).count(moved) == 1


@pytest.mark.parametrize("draining", [False, True])
async def test_the_end_of_a_call_is_kept_when_an_act_arrives_with_it(tmp_path: Path, draining: bool) -> None:
    """P1: the run is not given back with the end of its call in hand; a pause would have, and a drain."""
    path = tmp_path / "bext.db"

    async def acted_upon(run: WorkflowRun) -> object:
        if draining:
            await other.service.cancel(run.run_id, CancelRequest())
            hosted.host.drain()
        else:
            await other.service.pause(run.run_id, "")
        return StepOutcome.Continue({"charge": "c-1"})

    calls = Calls(a=[acted_upon])
    served = saga(calls, workflow("a", "b"))
    settings = replace(SETTINGS, drain_timeout_ms=5_000)
    clock = FakeClock()
    async with desk(served, path, clock=clock) as other:
        async with hosting(served, path, clock=clock, settings=settings) as hosted:
            run_id = await hosted.start()
            await hosted.until_kind(run_id, "step_completed")
            async with within():
                await hosted.host.idle()
            assert not hosted.telemetry.all(names.LEASE_LOST)
        assert (await other.get(run_id)).context == {"charge": "c-1"}
    assert calls.made == ["a"]
