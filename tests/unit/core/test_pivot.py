"""Past a pivot there is no way back (semantics §5)."""

from __future__ import annotations

import pytest

from bext_workflow.core.input import Lost, Retried
from bext_workflow.core.work import Execute
from bext_workflow.errors import Conflict
from bext_workflow.model.event import IncidentOpened
from bext_workflow.model.policy import OnExhausted
from bext_workflow.model.status import Action, IncidentKind, WorkflowStatus
from tests.unit.core.support import AGAIN, NO, NO_AND_LEAVE, RAISED, TIMED_OUT, Saga, charge, done, plan, step, tries


def sent(*rest: object, **fields: object) -> Saga:
    """A run whose pivot is done: `ship` comes next."""
    ship = step("ship", retries=tries(1), **fields)
    return Saga(plan(step("a"), step("send", pivot=True), ship)).run(done(), done())


def test_before_it_has_completed_a_pivot_is_a_step_like_others() -> None:
    """§5: its own failure compensates."""
    saga = Saga(plan(step("a"), step("send", pivot=True))).run(done(), NO)
    assert saga.undo_all() == ["a"]


@pytest.mark.parametrize("end", [NO, NO_AND_LEAVE, AGAIN, TIMED_OUT, RAISED])
def test_failure_and_exhaustion_open_an_incident(end: Retried | Lost) -> None:
    """§5: nothing compensates and nothing fails by itself."""
    saga = sent().run(end)
    assert saga.status() is WorkflowStatus.SUSPENDED
    assert saga.incident.kind is IncidentKind.STUCK_AFTER_PIVOT
    assert set(saga.incident.actions) == {Action.RETRY, Action.DONE, Action.CLOSE}
    assert end.reason in saga.incident.reason


def test_a_pivot_holds_for_all_that_comes_after_it() -> None:
    """§5: not for the next step only."""
    saga = Saga(plan(step("send", pivot=True), step("ship"), step("bill"))).run(done(), done(), NO)
    assert saga.incident.kind is IncidentKind.STUCK_AFTER_PIVOT


def test_exhaustion_is_stuck_whatever_on_exhausted_says() -> None:
    """§5: `fail` would leave the run half done, `incident` would offer a `fail`."""
    for choice in OnExhausted:
        saga = Saga(plan(step("send", pivot=True), step("ship", retries=tries(1, choice)))).run(done(), AGAIN)
        assert saga.incident.kind is IncidentKind.STUCK_AFTER_PIVOT


@pytest.mark.parametrize("compensate", [True, False])
def test_cancel_is_refused(compensate: bool) -> None:
    """§5, while it runs, and while it is stuck."""
    saga = sent()
    with pytest.raises(Conflict, match=r"RUNNING.*pivot"):
        saga.cancel(compensate=compensate)
    saga.run(NO)
    with pytest.raises(Conflict, match=r"SUSPENDED.*pivot"):
        saga.cancel(compensate=compensate)


def test_retry_goes_on_with_a_new_budget() -> None:
    """§5 `stuck_after_pivot`: the same visit and key, the next number."""
    saga = sent().run(AGAIN)
    saga.answer(Action.RETRY)
    again = saga.due(Execute)
    assert (again.attempt, again.visit, again.key) == (2, 1, "r-1:ship")
    saga.run(done())
    assert saga.status() is WorkflowStatus.COMPLETED


def test_done_takes_the_persons_updates() -> None:
    """§5 `stuck_after_pivot`."""
    saga = sent().run(NO)
    saga.answer(Action.DONE, parcel="p-1")
    assert (saga.status(), saga.state.context.get("parcel")) == (WorkflowStatus.COMPLETED, "p-1")


def test_close_ends_failed_and_the_run_can_still_be_retried() -> None:
    """§5: nothing was undone, so a forward retry is possible; a cancel still is not."""
    saga = sent().run(NO)
    saga.answer(Action.CLOSE)
    assert (saga.status(), saga.left) == (WorkflowStatus.FAILED, ("a", "send"))
    with pytest.raises(Conflict, match="pivot"):
        saga.cancel()
    saga.reopen()
    assert saga.due(Execute).attempt == 2


def test_fail_is_not_offered() -> None:
    """§5: `fail` (not after a pivot)."""
    with pytest.raises(Conflict, match="retry, done, close"):
        sent().run(NO).answer(Action.FAIL)


def test_fail_of_a_step_in_doubt_is_stuck() -> None:
    """§5: the person says that it did not act; the run can only go forward."""
    saga = Saga(plan(step("send", pivot=True), charge())).run(done(), RAISED)
    saga.answer(Action.FAIL)
    assert saga.incident.kind is IncidentKind.STUCK_AFTER_PIVOT


# A cancel that was accepted while the pivot was running


def stopped_in_pivot(*rest: str, compensate: bool = True) -> Saga:
    saga = Saga(plan(step("a"), step("send", pivot=True), *(step(name) for name in rest))).run(done())
    saga.call_step()
    saga.cancel(compensate=compensate)
    saga.finish(done())
    return saga


def test_a_stop_that_the_pivot_outran_waits_for_a_person() -> None:
    """P18: SUSPENDED, not COMPLETED, and nothing new starts by itself."""
    saga = stopped_in_pivot("ship")
    assert saga.status() is WorkflowStatus.SUSPENDED
    opened = saga.last(IncidentOpened)
    assert (opened.kind, opened.step, opened.attempt) == (IncidentKind.STUCK_AFTER_PIVOT, "ship", 0)
    assert saga.idle()
    saga.answer(Action.RETRY)
    assert saga.due(Execute).attempt == 1, "no attempt of it had been made"
    saga.run(done())
    assert saga.status() is WorkflowStatus.COMPLETED, "the person has decided"


def test_a_stop_that_a_last_pivot_outran_leaves_all_in_place() -> None:
    """P18: never COMPLETED; nothing is left to go forward to, and nothing may be undone."""
    saga = stopped_in_pivot()
    assert (saga.status(), saga.left) == (WorkflowStatus.CANCELLED, ("a", "send"))


@pytest.mark.parametrize("rest", [[], ["ship"]])
def test_a_stop_without_undo_needs_no_way_back(rest: list[str]) -> None:
    """§5 `--no-compensate`: CANCELLED, with `left_in_place`."""
    saga = stopped_in_pivot(*rest, compensate=False)
    assert (saga.status(), saga.left) == (WorkflowStatus.CANCELLED, ("a", "send"))


@pytest.mark.parametrize("end", [NO, AGAIN, RAISED])
def test_a_stop_that_the_pivot_did_not_outrun_compensates(end: Lost | Retried) -> None:
    """§5: the pivot has not completed."""
    saga = Saga(plan(step("a"), step("send", pivot=True))).run(done())
    saga.call_step()
    saga.cancel()
    saga.finish(end)
    assert saga.undo_all() == ["a"]
