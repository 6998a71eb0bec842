"""The walk back (semantics §5)."""

from __future__ import annotations

import pytest

from bext_workflow.core.input import Failed, Lost, Retried
from bext_workflow.core.work import Compensate, wake_at
from bext_workflow.model.event import (
    AttemptFailed,
    CompensationStarted,
    IncidentOpened,
    RunFailed,
    StepCompensated,
    StepFailed,
)
from bext_workflow.model.policy import OnExhausted
from bext_workflow.model.run import newest_first
from bext_workflow.model.status import Action, IncidentKind, WorkflowStatus
from tests.unit.core.support import (
    AGAIN,
    NO,
    NO_AND_LEAVE,
    RAISED,
    TIMED_OUT,
    Saga,
    done,
    plan,
    step,
    tries,
)

BROKEN = Failed(reason="the depot is closed", compensate=True, traceback="Traceback …")


def three(**fields: bool) -> Saga:
    """Two steps are done and the third has failed."""
    return Saga(plan(step("a", **fields), step("b"), step("c"))).run(done(), done(), NO)


def test_the_order_is_the_exact_reverse_of_completion() -> None:
    """P10: one at a time, newest first; P12: the failing step is not in it."""
    saga = three()
    assert saga.undo_all() == ["b", "a"]
    assert saga.status() is WorkflowStatus.COMPENSATED


def test_every_completed_visit_is_undone_once_in_reverse_of_completion_also_in_loops() -> None:
    """P10, P11: a loop's visits each have an entry, with their own updates and undo data."""
    saga = Saga(plan(step("pay", branches=("pay",)), step("ship")))
    saga.run(done("pay", undo_data="first", paid=1), done("ship", undo_data="second", paid=2), NO)
    entries = [(entry.visit, entry.updates, entry.undo_data) for entry in newest_first(saga.state.pending)]
    assert entries == [(2, {"paid": 2}, "second"), (1, {"paid": 1}, "first")]
    assert saga.undo_all() == ["pay", "pay"]
    assert [(gone.step, gone.visit) for gone in saga.all(StepCompensated)] == [("pay", 2), ("pay", 1)]


def test_compensating_is_durable_before_the_first_undo() -> None:
    """§5: the checkpoint of the failure holds it; no undo is due before."""
    saga = three()
    assert saga.kinds[-2:] == ["step_failed", "compensation_started"]
    assert saga.folded().status is WorkflowStatus.COMPENSATING


def test_an_entry_leaves_the_list_only_in_the_checkpoint_that_records_its_undo() -> None:
    """§5, against the text's "pop first": while the undo runs, and after a crash in it, the entry is still there."""
    saga = three()
    saga.call_undo()
    assert saga.folded().pending == saga.state.pending
    assert saga.to_undo == ["b", "a"]
    before = saga.due(Compensate)
    assert saga.crash().due(Compensate) == before
    saga.undo(None)
    assert saga.to_undo == ["a"]


def test_a_step_without_an_undo_counts_as_undone() -> None:
    """§5, P15: where the plugin has no `compensate_step` the walk ends in the checkpoint that begins it."""
    saga = Saga(plan(step("a"), step("b"), undoes=False)).run(done(), NO)
    assert saga.status() is WorkflowStatus.COMPENSATED
    assert saga.last(StepCompensated).no_undo


# Errors of an undo


def test_an_undos_errors_are_classed_as_a_steps() -> None:
    """§5 and the table of §2: transient ones are retried."""
    for end in (AGAIN, TIMED_OUT, Lost(reason="60 s are over", transient=True)):
        saga = three().undo(end)
        assert saga.status() is WorkflowStatus.COMPENSATING
        assert saga.last(AttemptFailed).attempt == 1
        assert saga.wait(1000).due(Compensate).attempt == 2


