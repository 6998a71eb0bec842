"""Runs that wait while nobody drives, and clocks that jump (P21, P22, P26, P28)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bext_workflow.errors import Conflict
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.model.view import RunView, SignalState, SignalView
from bext_workflow.plugin.registry import Registry
from bext_workflow.service.protocols import CancelRequest, SignalRequest
from bext_workflow.testing.clock import FakeClock
from tests.integration.host.support import SETTINGS, Calls, desk, hosting, saga, step, workflow
from tests.integration.host.waiting_support import DAY, HOUR, let_pass, parked


def asking(clock: FakeClock) -> tuple[Calls, Registry]:
    """`order` waits for a day for a signal; then comes `ship`, or `chase`, which waits for the same one."""
    wait = StepOutcome.Wait(signal="go", for_ms=DAY, on_timeout="chase")
    calls = Calls(clock=clock, order=[wait], chase=[StepOutcome.Wait(signal="go")])
    steps = step("order", branches=("chase",), next="ship"), step("ship", next="end"), step("chase")
    return calls, saga(calls, workflow(*steps))


async def waiting_since(served: Registry, path: Path, clock: FakeClock) -> str:
    """A run that was left to wait by a host that is gone."""
    async with hosting(served, path, clock=clock) as hosted:
        run_id = await hosted.start()
        await parked(hosted, run_id)
    return run_id


def signals_of(view: RunView) -> list[SignalView]:
    assert isinstance(view.signals, list)
    return view.signals


@pytest.mark.parametrize("down", [0, DAY - 1, DAY, 30 * DAY])
async def test_a_timer_fires_once_whatever_the_host_did_meanwhile(tmp_path: Path, down: int) -> None:
    """P21: due in downtime: at once at the start; not due yet: at its time; over another restart never again."""
    clock = FakeClock()
    calls, served = asking(clock)
    path = tmp_path / "bext.db"
    due = clock.now() + DAY
    run_id = await waiting_since(served, path, clock)
    clock.advance(down)
    async with hosting(served, path, clock=clock) as hosted:
        await hosted.quiet()
        await let_pass(hosted, clock, max(0, due - clock.now()))
        await hosted.until_kind(run_id, "wait_ended")
        await hosted.settled(run_id)
    assert calls.made == ["order", "chase"]
    assert calls.at[1] == max(due, due - DAY + down)
    async with hosting(served, path, clock=clock) as hosted:
        await let_pass(hosted, clock, DAY)
        await hosted.quiet()
        assert (await hosted.kinds(run_id)).count("wait_ended") == 1
        assert "recovered" not in await hosted.kinds(run_id), "a run that rests is nobody's, so no host died over it"


@pytest.mark.parametrize(("accepted", "wins"), [(0, True), (DAY - 1, True), (DAY, False), (2 * DAY, False)])
async def test_a_signal_in_downtime_is_judged_by_when_it_was_accepted(
    tmp_path: Path, accepted: int, wins: bool
) -> None:
    """P28, P26: the host comes two days after both; a late one does not answer the second request."""
    clock = FakeClock()
    calls, served = asking(clock)
    path = tmp_path / "bext.db"
    run_id = await waiting_since(served, path, clock)
    clock.advance(accepted)
    async with desk(served, path, clock=clock) as other:
        acknowledged = await other.service.signal(run_id, SignalRequest(name="go", payload="yes", id="s-1"))
        assert not acknowledged.driven
        assert [signal.state for signal in signals_of(await other.get(run_id))] == [SignalState.WAITING]
    clock.advance(3 * DAY - accepted)
    async with hosting(served, path, clock=clock) as hosted:
        await hosted.until_kind(run_id, "wait_ended")
        view = await hosted.settled(run_id)
    expected = SignalState.TAKEN if wins else SignalState.LATE
    assert [(signal.state, signal.id) for signal in signals_of(view)] == [(expected, "s-1")]
    assert calls.made == ["order", "ship" if wins else "chase"]
    assert view.context == ({"go": "yes"} if wins else {})


async def test_signals_in_downtime_are_taken_in_order(tmp_path: Path) -> None:
    """P27: also those that no wait of the moment wants."""
    clock = FakeClock()
    calls = Calls(a=[StepOutcome.Wait(signal="go", into="one")], b=[StepOutcome.Wait(signal="go", into="two")])
    served = saga(calls, workflow("a", "b"))
    path = tmp_path / "bext.db"
    run_id = await waiting_since(served, path, clock)
    async with desk(served, path, clock=clock) as other:
        for payload in (1, 2, 3):
            await other.service.signal(run_id, SignalRequest(name="go", payload=payload))
        await other.service.signal(run_id, SignalRequest(name="stop", id="s-1"))
        await other.service.signal(run_id, SignalRequest(name="stop", id="s-1"))
    async with hosting(served, path, clock=clock) as hosted:
        view = await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
    assert view.context == {"one": 1, "two": 2}
    kept = [(signal.name, signal.payload) for signal in signals_of(view) if signal.state is SignalState.KEPT]
    assert kept == [("go", 3), ("stop", None)]


async def test_the_acts_of_a_downtime_count_in_their_order(tmp_path: Path) -> None:
    """P18, P26: the signal ended the wait, the cancel the run; the timer that was due by then nothing."""
    clock = FakeClock()
    calls, served = asking(clock)
    path = tmp_path / "bext.db"
    run_id = await waiting_since(served, path, clock)
    async with desk(served, path, clock=clock) as other:
        await other.service.signal(run_id, SignalRequest(name="go", payload=1))
        await other.service.cancel(run_id, CancelRequest())
    clock.advance(2 * DAY)
    async with hosting(served, path, clock=clock) as hosted:
        view = await hosted.reaches(run_id, WorkflowStatus.COMPENSATED)
    assert view.context == {"go": 1}
    assert calls.made == ["order", "undo_order"]


async def test_a_signal_after_a_cancel_is_refused_though_nobody_has_carried_that_out(tmp_path: Path) -> None:
    """P29: the door sees what stands in the inbox; so does a second signal that the first has made needless."""
    clock = FakeClock()
    _, served = asking(clock)
    path = tmp_path / "bext.db"
    run_id = await waiting_since(served, path, clock)
    async with desk(served, path, clock=clock) as other:
        await other.service.cancel(run_id, CancelRequest())
        with pytest.raises(Conflict, match="being undone or stopped: it takes no signals any more"):
            await other.service.signal(run_id, SignalRequest(name="go"))
        assert signals_of(await other.get(run_id)) == []


async def test_a_repeated_signal_is_acknowledged_whenever_it_comes(tmp_path: Path) -> None:
    """P26: in the inbox, taken, and after the end; one delivery, one row, and no Conflict for who only makes sure."""
    clock = FakeClock()
    _, served = asking(clock)
    path = tmp_path / "bext.db"
    run_id = await waiting_since(served, path, clock)
    once = SignalRequest(name="go", payload="yes", id="s-1")
    async with desk(served, path, clock=clock) as other:
        for _ in range(2):
            await other.service.signal(run_id, once)
    async with hosting(served, path, clock=clock) as hosted:
        await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
        await hosted.service.signal(run_id, once)
        with pytest.raises(Conflict, match="COMPLETED"):
            await hosted.service.signal(run_id, SignalRequest(name="go", payload="yes", id="s-2"))
        assert len(signals_of(await hosted.get(run_id))) == 1
        assert "act_ignored" not in await hosted.kinds(run_id)


async def test_a_host_that_dies_in_a_short_wait_loses_nothing(tmp_path: Path) -> None:
    """P21: the run was its own; the next host takes it over, and the timer counts from where it did."""
    clock = FakeClock()
    calls = Calls(clock=clock, order=[StepOutcome.Wait(for_ms=900)])
    served = saga(calls, workflow("order", "ship"))
    path = tmp_path / "bext.db"
    due = clock.now() + 900
    async with hosting(served, path, clock=clock) as dying:
        run_id = await dying.start()
        await dying.settled(run_id)
        dying.dies()
    clock.advance(400)
    async with hosting(served, path, clock=clock) as hosted:
        await hosted.until_kind(run_id, "recovered")
        await hosted.quiet()
        assert calls.made == ["order"]
        await let_pass(hosted, clock, 500)
        await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
    assert calls.at[-1] == due


async def test_a_drain_gives_back_what_waits_for_a_moment_only(tmp_path: Path) -> None:
    """P50, P21: its due time stands in the row."""
    clock = FakeClock()
    calls = Calls(clock=clock, order=[StepOutcome.Wait(for_ms=900)])
    served = saga(calls, workflow("order", "ship"))
    path = tmp_path / "bext.db"
    due = clock.now() + 900
    async with hosting(served, path, clock=clock) as draining:
        run_id = await draining.start()
        await draining.settled(run_id)
    async with hosting(served, path, clock=clock) as hosted:
        (row,) = await hosted.store.find(run_id)
        assert (row.owner, row.wake_at) == (None, due)
        await let_pass(hosted, clock, 900)
        await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
        assert "recovered" not in await hosted.kinds(run_id)


# Clocks that jump


async def test_a_wall_clock_that_is_set_back_fires_nothing_early_and_stops_nobody(tmp_path: Path) -> None:
    """P22: by the store's clock; the loop goes on, and other runs with it."""
    clock = FakeClock()
    calls = Calls(order=[StepOutcome.Wait(for_ms=HOUR)])
    async with hosting(saga(calls, workflow("order", "ship")), tmp_path / "bext.db", clock=clock) as hosted:
        run_id = await hosted.start()
        await hosted.settled(run_id)
        await let_pass(hosted, clock, HOUR // 2)
        clock.jump_wall(-HOUR)
        other = await hosted.start()
        await hosted.reaches(other, WorkflowStatus.COMPLETED)
        await let_pass(hosted, clock, HOUR)
        await hosted.quiet()
        assert await hosted.status(run_id) is WorkflowStatus.WAITING
        await let_pass(hosted, clock, HOUR // 2)
        await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
        assert (await hosted.kinds(run_id)).count("wait_ended") == 1


async def test_a_wall_clock_that_leaps_ahead_fires_what_is_due_by_it_once(tmp_path: Path) -> None:
    """P22: +400 days; and back again, which fires nothing a second time."""
    clock = FakeClock()
    calls, served = asking(clock)
    async with hosting(served, tmp_path / "bext.db", clock=clock) as hosted:
        run_id = await hosted.start()
        await hosted.settled(run_id)
        clock.jump_wall(400 * DAY)
        await let_pass(hosted, clock, SETTINGS.poll_ms)
        await hosted.until_kind(run_id, "wait_ended")
        clock.jump_wall(-400 * DAY)
        await let_pass(hosted, clock, DAY)
        await hosted.settled(run_id)
        assert (await hosted.kinds(run_id)).count("wait_ended") == 1
    assert calls.made == ["order", "chase"]


async def test_a_short_wait_is_not_cut_by_a_leap_nor_lost_by_a_step_back(tmp_path: Path) -> None:
    """P22: in memory it is on the monotonic clock; the timer itself is the store's."""
    clock = FakeClock()
    calls = Calls(clock=clock)
    nap = workflow("order", step("nap", sleep_ms=900), "ship")
    async with hosting(saga(calls, nap), tmp_path / "bext.db", clock=clock) as hosted:
        run_id = await hosted.start()
        await hosted.settled(run_id)
        due = clock.now() + 900
        clock.jump_wall(-HOUR)
        await let_pass(hosted, clock, 900)
        await hosted.quiet()
        assert calls.made == ["order"]
        await let_pass(hosted, clock, HOUR)
        await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
    assert due <= calls.at[-1] <= due + SETTINGS.poll_ms


@pytest.mark.parametrize("number", range(1, 8))
async def test_what_is_due_at_once_is_not_held_up_when_the_clock_is_set_back(tmp_path: Path, number: int) -> None:
    """P22: at each commit of a saga that rolls back; no retry wait is in it, so no time needs to pass."""
    clock = FakeClock()
    calls = Calls(c=[StepOutcome.Fail("no", True)])

    async def set_back(write: int, after: bool) -> None:
        if write == number and after:
            clock.jump_wall(-HOUR)

    served = saga(calls, workflow("a", "b", "c"), notifies=True)
    async with hosting(served, tmp_path / "bext.db", clock=clock) as hosted:
        hosted.store.around = set_back
        await hosted.reaches(await hosted.start(), WorkflowStatus.COMPENSATED)
        await calls.until("complete")
    assert calls.made == ["a", "b", "c", "undo_b", "undo_a", "complete"]
