"""`on_workflow_complete` (semantics §2, P17), and how a run ends."""

from __future__ import annotations

import pytest

from bext_workflow.core.input import Undone
from bext_workflow.core.work import Notify
from bext_workflow.model.event import AttemptFailed, CompletionSettled
from bext_workflow.model.status import Action, IncidentKind, WorkflowStatus
from tests.unit.core.support import NO, NO_AND_LEAVE, NOON, Saga, done, plan, step


def ended(status: WorkflowStatus, *, notifies: bool = True) -> Saga:
    saga = Saga(plan(step("a"), step("b"), notifies=notifies)).run(done())
    match status:
        case WorkflowStatus.COMPLETED:
            saga.run(done())
        case WorkflowStatus.COMPENSATED:
            saga.run(NO).undo(None)
        case WorkflowStatus.FAILED:
            saga.run(NO_AND_LEAVE)
        case _:
            saga.cancel(compensate=False)
            saga.settle()
    assert saga.status() is status
    return saga


ENDINGS = [
    WorkflowStatus.COMPLETED,
    WorkflowStatus.COMPENSATED,
    WorkflowStatus.FAILED,
    WorkflowStatus.CANCELLED,
]


@pytest.mark.parametrize("status", ENDINGS)
def test_it_is_called_for_every_terminal_status_after_that_is_durable(status: WorkflowStatus) -> None:
    """P17: with the ending's own status, number and key."""
    saga = ended(status)
    call = saga.due(Notify)
    assert (call.n, call.status, call.attempt, call.key) == (1, status, 1, "r-1:complete#1")
    assert saga.folded().status is status
    saga.notify(None)
    assert saga.last(CompletionSettled) == CompletionSettled(ending=1)
    assert saga.idle()


@pytest.mark.parametrize("status", ENDINGS)
def test_a_plugin_without_the_hook_is_not_called(status: WorkflowStatus) -> None:
    """§2: it defaults to nothing, and costs nothing."""
    assert ended(status, notifies=False).idle()


def test_its_errors_are_retried_by_the_default_policy_and_then_a_person_is_asked() -> None:
    """§2: 3 tries, 1 s and 2 s apart; then `completion_failed`; the status never moves (P17)."""
    saga = ended(WorkflowStatus.COMPENSATED)
    saga.notify("down")
    assert saga.last(AttemptFailed).retry_at == NOON + 1000
    assert saga.wait(999).idle()
    saga.notify("down")
    assert saga.last(AttemptFailed).retry_at == NOON + 1000 + 2000
    saga.notify("still down")
    assert (saga.incident.kind, saga.incident.reason) == (IncidentKind.COMPLETION_FAILED, "still down")
    assert saga.status() is WorkflowStatus.COMPENSATED
    assert saga.idle()


def test_a_crash_during_the_call_repeats_it_with_the_same_key() -> None:
    """P17: at least once."""
    saga = ended(WorkflowStatus.COMPLETED)
    before = saga.call_notify()
    assert saga.crash().due(Notify) == before


def test_each_ending_is_told_of_once_and_in_order() -> None:
    """§2: the n-th ending has its own key, and tells its own status although the run has moved on."""
    saga = ended(WorkflowStatus.FAILED)
    saga.cancel()
    saga.give(Undone())
    assert saga.status() is WorkflowStatus.COMPENSATED
    told = [(saga.due(Notify).n, saga.due(Notify).status, saga.due(Notify).key)]
    saga.notify(None)
    told.append((saga.due(Notify).n, saga.due(Notify).status, saga.due(Notify).key))
    assert told == [
        (1, WorkflowStatus.FAILED, "r-1:complete#1"),
        (2, WorkflowStatus.COMPENSATED, "r-1:complete#2"),
    ]
    saga.notify(None)
    assert saga.idle()


def test_an_ending_that_a_person_gave_up_makes_room_for_the_next() -> None:
    """§5 `completion_failed`: close."""
    saga = ended(WorkflowStatus.FAILED).notify("no", "no", "no")
    saga.reopen()
    saga.run(done())
    assert saga.status() is WorkflowStatus.COMPLETED
    assert saga.idle(), "endings are told of in order"
    saga.answer(Action.CLOSE)
    assert saga.due(Notify).n == 2
