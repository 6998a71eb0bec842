"""Runs that take their hosts down with them (semantics §6, poison; P20, P45)."""

from __future__ import annotations

import pytest

from bext_workflow.core.input import Beaten, Verified
from bext_workflow.core.state import POISON_AFTER, SUSPECT_AFTER
from bext_workflow.core.work import Execute, Notify, Settle, Verify
from bext_workflow.model.event import AttemptStarted, Recovered
from bext_workflow.model.outcome import NotDone
from bext_workflow.model.status import Action, Call, IncidentKind, WorkflowStatus
from tests.unit.core.support import AGAIN, NO, NO_AND_LEAVE, Saga, charge, done, plan, step


def killed(saga: Saga, times: int) -> Saga:
    """The host dies in the call that is due, `times` times."""
    for _ in range(times):
        saga.call_step()
        saga.crash()
    return saga


def test_a_heartbeat_is_no_progress() -> None:
    """§6: an attempt that says that it is alive before it takes its host down is poison all the same."""
    saga = Saga(plan(step("a", heartbeat_ms=500)))
    for life in range(10):
        saga.call_step()
        saga.give(Beaten(branch=0, step="a", visit=1, detail=f"alive, for the {life}th time"))
        saga.crash()
    assert saga.incident.kind is IncidentKind.POISON


def test_every_recovery_is_journaled() -> None:
    """§6: with host and fence."""
    saga = Saga(plan(step("a"))).crash(2)
    assert saga.all(Recovered) == [Recovered(host="h-2", fence=2)] * 2


def test_the_third_recovery_in_a_row_makes_a_suspect_whose_attempts_are_recorded() -> None:
    """§6: up to there an idempotent step costs no write."""
    saga = killed(Saga(plan(step("a"))), 2)
    assert not saga.due(Execute).intend
    killed(saga, 1)
    assert saga.state.suspect
    assert saga.due(Execute).intend
    saga.call_step()
    assert saga.kinds[-1] == "attempt_started"


def test_any_progress_clears_the_suspicion() -> None:
    """§6: since the last event other than `recovered` and `attempt_started`."""
    for end in (done(), AGAIN):
        saga = killed(Saga(plan(step("a"), step("b"))), 5).run(end)
        assert (saga.state.recoveries, saga.state.suspect) == (0, False)


def test_a_recorded_attempt_is_no_progress() -> None:
    """§6."""
    saga = Saga(plan(step("a"))).crash(3)
    saga.call_step()
    assert saga.last(AttemptStarted).attempt == 1
    assert saga.state.recoveries == 3


def test_a_suspect_that_was_not_running_is_not_blamed() -> None:
    """§6: from the third on only a crash during its own recorded attempt counts."""
    saga = Saga(plan(step("a"))).crash(20)
    assert saga.state.recoveries == SUSPECT_AFTER
    assert saga.status() is WorkflowStatus.RUNNING
    assert killed(saga, 1).state.recoveries == SUSPECT_AFTER + 1


def test_at_ten_the_run_is_suspended() -> None:
    """§6, P45: not at nine; nothing is called, no attempt was spent (P20)."""
    saga = killed(Saga(plan(step("a"), step("b"))).run(done()), POISON_AFTER - 1)
    assert saga.status() is WorkflowStatus.RUNNING
    killed(saga, 1)
    assert saga.status() is WorkflowStatus.SUSPENDED
    assert (saga.incident.kind, saga.incident.step) == (IncidentKind.POISON, "b")
    assert saga.idle()
    assert saga.state.branches[0].attempt == 1


def test_an_undo_is_counted_in_the_same_way() -> None:
    """§6: while compensating the answers are `retry` and `close`."""
    saga = Saga(plan(step("a"), step("b"))).run(done(), NO)
    for _ in range(POISON_AFTER):
        saga.call_undo()
        saga.crash()
    assert saga.status() is WorkflowStatus.SUSPENDED
    assert (saga.incident.kind, saga.incident.call) == (IncidentKind.POISON, Call.UNDO)
    saga.answer(Action.RETRY)
    assert saga.status() is WorkflowStatus.COMPENSATING
    assert saga.undo_all() == ["a"]


