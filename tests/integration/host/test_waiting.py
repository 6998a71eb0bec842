"""Runs that wait, on a real file and a clock that a test moves: for signals, for times, held, and over their time."""

from __future__ import annotations

from pathlib import Path

import pytest

from bext_workflow.model.definition import WorkflowDefinition
from bext_workflow.model.json import Json
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.model.wait import WaitDefinition
from bext_workflow.ports import telemetry as names
from bext_workflow.service.protocols import SignalRequest
from bext_workflow.testing.clock import FakeClock
from tests.integration.host.support import SETTINGS, Calls, Desk, desk, hosting, saga, step, workflow
from tests.integration.host.waiting_support import DAY, let_pass, parked

APPROVE = step("approve", wait=WaitDefinition(signal="go", timeout_ms=3 * DAY, on_timeout="chase"))


async def send(desk: Desk, run_id: str, payload: Json = None) -> None:
    await desk.service.signal(run_id, SignalRequest(name="go", payload=payload))


async def test_three_days_pass_in_a_moment(tmp_path: Path) -> None:
    """§3 Wait, §8: a waiting run is a row; its timer fires then and not before (P21)."""
    clock = FakeClock()
    calls = Calls(clock=clock, order=[StepOutcome.Wait(for_ms=3 * DAY)])
    async with hosting(saga(calls, workflow("order", "ship")), tmp_path / "bext.db", clock=clock) as hosted:
        run_id = await hosted.start()
        row = await parked(hosted, run_id)
        assert row.wake_at == clock.now() + 3 * DAY
        began = clock.now()
        await let_pass(hosted, clock, 3 * DAY - 1)
        await hosted.quiet()
        assert calls.made == ["order"]
        await let_pass(hosted, clock, 1)
        view = await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
    assert calls.at[-1] - began == 3 * DAY
    assert view.context == {}


async def test_a_run_that_only_a_signal_moves_has_no_due_time(tmp_path: Path) -> None:
    """§8, §9: nothing polls for it; the signal finds it."""
    clock = FakeClock()
    calls = Calls(order=[StepOutcome.Wait(signal="go", into="answer", context_updates={"asked": True})])
    async with hosting(saga(calls, workflow("order", "ship")), tmp_path / "bext.db", clock=clock) as hosted:
        run_id = await hosted.start()
        assert (await parked(hosted, run_id)).wake_at is None
        await send(hosted, run_id, {"by": "bob"})
        view = await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
    assert view.context == {"asked": True, "answer": {"by": "bob"}}
    assert calls.runs[-1].context["answer"] == {"by": "bob"}


async def test_a_signal_from_another_process_is_taken_up_within_one_poll(tmp_path: Path) -> None:
    """Nobody wakes the host, and it does not look before its time."""
    clock = FakeClock()
    calls = Calls(order=[StepOutcome.Wait(signal="go")])
    served = saga(calls, workflow("order", "ship"))
    async with (
        hosting(served, tmp_path / "bext.db", clock=clock) as hosted,
        desk(served, tmp_path / "bext.db", clock=clock) as other,
    ):
        run_id = await hosted.start()
        await parked(hosted, run_id)
        await send(other, run_id)
        await let_pass(hosted, clock, SETTINGS.poll_ms - 1)
        await hosted.quiet()
        assert await hosted.status(run_id) is WorkflowStatus.WAITING
        await let_pass(hosted, clock, 1)
        await hosted.reaches(run_id, WorkflowStatus.COMPLETED)


async def test_a_signal_before_the_wait_is_taken_by_the_checkpoint_that_begins_it(tmp_path: Path) -> None:
    """P26: it comes in the middle of the step; the run never stands still."""

    async def signalled_meanwhile(run: WorkflowRun) -> object:
        await send(hosted, run.run_id, 7)
        return StepOutcome.Wait(signal="go")

    calls = Calls(order=[signalled_meanwhile])
    async with hosting(saga(calls, workflow("order", "ship")), tmp_path / "bext.db", clock=FakeClock()) as hosted:
        view = await hosted.settled(await hosted.start())
        kinds = await hosted.kinds(view.run_id)
    assert (view.status, view.context) == (WorkflowStatus.COMPLETED, {"go": 7})
    assert kinds[1:4] == ["signal_received", "step_completed", "wait_ended"]


