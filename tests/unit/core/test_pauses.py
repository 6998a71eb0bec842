"""Pause and resume in every live status (semantics §4, §8)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bext_workflow.core.input import Continued, Failed, Lost, Parked, Retried, Verified
from bext_workflow.core.work import Begin, Compensate, Execute, Notify, Open, Settle, wake_at
from bext_workflow.errors import Conflict
from bext_workflow.model.event import RunPaused, RunResumed, WaitEnded
from bext_workflow.model.policy import OnExhausted
from bext_workflow.model.status import Action, Call, IncidentKind, WaitEnd, WorkflowStatus
from tests.unit.core.support import (
    AGAIN,
    NO,
    NO_AND_LEAVE,
    NOON,
    RAISED,
    Saga,
    asks,
    charge,
    done,
    naps,
    parked,
    plan,
    step,
    tries,
)

DAY = 86_400_000


def pending() -> Saga:
    return Saga(plan(step("a")), begun=False)


def running() -> Saga:
    return Saga(plan(step("a"), step("b"))).run(done())


def in_a_retry_wait() -> Saga:
    return Saga(plan(step("a"), step("b"))).run(done(), AGAIN)


def waiting() -> Saga:
    return Saga(plan(step("a"), step("b"))).run(parked("go", for_ms=100))


def before_a_wait() -> Saga:
    return Saga(plan(step("a"), asks())).run(done())


def suspended() -> Saga:
    return Saga(plan(charge())).run(RAISED)


def compensating() -> Saga:
    return running().run(NO)


def stopping() -> Saga:
    saga = running()
    saga.cancel()
    return saga


LIVE = [pending, running, in_a_retry_wait, waiting, before_a_wait, suspended, compensating, stopping]


@pytest.mark.parametrize("live", LIVE)
def test_a_paused_run_has_nothing_due_however_long_it_is(live: Callable[[], Saga]) -> None:
    """§4: SUSPENDED, held by the pause (PENDING has not begun, and stays so)."""
    saga = live()
    before = saga.status()
    assert saga.pause() == ["run_paused"]
    expected = WorkflowStatus.PENDING if before is WorkflowStatus.PENDING else WorkflowStatus.SUSPENDED
    assert (saga.status(), saga.state.paused) == (expected, True)
    assert wake_at(saga.state) is None
    assert saga.wait(10 * DAY).idle()


@pytest.mark.parametrize("live", LIVE)
def test_resume_lets_it_go_on_from_where_it_was(live: Callable[[], Saga]) -> None:
    """§4: the same status, and the same thing due; over a crash, too."""
    saga, untouched = live(), live()
    saga.pause()
    saga.state = saga.folded()
    assert saga.resume() == ["run_resumed"]
    assert saga.status() is untouched.status()
    assert wake_at(saga.state) == wake_at(untouched.state)
    assert saga.state.branches == untouched.state.branches


def test_who_paused_and_why_is_journaled() -> None:
    """§4: as every act of a person."""
    saga = running()
    saga.pause()
    saga.resume()
    paused, resumed = saga.last(RunPaused), saga.last(RunResumed)
    assert (paused.by, paused.reason, paused.act) == ("ann", "have a look", 1)
    assert (resumed.by, resumed.reason, resumed.act) == ("ann", "looked", 2)
    assert saga.state.inbox == 2


def test_a_second_pause_and_a_resume_of_what_is_not_paused_are_refused() -> None:
    """§4: with the status in the message."""
    saga = running()
    with pytest.raises(Conflict, match="RUNNING and not paused"):
        saga.resume()
    saga.pause()
    with pytest.raises(Conflict, match="paused already"):
        saga.pause()


def test_an_ended_run_cannot_be_paused() -> None:
    """§4."""
    saga = Saga(plan(step("a"))).run(done())
    with pytest.raises(Conflict, match="pause is not possible while the run is COMPLETED"):
        saga.pause()
    with pytest.raises(Conflict, match="resume is not possible while the run is COMPLETED"):
        saga.resume()


def test_a_paused_pending_run_begins_when_it_is_resumed() -> None:
    """§4: its time counts from there (§5 run time-out: from the first attempt)."""
    saga = pending()
    saga.pause()
    saga.wait(DAY).resume()
    saga.due(Begin)
    saga.begin()
    assert saga.state.started_at == NOON + DAY


# An attempt that runs when the pause comes


@pytest.mark.parametrize(
    ("end", "kind", "next_"),
    [
        (done(), "step_completed", Execute),
        (parked(for_ms=0), "step_completed", None),
        (AGAIN, "attempt_failed", Execute),
        (NO, "compensation_started", Compensate),
        (Lost(reason="gone", transient=True), "attempt_failed", Execute),
    ],
)
def test_the_result_of_a_running_attempt_counts_and_nothing_follows_from_it(
    end: Continued | Parked | Retried | Failed | Lost, kind: str, next_: type[Execute | Compensate] | None
) -> None:
    """§4: nothing new starts; after `resume` what follows is due."""
    saga = Saga(plan(step("z"), step("a", retries=tries(2, backoff_ms=10)), step("b"))).run(done())
    saga.call_step()
    saga.pause()
    assert saga.finish(end)[-1] == kind
    assert saga.status() is WorkflowStatus.SUSPENDED
    assert saga.wait(DAY).idle()
    saga.resume()
    if next_ is not None:
        saga.due(next_)


@pytest.mark.parametrize(("end", "status"), [(done(), WorkflowStatus.COMPLETED), (NO_AND_LEAVE, WorkflowStatus.FAILED)])
def test_a_run_that_ends_by_a_running_attempt_is_paused_no_more(
    end: Continued | Failed, status: WorkflowStatus
) -> None:
    """§4: a pause holds live runs; a retry later finds none."""
    saga = Saga(plan(step("a"))).wait(0)
    saga.call_step()
    saga.pause()
    saga.finish(end)
    assert (saga.status(), saga.state.paused) == (status, False)
    if status is WorkflowStatus.FAILED:
        saga.reopen()
        assert saga.status() is WorkflowStatus.RUNNING


def test_an_answer_of_verify_step_counts() -> None:
    """§4, §6: it was asked before the pause."""
    saga = Saga(plan(charge(), step("b"), verifies=True)).run(RAISED)
    saga.pause()
    saga.give(Verified(call=Call.STEP, branch=0, answer=done()))
    assert saga.to_undo == ["charge"]
    saga.resume()
    assert saga.due(Execute).step == "b"


def test_an_undo_that_runs_counts_and_the_next_one_waits_for_resume() -> None:
    """§4: "an undo … or a pause holds it"."""
    saga = Saga(plan(step("a"), step("b"), step("c"))).run(done(), done(), NO)
    saga.call_undo()
    saga.pause()
    assert saga.status() is WorkflowStatus.SUSPENDED
    saga.undo_returned()
    assert (saga.to_undo, saga.idle()) == (["a"], True)
    saga.resume()
    assert saga.status() is WorkflowStatus.COMPENSATING
    assert saga.undo_all() == ["a"]


def test_the_retry_wait_of_an_undo_passes_in_a_pause() -> None:
    """§8: a due time that passed in a pause means now."""
    saga = compensating().undo(AGAIN)
    saga.pause()
    assert saga.wait(DAY).idle()
    saga.resume()
    assert saga.due(Compensate).attempt == 2


def test_a_plugin_is_told_of_an_earlier_ending_all_the_same() -> None:
    """§2: the call is about the past; the pause is about what comes."""
    saga = Saga(plan(step("a"), notifies=True)).run(NO_AND_LEAVE)
    saga.reopen()
    saga.pause()
    saga.due(Notify)


# Timers and signals


def test_a_timer_that_passed_in_a_pause_is_due_at_resume() -> None:
    """§8, P21: late, once, never lost."""
    saga = Saga(plan(naps(ms=100), step("b")))
    saga.open()
    saga.pause()
    assert saga.wait(101).idle()
    saga.resume()
    assert saga.fire() == ["wait_ended"]
    assert saga.due(Execute).step == "b"


def test_a_timer_that_has_not_passed_goes_on_as_it_was() -> None:
    """§5, §8: waits and pauses are included in its time."""
    saga = waiting()
    saga.pause()
    saga.wait(60).resume()
    assert wake_at(saga.state) == NOON + 100


def test_a_retry_wait_that_passed_in_a_pause_is_over_at_resume() -> None:
    """§8."""
    saga = in_a_retry_wait()
    saga.pause()
    saga.wait(DAY).resume()
    assert saga.due(Execute).attempt == 2


def test_a_signal_in_a_pause_ends_the_wait_and_starts_nothing() -> None:
    """§9, P26: accepted in time, it wins, however late `resume` is."""
    saga = waiting()
    saga.pause()
    assert saga.wait(50).signal("go", 1) == ["signal_received", "wait_ended"]
    assert (saga.status(), saga.idle()) == (WorkflowStatus.SUSPENDED, True)
    saga.wait(DAY).resume()
    assert (saga.due(Execute).step, saga.state.context.get("go")) == ("b", 1)


def test_a_signal_after_the_due_time_is_late_in_a_pause_too_and_fires_nothing() -> None:
    """P28: the timer has its way at `resume`; until then a person may still decide about the run."""
    saga = waiting()
    saga.pause()
    assert saga.wait(100).signal() == ["signal_received"]
    assert saga.idle()
    saga.resume()
    saga.fire()
    assert saga.status() is WorkflowStatus.COMPENSATING


def test_a_wait_is_opened_after_resume_and_its_time_begins_then() -> None:
    """§4, §7: nothing new starts in a pause, no wait either."""
    saga = Saga(plan(step("a"), naps(ms=100))).wait(0)
    saga.call_step()
    saga.pause()
    saga.finish(done())
    saga.wait(DAY).resume()
    saga.due(Open)
    saga.open()
    assert wake_at(saga.state) == NOON + DAY + 100


# Acts of others


@pytest.mark.parametrize("live", [pending, running, in_a_retry_wait, waiting, before_a_wait])
def test_a_cancel_lifts_the_pause(live: Callable[[], Saga]) -> None:
    """§5, P18: an accepted cancel is not held up by an earlier pause."""
    saga, untouched = live(), live()
    saga.pause()
    for one in (saga, untouched):
        one.cancel()
        one.due(Settle)
        one.settle()
        one.undo_all()
    assert not saga.state.paused
    assert saga.status() is untouched.status()
    assert saga.status() in (WorkflowStatus.CANCELLED, WorkflowStatus.COMPENSATED)


def test_another_cancel_lifts_a_pause_that_came_after_the_first_one() -> None:
    """§4, P18: "a cancel ends the pause", be the run on its way out already."""
    saga = Saga(plan(charge())).run(RAISED)
    saga.cancel()
    saga.pause()
    saga.cancel()
    assert not saga.state.paused
    saga.answer(Action.NOT_DONE)
    assert saga.status() is WorkflowStatus.CANCELLED


def test_a_paused_undo_cannot_be_cancelled() -> None:
    """§5: refused while the run is being undone, held or not."""
    saga = compensating()
    saga.pause()
    with pytest.raises(Conflict, match="SUSPENDED and is being undone"):
        saga.cancel()


def test_a_pause_after_the_cancel_holds_the_undo() -> None:
    """§4, P18: the stop stays; the run waits for the person and is never COMPLETED."""
    saga = Saga(plan(step("a"), step("b"))).wait(0)
    saga.call_step()
    saga.cancel()
    saga.pause()
    saga.finish(done())
    assert (saga.status(), saga.idle()) == (WorkflowStatus.SUSPENDED, True)
    saga.resume()
    assert saga.undo_all() == ["a"]
    assert saga.status() is WorkflowStatus.COMPENSATED


def test_an_incident_can_be_answered_in_a_pause() -> None:
    """§5: the answer counts; what follows from it waits for `resume`."""
    saga = Saga(plan(step("a", retries=tries(1, OnExhausted.INCIDENT)))).run(AGAIN)
    saga.pause()
    assert saga.incident.kind is IncidentKind.EXHAUSTED
    saga.answer(Action.RETRY)
    assert (saga.status(), saga.idle()) == (WorkflowStatus.SUSPENDED, True)
    saga.resume()
    assert saga.due(Execute).attempt == 2


def test_an_incident_holds_after_the_pause_is_over() -> None:
    """§4: each of what `holds` lists is let go of by itself."""
    saga = suspended()
    saga.pause()
    saga.resume()
    assert saga.status() is WorkflowStatus.SUSPENDED
    assert saga.idle()


def test_a_crash_in_a_pause_keeps_it() -> None:
    """P16: and the cut-off attempt is made again after `resume`."""
    saga = running()
    saga.call_step()
    saga.pause()
    saga.crash()
    assert (saga.status(), saga.idle()) == (WorkflowStatus.SUSPENDED, True)
    saga.resume()
    assert saga.due(Execute).attempt == 1


def test_a_stop_ends_a_wait_whose_timer_passed_in_a_pause() -> None:
    """§5: the cancel came before anybody fired it."""
    saga = waiting()
    saga.pause()
    saga.wait(DAY).cancel()
    saga.settle()
    assert saga.last(WaitEnded).how is WaitEnd.STOP
