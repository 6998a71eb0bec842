"""Cancel in every status (semantics §5, P18)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bext_workflow.core.input import Lost
from bext_workflow.core.work import Settle, wake_at
from bext_workflow.errors import Conflict
from bext_workflow.model.event import ActIgnored, IncidentResolved, StopRequested
from bext_workflow.model.policy import OnExhausted
from bext_workflow.model.status import Action, IncidentKind, WorkflowStatus
from tests.unit.core.support import (
    AGAIN,
    NO,
    NO_AND_LEAVE,
    NOON,
    RAISED,
    TIMED_OUT,
    Saga,
    charge,
    done,
    plan,
    step,
    tries,
)


def two(**fields: bool) -> Saga:
    return Saga(plan(step("a"), step("b"), step("c"), **fields))


def test_pending_is_cancelled_and_nothing_was_done() -> None:
    """§5: CANCELLED if nothing had completed."""
    saga = Saga(plan(step("a")), begun=False)
    saga.cancel()
    assert saga.settle() == ["branch_settled", "run_cancelled"]
    assert saga.status() is WorkflowStatus.CANCELLED


def test_between_steps_the_branch_settles_and_the_walk_back_begins() -> None:
    """§5: the stop is durable first, nothing new starts forward after it."""
    saga = two().run(done())
    assert saga.cancel() == ["stop_requested"]
    saga.due(Settle)
    assert saga.settle() == ["branch_settled", "compensation_started"]
    assert saga.undo_all() == ["a"]
    assert saga.status() is WorkflowStatus.COMPENSATED
    assert saga.state.failure == "cancelled by ann: ordered twice"


def test_a_retry_wait_ends_at_once() -> None:
    """§5 Stop."""
    saga = two().run(done(), AGAIN)
    saga.cancel()
    assert wake_at(saga.state) == 0
    saga.settle()
    assert saga.undo_all() == ["a"]


def test_a_running_attempt_is_waited_for_and_what_it_completed_is_undone() -> None:
    """P18: never COMPLETED, even if the running step then succeeds as the last one."""
    saga = Saga(plan(step("a"))).wait(0)
    saga.call_step()
    saga.cancel()
    saga.finish(done())
    assert saga.undo_all() == ["a"]
    assert saga.status() is WorkflowStatus.COMPENSATED


def test_a_crash_after_the_stop_makes_no_new_attempt() -> None:
    """§5: the cut-off attempt is not made again; the branch settles."""
    saga = two().run(done())
    saga.call_step()
    saga.cancel()
    saga.crash()
    saga.settle()
    assert saga.undo_all() == ["a"]


def test_now_interrupts_and_the_effect_is_unknown() -> None:
    """§5 `cancel --now`: the host ends the attempt; §6 for a step that must not be repeated."""
    saga = Saga(plan(step("a"), charge())).run(done())
    saga.call_step()
    saga.cancel(now=True)
    stop = saga.state.stop
    assert stop is not None
    assert stop.now
    saga.finish(Lost(reason="interrupted by a cancel"))
    assert saga.status() is WorkflowStatus.SUSPENDED
    assert saga.incident.kind is IncidentKind.IN_DOUBT


def test_compensation_waits_until_no_in_doubt_is_open() -> None:
    """§5 Stop, P18: a cancelled run waits SUSPENDED for the person's word."""
    saga = Saga(plan(step("a"), charge())).run(done(), RAISED)
    saga.cancel()
    assert saga.status() is WorkflowStatus.SUSPENDED
    assert saga.idle()
    saga.answer(Action.DONE, charge_id="ch-1")
    assert saga.undo_all() == ["charge", "a"]


@pytest.mark.parametrize(
    ("action", "undone"),
    [
        (Action.DONE, ["charge", "a"]),
        (Action.NOT_DONE, ["a"]),
        (Action.FAIL, ["a"]),
        (Action.FAIL_UNDO, ["charge", "a"]),
    ],
)
def test_under_a_stop_the_answers_to_in_doubt_settle_the_branch(action: Action, undone: list[str]) -> None:
    """§5: `not_done` counts as not completed; nothing is called forward again."""
    saga = Saga(plan(step("a"), charge(), step("c"))).run(done())
    saga.call_step()
    saga.cancel()
    saga.finish(RAISED)
    saga.answer(action)
    assert saga.undo_all() == undone
    assert saga.status() is WorkflowStatus.COMPENSATED


def test_no_compensate_leaves_in_place() -> None:
    """§5: CANCELLED with `left_in_place`."""
    saga = two().run(done(), done())
    saga.cancel(compensate=False)
    saga.settle()
    assert (saga.status(), saga.left) == (WorkflowStatus.CANCELLED, ("a", "b"))
    assert saga.idle()


def test_what_may_have_acted_is_undone_although_nothing_completed() -> None:
    """§5: `compensate_on_failure` after a crash, in the first step."""
    saga = Saga(plan(step("a", compensate_on_failure=True)))
    saga.call_step()
    saga.crash()
    saga.cancel()
    saga.settle()
    assert saga.undo_all() == ["a"]
    assert saga.status() is WorkflowStatus.COMPENSATED