async def test_a_declared_wait_calls_nothing_and_goes_where_its_time_out_says(tmp_path: Path) -> None:
    """§7: the host's own step."""
    clock = FakeClock()
    calls = Calls(clock=clock)
    asking = workflow("order", APPROVE, step("ship", next="end"), "chase")
    async with hosting(saga(calls, asking), tmp_path / "bext.db", clock=clock) as hosted:
        in_time, late = await hosted.start(), await hosted.start()
        for run_id in (in_time, late):
            await parked(hosted, run_id)
        await let_pass(hosted, clock, 2 * DAY)
        await send(hosted, in_time, "yes")
        assert (await hosted.reaches(in_time, WorkflowStatus.COMPLETED)).context == {"go": "yes"}
        assert calls.made == ["order", "order", "ship"]
        await let_pass(hosted, clock, DAY)
        await hosted.reaches(late, WorkflowStatus.COMPLETED)
        assert calls.made[-1] == "chase"


async def test_a_wait_in_vain_is_undone_with_the_rest(tmp_path: Path) -> None:
    """§3 Wait: time-out without `on_timeout`."""
    clock = FakeClock()
    calls = Calls(order=[StepOutcome.Wait(signal="go", for_ms=DAY, undo_data={"id": 7})])
    async with hosting(saga(calls, workflow("pack", "order")), tmp_path / "bext.db", clock=clock) as hosted:
        run_id = await hosted.start()
        await parked(hosted, run_id)
        await let_pass(hosted, clock, DAY)
        view = await hosted.reaches(run_id, WorkflowStatus.COMPENSATED)
    assert calls.made == ["pack", "order", "undo_order", "undo_pack"]
    assert calls.of("undo_order")[0].undo_data == {"id": 7}
    assert view.failure == "signal 'go' did not come in time"


async def test_a_cancel_ends_a_wait_at_once(tmp_path: Path) -> None:
    """§5, P18: no timer is waited for."""
    clock = FakeClock()
    calls = Calls(order=[StepOutcome.Wait(for_ms=DAY)])
    async with hosting(saga(calls, workflow("order", "ship")), tmp_path / "bext.db", clock=clock) as hosted:
        run_id = await hosted.start()
        await parked(hosted, run_id)
        await hosted.cancel(run_id)
        await hosted.reaches(run_id, WorkflowStatus.COMPENSATED)
    assert calls.made == ["order", "undo_order"]


async def test_short_waits_stay_in_memory_and_are_kept_to_the_millisecond(tmp_path: Path) -> None:
    """§8: a run whose timer is a moment away is not given back; it is on the monotonic clock meanwhile."""
    clock = FakeClock()
    calls = Calls(clock=clock)
    nap = workflow("order", step("nap", sleep_ms=500), "ship")
    async with hosting(saga(calls, nap), tmp_path / "bext.db", clock=clock) as hosted:
        run_id = await hosted.start()
        await hosted.settled(run_id)
        began = clock.now()
        assert hosted.host._dispatcher.active == 1
        await let_pass(hosted, clock, 499)
        await hosted.quiet()
        assert calls.made == ["order"]
        await let_pass(hosted, clock, 1)
        await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
    assert calls.at[-1] - began == 500


# Time-outs of the run


def bounded(*steps: str) -> WorkflowDefinition:
    """The run has a day, each attempt as long as it likes."""
    return WorkflowDefinition(id="order", steps=tuple(step(name, timeout_ms=0) for name in steps), timeout_ms=DAY)


async def test_the_runs_own_time_ends_a_wait_without_a_bound(tmp_path: Path) -> None:
    """§5 run `timeout_ms`: the row is due for it."""
    clock = FakeClock()
    calls = Calls(order=[StepOutcome.Wait(signal="go")])
    async with hosting(saga(calls, bounded("order", "ship")), tmp_path / "bext.db", clock=clock) as hosted:
        run_id = await hosted.start()
        assert (await parked(hosted, run_id)).wake_at == clock.now() + DAY
        await let_pass(hosted, clock, DAY - 1)
        await hosted.quiet()
        assert await hosted.status(run_id) is WorkflowStatus.WAITING
        await let_pass(hosted, clock, 1)
        view = await hosted.reaches(run_id, WorkflowStatus.COMPENSATED)
    assert calls.made == ["order", "undo_order"]
    assert view.failure == f"the run took longer than its timeout_ms = {DAY}"