@pytest.mark.parametrize("end", [BROKEN, RAISED])
def test_a_permanent_error_of_an_undo_stops_the_walk(end: Failed | Lost) -> None:
    """P13: FAILED, an incident, itself and the rest recorded; nothing more is called."""
    saga = three().undo(end)
    assert saga.status() is WorkflowStatus.FAILED
    assert saga.to_undo == ["b", "a"]
    assert saga.left == ("a", "b")
    assert (saga.incident.kind, saga.incident.step) == (IncidentKind.COMPENSATION_FAILED, "b")
    assert saga.last(IncidentOpened).reason == end.reason
    assert saga.idle()
    assert wake_at(saga.state) is None


def test_undo_has_its_own_policy_and_its_own_counter() -> None:
    """§5: `compensation_retries`, 10 tries by default, up to 300 s apart; per entry."""
    saga = three()
    waits = []
    for _ in range(9):
        began = saga.now
        saga.undo(AGAIN)
        waits.append(saga.last(AttemptFailed).retry_at - max(began, saga.now))
    assert waits == [1000, 2000, 4000, 8000, 16000, 32000, 64000, 128000, 256000]
    saga.undo(None, AGAIN)
    assert saga.last(AttemptFailed).retry_at - saga.now == 1000, "the next entry begins anew"


def test_spent_undo_retries_are_a_failed_compensation() -> None:
    """§5, P13."""
    saga = Saga(plan(step("a", compensation_retries=tries(2)), step("b"))).run(done(), NO).undo(AGAIN, AGAIN)
    assert saga.status() is WorkflowStatus.FAILED
    assert saga.incident.reason == "retries exhausted: 503"


def test_the_first_failures_reason_is_kept_through_it_all() -> None:
    """P14: beside the undo's own, which the incident tells; tracebacks stay in the journal."""
    saga = three().undo(BROKEN)
    assert saga.state.failure == saga.last(RunFailed).reason == "declined"
    assert (saga.incident.reason, saga.last(IncidentOpened).traceback) == ("the depot is closed", "Traceback …")
    saga.answer(Action.RETRY)
    saga.undo_all()
    assert saga.status() is WorkflowStatus.COMPENSATED
    assert saga.state.failure == "declined"


def test_an_undo_that_is_not_safe_to_repeat_is_in_doubt_when_it_ends_unknown() -> None:
    """§5 `undo_idempotent = false`, §6: intent first, then never again without a word."""
    saga = Saga(plan(step("a", undo_idempotent=False), step("b"))).run(done(), NO)
    assert saga.call_undo().intend
    assert saga.kinds[-1] == "attempt_started"
    saga.crash()
    assert saga.status() is WorkflowStatus.SUSPENDED
    assert (saga.incident.kind, saga.incident.step) == (IncidentKind.IN_DOUBT, "a")
    assert saga.idle()


def test_a_repeatable_undo_is_called_again_after_a_crash_with_the_same_number_and_key() -> None:
    """P11: a crash may repeat one undo, with the same `:compensate` key."""
    saga = three()
    first = saga.call_undo()
    assert (first.key, first.attempt, first.intend) == ("r-1:b:compensate", 1, False)
    assert saga.crash().due(Compensate) == first


# compensate_on_failure


def own(**fields: bool) -> Saga:
    policy = tries(2)
    return Saga(plan(step("a"), step("b", compensate_on_failure=True, retries=policy, **fields))).run(done())


def test_by_default_the_failing_step_is_not_undone() -> None:
    """§5, P12: also when it ended unknown."""
    saga = Saga(plan(step("a"), step("b"))).run(done(), RAISED)
    assert saga.undo_all() == ["a"]


@pytest.mark.parametrize("end", [NO, Failed(reason="declined", compensate=True)])
def test_a_definite_failure_has_not_acted_and_needs_no_undo_of_its_own(end: Failed) -> None:
    """§5: whatever `compensate_on_failure` says; a definite Retry neither."""
    saga = own().run(AGAIN, end)
    assert not saga.last(StepFailed).own
    assert saga.undo_all() == ["a"]