def test_past_a_pivot_poison_offers_no_cancel() -> None:
    """§5: a cancel would be refused there."""
    saga = killed(Saga(plan(step("a", pivot=True), step("b"))).run(done()), POISON_AFTER)
    assert set(saga.incident.actions) == {Action.RETRY, Action.CLOSE}
    saga.answer(Action.CLOSE)
    assert (saga.status(), saga.left) == (WorkflowStatus.FAILED, ("a",))


def test_a_verified_step_that_kills_its_hosts_is_poison_too() -> None:
    """P45: crash, `NotDone`, the same attempt, crash … is no progress, and ends."""
    saga = Saga(plan(charge(), verifies=True))
    for _ in range(POISON_AFTER - 1):
        killed(saga, 1)
        saga.due(Verify)
        saga.give(Verified(call=Call.STEP, answer=NotDone()))
    killed(saga, 1)
    assert saga.incident.kind is IncidentKind.POISON
    assert saga.idle()
    saga.answer(Action.RETRY)
    saga.due(Verify)


def test_an_in_doubt_step_is_a_persons_before_it_is_poison() -> None:
    """P4: one question at a time; the answer is progress."""
    saga = Saga(plan(charge()))
    for _ in range(POISON_AFTER):
        killed(saga, 1)
        assert saga.incident.kind is IncidentKind.IN_DOUBT
        saga.answer(Action.NOT_DONE)
        assert saga.state.recoveries == 0


def test_a_suspect_that_is_cancelled_just_settles() -> None:
    """P18: under a stop the attempt is not made again, so there is nothing to ask."""
    saga = killed(Saga(plan(step("a"), step("b"))).run(done()), POISON_AFTER - 1)
    saga.call_step()
    saga.cancel()
    saga.crash()
    assert not saga.state.incidents
    saga.due(Settle)


# The completion hook


def told_in_vain(saga: Saga, times: int) -> Saga:
    for _ in range(times):
        saga.call_notify()
        saga.crash()
    return saga


def test_a_completion_hook_that_kills_its_hosts_is_given_up_and_the_status_stays() -> None:
    """§2, §6, P17: `completion_failed`, not a change of status."""
    saga = told_in_vain(Saga(plan(step("a"), notifies=True)).run(done()), 3)
    assert saga.due(Notify).intend
    told_in_vain(saga, POISON_AFTER - 3)
    assert (saga.status(), saga.incident.kind) == (WorkflowStatus.COMPLETED, IncidentKind.COMPLETION_FAILED)
    assert saga.idle()
    saga.answer(Action.RETRY)
    assert saga.due(Notify).key == "r-1:complete#1"


def test_an_open_incident_of_another_kind_does_not_keep_a_poisoned_hook_alive() -> None:
    """P45: a failed undo waits for a person for days; its completion hook must not kill hosts meanwhile."""
    saga = Saga(plan(step("a"), step("b"), notifies=True)).run(done(), NO).undo(NO)
    told_in_vain(saga, POISON_AFTER)
    kinds = [incident.kind for incident in saga.state.incidents]
    assert kinds == [IncidentKind.COMPENSATION_FAILED, IncidentKind.COMPLETION_FAILED]
    assert saga.idle()


@pytest.mark.parametrize("due", [Notify, Execute])
def test_in_a_run_that_goes_on_the_call_that_was_running_is_blamed(due: type[Notify | Execute]) -> None:
    """§6: an earlier ending's hook and the step are two calls."""
    saga = Saga(plan(step("a"), step("b"), notifies=True)).run(done(), NO_AND_LEAVE)
    saga.reopen()
    saga.crash(3)
    for _ in range(POISON_AFTER - 3):
        saga.intend(Call.COMPLETE if due is Notify else Call.STEP)
        saga.crash()
    expected = {Notify: IncidentKind.COMPLETION_FAILED, Execute: IncidentKind.POISON}
    assert saga.incident.kind is expected[due]
    assert saga.status() is (WorkflowStatus.RUNNING if due is Notify else WorkflowStatus.SUSPENDED)