async def test_an_attempt_that_runs_over_the_runs_time_is_not_interrupted(tmp_path: Path) -> None:
    """§5 Stop: its result counts, and is undone."""

    def takes_long(run: WorkflowRun) -> object:
        clock.advance(2 * DAY)
        return StepOutcome.Continue({"done": True})

    clock = FakeClock()
    calls = Calls(order=[takes_long])
    async with hosting(saga(calls, bounded("order", "ship")), tmp_path / "bext.db", clock=clock) as hosted:
        view = await hosted.reaches(await hosted.start(), WorkflowStatus.COMPENSATED)
    assert calls.made == ["order", "undo_order"]
    assert view.context == {"done": True}


# Pauses


async def test_a_paused_run_is_a_row_until_it_is_resumed(tmp_path: Path) -> None:
    """§4: whatever passes; a timer that passed is due at `resume`, once (P21)."""
    clock = FakeClock()
    calls = Calls(order=[StepOutcome.Wait(for_ms=DAY)])
    async with hosting(saga(calls, workflow("order", "ship")), tmp_path / "bext.db", clock=clock) as hosted:
        run_id = await hosted.start()
        await parked(hosted, run_id)
        await hosted.service.pause(run_id, "have a look")
        view = await hosted.reaches(run_id, WorkflowStatus.SUSPENDED)
        assert view.holds == ["paused"]
        await let_pass(hosted, clock, 2 * DAY)
        await hosted.quiet()
        (row,) = await hosted.store.find(run_id)
        assert (row.owner, row.wake_at, calls.made) == (None, None, ["order"])
        await hosted.service.resume(run_id, "looked")
        await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
        assert (await hosted.kinds(run_id)).count("wait_ended") == 1


@pytest.mark.parametrize("end", [StepOutcome.Continue({"x": 1}), StepOutcome.Fail("no", True)])
async def test_a_pause_in_a_call_lets_it_end_and_starts_nothing(tmp_path: Path, end: object) -> None:
    """§4: the result counts; the next step, or the undo, waits for `resume`."""

    async def paused(run: WorkflowRun) -> object:
        await hosted.service.pause(run.run_id, "")
        return end

    calls = Calls(order=[paused])
    served = saga(calls, workflow("pack", "order", "ship"))
    async with hosting(served, tmp_path / "bext.db", clock=FakeClock()) as hosted:
        run_id = (await hosted.settled(await hosted.start())).run_id
        assert await hosted.status(run_id) is WorkflowStatus.SUSPENDED
        await hosted.quiet()
        assert calls.made == ["pack", "order"]
        await hosted.service.resume(run_id, "")
        await hosted.reaches(run_id, WorkflowStatus.COMPLETED, WorkflowStatus.COMPENSATED)
    assert calls.made[2:] == (["ship"] if isinstance(end, StepOutcome.Continue) else ["undo_pack"])


async def test_a_pause_while_verify_step_is_asked_lets_it_answer(tmp_path: Path) -> None:
    """§4, §6: the driver goes on, and the answer counts."""

    async def paused(run: WorkflowRun) -> object:
        await hosted.service.pause(run.run_id, "")
        return StepOutcome.Continue({"found": True})

    calls = Calls(pay=[KeyError("order")], verify_pay=[paused])
    served = saga(calls, workflow(step("pay", idempotent=False), "ship"), verifies=True)
    async with hosting(served, tmp_path / "bext.db", clock=FakeClock()) as hosted:
        run_id = await hosted.start()
        await hosted.until_kind(run_id, "step_completed")
        view = await hosted.get(run_id)
        assert (view.status, view.context) == (WorkflowStatus.SUSPENDED, {"found": True})
        assert not hosted.telemetry.all(names.DRIVER_CRASHED)
        await hosted.service.resume(run_id, "")
        await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
    assert calls.made == ["pay", "verify_pay", "ship"]