def test_the_steps_own_undo_runs_first_if_an_attempt_may_have_acted() -> None:
    """§5: with the visit's key, and no updates or undo data, for it never completed."""
    saga = own().run(RAISED)
    assert saga.last(StepFailed).own
    entry = saga.state.pending
    assert entry is not None
    assert (entry.step, entry.own, entry.updates, entry.undo_data) == ("b", True, {}, None)
    assert saga.due(Compensate).key == "r-1:b:compensate"
    assert saga.undo_all() == ["b", "a"]


def test_an_earlier_attempt_that_may_have_acted_counts_too() -> None:
    """§5: "an attempt may have acted", not the last one only."""
    assert own().run(TIMED_OUT, NO).undo_all() == ["b", "a"]


def test_spent_attempts_that_may_have_acted_count_too() -> None:
    """§5."""
    assert own().run(TIMED_OUT, TIMED_OUT).undo_all() == ["b", "a"]


def test_an_attempt_whose_host_died_may_have_acted() -> None:
    """§5: the host died while the attempt could be running."""
    saga = own()
    saga.call_step()
    assert saga.crash().run(NO).undo_all() == ["b", "a"]


def test_a_crash_in_a_retry_wait_says_nothing_about_an_attempt() -> None:
    """§5: after a definite Retry no attempt could be running."""
    assert own().run(AGAIN).crash().run(NO).undo_all() == ["a"]


def test_a_crash_before_the_run_began_says_nothing_about_an_attempt() -> None:
    """§5: a PENDING run has made no attempt, so there is nothing to undo: CANCELLED."""
    saga = Saga(plan(step("a", compensate_on_failure=True)), begun=False).crash()
    saga.cancel()
    saga.settle()
    assert saga.status() is WorkflowStatus.CANCELLED


def test_a_retry_of_a_failed_run_does_not_forget_that_an_attempt_may_have_acted() -> None:
    """§5: same visit, so what attempt 1 may have done is undone when attempt 2 fails for good."""
    policy = tries(1, OnExhausted.FAIL)
    saga = Saga(plan(step("a"), step("b", compensate_on_failure=True, retries=policy))).run(done(), TIMED_OUT)
    assert saga.status() is WorkflowStatus.FAILED
    assert saga.left == ("a", "b"), "b may have acted"
    saga.reopen()
    assert saga.run(NO).undo_all() == ["b", "a"]


def test_a_visit_that_a_person_left_behind_is_still_undone_if_it_may_have_acted() -> None:
    """§5: `--new-visit` after an unknown end; the old visit has a key of its own, and an undo of its own."""
    policy = tries(1, OnExhausted.FAIL)
    saga = Saga(plan(step("a"), step("b", compensate_on_failure=True, retries=policy))).run(done(), TIMED_OUT)
    saga.reopen(new_visit=True)
    saga.run(NO)
    keys = []
    while saga.status() is WorkflowStatus.COMPENSATING:
        keys.append(saga.due(Compensate).key)
        saga.undo(None)
    assert keys == ["r-1:b:compensate", "r-1:a:compensate"]


# Under a stop: the running attempt's result counts


@pytest.mark.parametrize(
    ("end", "undone"),
    [
        (done(), ["b", "a"]),
        (AGAIN, ["a"]),
        (Retried(reason="busy", after_ms=5), ["a"]),
        (NO, ["a"]),
        (NO_AND_LEAVE, ["a"]),
        (RAISED, ["b", "a"]),
        (TIMED_OUT, ["b", "a"]),
    ],
)
def test_under_a_stop_the_running_attempt_counts(end: Failed | Lost, undone: list[str]) -> None:
    """§5 Stop: Continue: completed, so undone; Retry, Fail: not; unknown: `compensate_on_failure`."""
    saga = own()
    saga.call_step()
    saga.cancel()
    saga.finish(end)
    assert saga.status() is WorkflowStatus.COMPENSATING
    assert saga.last(CompensationStarted).reason == "cancelled by ann: ordered twice"
    assert saga.undo_all() == undone
    assert saga.status() is WorkflowStatus.COMPENSATED
