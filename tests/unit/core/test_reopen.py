"""`retry` of a run that has FAILED (semantics §5)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bext_workflow.core.work import Compensate, Execute
from bext_workflow.errors import Conflict
from bext_workflow.model.event import IncidentResolved, RunReopened, StepCompleted
from bext_workflow.model.status import Action, WorkflowStatus
from tests.unit.core.support import AGAIN, NO, NO_AND_LEAVE, Saga, done, plan, step, tries


def failed() -> Saga:
    return Saga(plan(step("a"), step("b", retries=tries(2)), step("c"))).run(done(x=1), AGAIN, NO_AND_LEAVE)


def test_the_failed_step_is_tried_again_with_the_same_visit_and_key() -> None:
    """§5: attempt numbers go on, the budget is renewed (P20); who and why are journaled (P9)."""
    saga = failed()
    assert saga.reopen() == ["run_reopened"]
    again = saga.due(Execute)
    assert (again.step, again.visit, again.attempt, again.key) == ("b", 1, 3, "r-1:b")
    assert (saga.last(RunReopened).by, saga.last(RunReopened).reason) == ("ann", "mended")
    assert (saga.status(), saga.state.failure, saga.state.ended_at) == (WorkflowStatus.RUNNING, None, None)
    saga.run(AGAIN, done(), done())
    assert saga.status() is WorkflowStatus.COMPLETED


def test_new_visit_has_a_new_key() -> None:
    """§5 `--new-visit`."""
    saga = failed()
    saga.reopen(new_visit=True)
    again = saga.due(Execute)
    assert (again.step, again.visit, again.attempt, again.key) == ("b", 2, 1, "r-1:b#2")


def test_from_a_step_jumps_there_as_a_new_visit_and_earlier_visits_stay_listed() -> None:
    """§5 `--from STEP`: both visits of `a` are undone in the end (P10, P11)."""
    saga = failed()
    saga.reopen("a")
    again = saga.due(Execute)
    assert (again.step, again.visit, again.key) == ("a", 2, "r-1:a#2")
    saga.run(done(), NO)
    assert saga.undo_all() == ["a", "a"]
    assert [event.visit for event in saga.all(StepCompleted)] == [1, 2]


def test_from_a_step_may_jump_forward() -> None:
    """§5: a person knows best."""
    saga = failed()
    saga.reopen("c")
    assert saga.due(Execute).step == "c"


def test_from_an_unknown_step_is_refused_with_the_steps_that_there_are() -> None:
    """§5."""
    with pytest.raises(Conflict, match=r"no step 'd'.*a, b, c"):
        failed().reopen("d")


def test_after_a_failed_undo_it_is_that_incidents_retry() -> None:
    """§5: the reason is the note, the incident is resolved."""
    saga = Saga(plan(step("a"), step("b"))).run(done(), NO).undo(NO)
    saga.reopen()
    assert not saga.state.incidents
    resolved = saga.last(IncidentResolved)
    assert (resolved.action, resolved.note, resolved.by) == (Action.RETRY, "mended", "ann")
    assert saga.due(Compensate).attempt == 2


@pytest.mark.parametrize(("from_step", "new_visit"), [("a", False), (None, True)])
def test_after_a_failed_undo_there_is_no_way_forward(from_step: str | None, new_visit: bool) -> None:
    """§5: a forward retry once a step has been undone is a conflict; here the undo is under way."""
    saga = Saga(plan(step("a"), step("b"))).run(done(), NO).undo(NO)
    with pytest.raises(Conflict, match="being undone"):
        saga.reopen(from_step, new_visit=new_visit)


def _skipped() -> Saga:
    saga = Saga(plan(step("a"), step("b"), step("c"))).run(done(), done(), NO).undo(None, NO)
    saga.answer(Action.SKIP)
    return saga


def _closed() -> Saga:
    saga = Saga(plan(step("a"), step("b"))).run(done(), NO).undo(NO)
    saga.answer(Action.CLOSE)
    return saga


@pytest.mark.parametrize("ended", [_skipped, _closed])
def test_once_its_undo_has_begun_a_failed_run_is_not_retried(ended: Callable[[], Saga]) -> None:
    """§5: start a new run."""
    saga = ended()
    assert saga.status() is WorkflowStatus.FAILED
    with pytest.raises(Conflict, match="start a new run"):
        saga.reopen()


@pytest.mark.parametrize("status", [WorkflowStatus.COMPENSATED, WorkflowStatus.CANCELLED])
def test_what_was_undone_or_cancelled_is_not_retried(status: WorkflowStatus) -> None:
    """§5: conflict, start a new run."""
    saga = Saga(plan(step("a"), step("b"))).run(done())
    if status is WorkflowStatus.COMPENSATED:
        saga.run(NO).undo(None)
    else:
        saga.cancel(compensate=False)
        saga.settle()
    with pytest.raises(Conflict, match=f"{status}.*start a new run"):
        saga.reopen()


def test_a_run_may_fail_and_be_retried_many_times() -> None:
    """§5, P9, P17: each ending has its number."""
    saga = failed()
    for ending in (2, 3):
        saga.reopen()
        saga.run(NO_AND_LEAVE)
        assert saga.state.endings == ending
    assert saga.state.failure == "unknown sku"
    assert saga.left == ("a",)