@pytest.mark.parametrize("status", [WorkflowStatus.COMPENSATING, WorkflowStatus.SUSPENDED])
def test_an_undo_cannot_be_cancelled(status: WorkflowStatus) -> None:
    """§5: refused while COMPENSATING, and while an undo in doubt suspends the walk."""
    saga = Saga(plan(step("a", undo_idempotent=False), step("b"))).run(done(), NO)
    if status is WorkflowStatus.SUSPENDED:
        saga.undo(RAISED)
    assert saga.status() is status
    with pytest.raises(Conflict, match=status):
        saga.cancel()


def test_exhausted_and_poison_need_no_answer_once_the_run_is_cancelled() -> None:
    """§5: the question is void; the incident says how it ended."""
    saga = Saga(plan(step("a"), step("b", retries=tries(1, OnExhausted.INCIDENT)))).run(done(), AGAIN)
    assert saga.cancel() == ["stop_requested", "incident_resolved"]
    assert saga.last(IncidentResolved).action is not None
    saga.settle()
    assert saga.undo_all() == ["a"]


def test_a_voided_incident_does_not_hide_that_an_attempt_may_have_acted() -> None:
    """§5: spent attempts that ended unknown, then a cancel: the step's own undo runs first."""
    b = step("b", compensate_on_failure=True, retries=tries(1, OnExhausted.INCIDENT))
    saga = Saga(plan(step("a"), b)).run(done(), TIMED_OUT)
    saga.cancel()
    saga.settle()
    assert saga.undo_all() == ["b", "a"]


# A second cancel


def test_a_second_cancel_changes_nothing() -> None:
    """§5: it is accepted and noted."""
    saga = two().run(done())
    saga.cancel()
    assert saga.cancel() == ["act_ignored"]
    assert saga.last(ActIgnored).act == 2
    assert saga.state.inbox == 2


def test_a_second_cancel_may_hurry_the_first() -> None:
    """§5: `--now` after a plain cancel interrupts the attempt that is waited for."""
    saga = two().run(done())
    saga.call_step()
    saga.cancel()
    assert saga.cancel(now=True) == ["stop_requested"]
    assert [stop.now for stop in saga.all(StopRequested)] == [False, True]


@pytest.mark.parametrize("first", [True, False])
def test_a_second_cancel_cannot_change_the_manner_of_the_first(first: bool) -> None:
    """§5: with or without its undo was settled by the first."""
    saga = two().run(done())
    saga.cancel(compensate=first)
    with pytest.raises(Conflict, match="already being stopped"):
        saga.cancel(compensate=not first)


# FAILED with something left in place


def test_cancel_of_a_failed_run_undoes_what_was_left_in_place() -> None:
    """§3 Fail, P18: the first failure stays its reason (P14)."""
    saga = two().run(done(), done(), NO_AND_LEAVE)
    assert saga.cancel() == ["stop_requested", "compensation_started"]
    assert saga.state.ended_at is None
    assert saga.undo_all() == ["b", "a"]
    assert saga.status() is WorkflowStatus.COMPENSATED
    assert saga.state.failure == "unknown sku"
    assert saga.state.endings == 2


def test_cancel_of_a_failed_run_also_undoes_a_visit_that_may_have_acted() -> None:
    """§5: `compensate_on_failure`, even if nothing completed."""
    only = step("a", compensate_on_failure=True, retries=tries(1, OnExhausted.FAIL))
    saga = Saga(plan(only)).run(TIMED_OUT)
    assert saga.left == ("a",)
    saga.cancel()
    assert saga.undo_all() == ["a"]


def _nothing_left() -> Saga:
    return Saga(plan(step("a"))).run(NO_AND_LEAVE)


def _undo_failed() -> Saga:
    return two().run(done(), NO).undo(NO)


def _undo_closed() -> Saga:
    saga = _undo_failed()
    saga.answer(Action.CLOSE)
    return saga


@pytest.mark.parametrize(
    ("failed", "words"),
    [
        (_nothing_left, "nothing of it is left"),
        (_undo_failed, "an undo that failed"),
        (_undo_closed, "closed its undo"),
    ],
)
def test_cancel_of_a_failed_run_is_refused_where_no_undo_can_begin(failed: Callable[[], Saga], words: str) -> None:
    """§5, P18: nothing left; an incident that wants its own answer; an undo that a person has given up."""
    with pytest.raises(Conflict, match=f"FAILED.*{words}"):
        failed().cancel()


def test_no_compensate_of_a_failed_run_is_refused() -> None:
    """§5: it has ended, and there would be nothing to do."""
    saga = two().run(done(), NO_AND_LEAVE)
    with pytest.raises(Conflict, match="FAILED"):
        saga.cancel(compensate=False)


def test_cancel_of_an_ended_run_names_how_it_ended() -> None:
    """P18: a cancel that lost the race says so."""
    with pytest.raises(Conflict, match="COMPLETED"):
        Saga(plan(step("a"))).run(done()).cancel()


def test_times_of_the_ending_follow_the_last_one() -> None:
    """§4: a run that goes on has no `ended_at`."""
    saga = two().run(done(), NO_AND_LEAVE)
    assert saga.state.ended_at == NOON
    saga.wait(7).cancel()
    saga.undo_all()
    assert saga.state.ended_at == NOON + 7
