"""Each incident kind takes its answers and no others (the table of semantics §5)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bext_workflow.core.work import Compensate, Execute
from bext_workflow.errors import Conflict
from bext_workflow.model.event import CompletionSettled, IncidentResolved, StepCompensated, UndoSkipped
from bext_workflow.model.json import Json
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
    charge,
    done,
    plan,
    step,
    tries,
)

COMPENSATED = WorkflowStatus.COMPENSATED
FAILED = WorkflowStatus.FAILED


def in_doubt(**fields: Json) -> Saga:
    steps = step("a"), charge("charge", branches=("c",), **fields), step("b", next="end"), step("c")
    return Saga(plan(*steps)).run(done(), RAISED)


def undo_in_doubt() -> Saga:
    return Saga(plan(step("z"), step("a", undo_idempotent=False), step("b"))).run(done(), done(), NO).undo(RAISED)


def undo_failed() -> Saga:
    return Saga(plan(step("z"), step("a"), step("b"))).run(done(), done(), NO).undo(NO)


def exhausted() -> Saga:
    b = step("b", retries=tries(2, OnExhausted.INCIDENT), compensate_on_failure=True)
    return Saga(plan(step("a"), b, step("c"))).run(done(), TIMED_OUT, TIMED_OUT)


def stuck() -> Saga:
    return Saga(plan(step("a", pivot=True), step("b"), step("c"))).run(done(), NO)


def poisoned() -> Saga:
    saga = Saga(plan(step("a"), step("b"))).run(done()).crash(3)
    for _ in range(7):
        saga.call_step()
        saga.crash()
    return saga


def poisoned_undo() -> Saga:
    saga = Saga(plan(step("a"), step("b"))).run(done(), NO).crash(3)
    for _ in range(7):
        saga.call_undo()
        saga.crash()
    return saga


def unheard() -> Saga:
    return Saga(plan(step("a"), notifies=True)).run(done()).notify("no", "no", "no")


ANSWERS: list[tuple[Callable[[], Saga], IncidentKind, str]] = [
    (in_doubt, IncidentKind.IN_DOUBT, "done not_done fail fail_undo"),
    (undo_in_doubt, IncidentKind.IN_DOUBT, "done not_done fail"),
    (undo_failed, IncidentKind.COMPENSATION_FAILED, "retry undone skip close"),
    (exhausted, IncidentKind.EXHAUSTED, "retry done fail close"),
    (stuck, IncidentKind.STUCK_AFTER_PIVOT, "retry done close"),
    (poisoned, IncidentKind.POISON, "retry cancel"),
    (poisoned_undo, IncidentKind.POISON, "retry close"),
    (unheard, IncidentKind.COMPLETION_FAILED, "retry close"),
]


@pytest.mark.parametrize("action", list(Action))
@pytest.mark.parametrize(("opened", "kind", "allowed"), ANSWERS)
def test_an_incident_takes_its_answers_and_lists_them_when_it_refuses(
    opened: Callable[[], Saga], kind: IncidentKind, allowed: str, action: Action
) -> None:
    """§5: another action is a conflict that lists the allowed ones; an answer resolves the incident for good."""
    saga = opened()
    incident = saga.incident
    assert incident.kind is kind
    if action in allowed.split():
        saga.answer(action)
        assert saga.state.incident(incident.id) is None
        resolved = saga.all(IncidentResolved)[-1]
        assert (resolved.id, resolved.action, resolved.by, resolved.note) == (
            incident.id,
            action,
            "ann",
            "looked it up",
        )
        assert saga.state.inbox == saga.acts
    else:
        said = f"'{action.value}' does not answer an incident {kind.value} — use one of: {', '.join(allowed.split())}"
        with pytest.raises(Conflict, match=f"^{said}$"):
            saga.answer(action)


def test_an_incident_is_answered_once() -> None:
    """§5: a second answer finds nothing open."""
    saga = in_doubt()
    gone = saga.incident
    saga.answer(Action.FAIL)
    saga.undo(NO)
    assert saga.incident.id != gone.id
    saga.state = saga.folded()
    assert saga.state.incident(gone.id) is None


def test_ids_are_uuids_of_version_7_that_a_repeated_decision_would_give_again() -> None:
    """P6: the core draws nothing; what is decided twice of the same journal has the same id."""
    first, second = in_doubt().incident.id, in_doubt().incident.id
    assert first == second
    assert (first[14], first[19] in "89ab", len(first)) == ("7", True, 36)
    assert undo_failed().incident.id != first


# in_doubt of a step


def test_done_completes_the_visit_with_the_persons_word() -> None:
    """§5 `done{context_updates, next, undo_data}`."""
    saga = in_doubt()
    saga.answer(Action.DONE, "c", charge_id="ch-1", undo_data={"by": "hand"})
    assert saga.due(Execute).step == "c"
    assert saga.state.context.to_dict() == {"charge_id": "ch-1"}
    entry = saga.state.pending
    assert entry is not None
    assert (entry.step, entry.undo_data, entry.updates) == ("charge", {"by": "hand"}, {"charge_id": "ch-1"})


def test_done_without_a_next_goes_where_the_definition_says() -> None:
    """§5."""
    saga = in_doubt()
    saga.answer(Action.DONE)
    assert saga.due(Execute).step == "b"


def test_done_with_an_undeclared_next_is_refused_and_nothing_has_happened() -> None:
    """§3, §5: the same rule for a person; a refused act leaves no trace."""
    saga = in_doubt()
    before = saga.state
    with pytest.raises(Conflict, match="may not go to 'a'"):
        saga.answer(Action.DONE, "a")
    assert saga.state is before


def test_not_done_calls_again_with_the_same_attempt_number() -> None:
    """§5, P20: it is the same attempt, so it costs no budget; again intent first (P4)."""
    saga = in_doubt(retries=tries(1))
    saga.answer(Action.NOT_DONE)
    again = saga.due(Execute)
    assert (again.step, again.attempt, again.key, again.intend) == ("charge", 1, "r-1:charge", True)
    assert saga.status() is WorkflowStatus.RUNNING


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize(("action", "undone"), [(Action.FAIL, ["a"]), (Action.FAIL_UNDO, ["charge", "a"])])
def test_fail_and_fail_undo_mean_what_they_say_whatever_the_definition(
    action: Action, undone: list[str], flag: bool
) -> None:
    """§5: `fail`: it did not act; `fail_undo`: its own undo first; whatever `compensate_on_failure` says."""
    saga = in_doubt(compensate_on_failure=flag)
    saga.answer(action)
    assert saga.state.failure == RAISED.reason
    assert saga.undo_all() == undone
    assert saga.status() is COMPENSATED


# in_doubt of an undo


def test_done_of_an_undo_takes_it_off_the_list() -> None:
    """§5: `done` = undone; P15: a person answered for it."""
    saga = undo_in_doubt()
    saga.answer(Action.DONE)
    assert saga.last(StepCompensated).by == "ann"
    assert saga.undo_all() == ["z"]
    assert saga.status() is COMPENSATED


def test_not_done_of_an_undo_calls_it_again() -> None:
    """§5: the same attempt, the same key."""
    saga = undo_in_doubt()
    saga.answer(Action.NOT_DONE)
    again = saga.due(Compensate)
    assert (again.step, again.attempt, again.key) == ("a", 1, "r-1:a:compensate")


def test_fail_of_an_undo_is_a_failed_compensation() -> None:
    """§5: FAILED, and the next incident takes it from there."""
    saga = undo_in_doubt()
    saga.answer(Action.FAIL)
    assert saga.status() is FAILED
    assert (saga.incident.kind, saga.incident.step) == (IncidentKind.COMPENSATION_FAILED, "a")


# compensation_failed


def test_retry_begins_with_the_undo_that_failed() -> None:
    """P13: from exactly there, the same key, the next number, a new budget; then the rest."""
    saga = undo_failed()
    saga.answer(Action.RETRY)
    again = saga.due(Compensate)
    assert (again.step, again.attempt, again.key) == ("a", 2, "r-1:a:compensate")
    assert saga.state.undo is not None
    assert saga.state.undo.spent == 0
    assert saga.undo_all() == ["a", "z"]
    assert saga.status() is COMPENSATED


def test_undone_by_a_person_the_run_can_end_compensated() -> None:
    """§5, P15."""
    saga = undo_failed()
    saga.answer(Action.UNDONE)
    assert saga.last(StepCompensated).by == "ann"
    assert saga.undo_all() == ["z"]
    assert saga.status() is COMPENSATED


def test_skip_goes_on_and_ends_failed_with_it_left_in_place() -> None:
    """§5: P15: never COMPENSATED; the first failure's reason (P14)."""
    saga = undo_failed()
    saga.answer(Action.SKIP)
    assert saga.last(UndoSkipped).step == "a"
    assert saga.undo_all() == ["z"]
    assert (saga.status(), saga.left, saga.state.failure) == (FAILED, ("a",), "declined")


def test_skip_of_the_last_one_ends_at_once() -> None:
    """§5."""
    saga = Saga(plan(step("a"), step("b"))).run(done(), NO).undo(NO)
    saga.answer(Action.SKIP)
    assert (saga.status(), saga.left) == (FAILED, ("a",))
    assert not saga.state.incidents


def test_left_in_place_is_told_oldest_first() -> None:
    """§5: what was skipped on the way stands after what the walk has not reached."""
    saga = Saga(plan(*(step(name) for name in "abcd"))).run(done(), done(), done(), NO).undo(NO)
    saga.answer(Action.SKIP)
    saga.undo(NO)
    saga.answer(Action.SKIP)
    saga.undo(NO)
    assert saga.left == ("a", "b", "c")


def test_close_leaves_it_failed() -> None:
    """§5: nothing more is called; `retry` is then a conflict."""
    saga = undo_failed()
    endings = saga.state.endings
    assert saga.answer(Action.CLOSE) == ["incident_resolved"]
    assert (saga.status(), saga.left) == (FAILED, ("z", "a"))
    assert (saga.state.endings, saga.idle()) == (endings, True)
    with pytest.raises(Conflict, match="start a new run"):
        saga.reopen()


def test_a_second_failure_of_the_same_undo_opens_the_next_incident() -> None:
    """P13."""
    saga = undo_failed()
    first = saga.incident.id
    saga.answer(Action.RETRY)
    saga.undo(NO)
    assert saga.status() is FAILED
    assert saga.incident.id != first
    assert saga.incident.attempt == 2


# exhausted


def test_retry_of_exhausted_renews_the_budget() -> None:
    """§5, P20: numbers go on, the waits begin anew, the key stays."""
    saga = exhausted()
    saga.answer(Action.RETRY)
    assert (saga.due(Execute).attempt, saga.due(Execute).key) == (3, "r-1:b")
    saga.run(AGAIN)
    assert saga.status() is WorkflowStatus.RUNNING
    saga.run(AGAIN)
    assert (saga.incident.kind, saga.incident.attempt) == (IncidentKind.EXHAUSTED, 4)


def test_done_of_exhausted_completes_the_visit() -> None:
    """§5."""
    saga = exhausted()
    saga.answer(Action.DONE, parcel="p-1")
    assert saga.due(Execute).step == "c"
    assert saga.state.context.get("parcel") == "p-1"


def test_fail_of_exhausted_compensates_by_the_steps_own_rule() -> None:
    """§5: spent attempts ended unknown, and the step says `compensate_on_failure`."""
    saga = exhausted()
    saga.answer(Action.FAIL)
    assert saga.undo_all() == ["b", "a"]
    assert saga.status() is COMPENSATED


def test_close_of_exhausted_leaves_in_place_what_a_cancel_may_still_undo() -> None:
    """§3 Fail, §5: FAILED; what may have acted is undone first."""
    saga = exhausted()
    saga.answer(Action.CLOSE)
    assert (saga.status(), saga.left) == (FAILED, ("a", "b"))
    saga.cancel()
    assert saga.undo_all() == ["b", "a"]


def test_close_of_exhausted_can_be_retried() -> None:
    """§5: forward, with nothing undone."""
    saga = exhausted()
    saga.answer(Action.CLOSE)
    saga.reopen()
    assert (saga.due(Execute).step, saga.due(Execute).attempt) == ("b", 3)


# poison


def test_retry_of_poison_begins_to_count_anew() -> None:
    """§6: the same attempt, no longer a suspect's."""
    saga = poisoned()
    saga.answer(Action.RETRY)
    assert (saga.due(Execute).step, saga.due(Execute).attempt) == ("b", 1)
    assert not saga.state.suspect


def test_cancel_of_poison_compensates() -> None:
    """§5: the branch settles, the completed steps are undone."""
    saga = poisoned()
    saga.answer(Action.CANCEL)
    saga.settle()
    assert saga.undo_all() == ["a"]
    assert saga.status() is COMPENSATED


def test_close_of_poison_while_compensating_ends_failed() -> None:
    """§5: what is not undone is left in place, the first failure is the reason (P14)."""
    saga = poisoned_undo()
    saga.answer(Action.CLOSE)
    assert (saga.status(), saga.left, saga.state.failure) == (FAILED, ("a",), "declined")


# completion_failed


def test_retry_of_completion_failed_calls_again() -> None:
    """§2: the next number, a new budget, the same key; the status stays (P17)."""
    saga = unheard()
    saga.answer(Action.RETRY)
    call = saga.call_notify()
    assert (call.attempt, call.key) == (4, "r-1:complete#1")
    assert saga.status() is WorkflowStatus.COMPLETED


def test_close_of_completion_failed_gives_it_up() -> None:
    """§5."""
    saga = unheard()
    saga.answer(Action.CLOSE)
    assert (saga.last(CompletionSettled).ending, saga.last(CompletionSettled).delivered) == (1, False)
    assert saga.idle()
    assert not saga.state.notices


def test_an_answer_in_one_place_leaves_incidents_in_another() -> None:
    """§5: a failed undo and an unheard ending are two questions."""
    saga = Saga(plan(step("a"), step("b"), notifies=True)).run(done(), NO).undo(NO).notify("no", "no", "no")
    kinds = [incident.kind for incident in saga.state.incidents]
    assert kinds == [IncidentKind.COMPENSATION_FAILED, IncidentKind.COMPLETION_FAILED]
    saga.reopen()
    assert saga.incident.kind is IncidentKind.COMPLETION_FAILED
    assert saga.status() is WorkflowStatus.COMPENSATING
    assert [entry.step for entry in newest_first(saga.state.pending)] == ["a"]


def test_spent_definite_retries_are_exhausted_too() -> None:
    """§3: nothing may have acted, so `fail` undoes only what completed."""
    b = step("b", retries=tries(1, OnExhausted.INCIDENT), compensate_on_failure=True)
    saga = Saga(plan(step("a"), b)).run(done(), AGAIN)
    saga.answer(Action.FAIL)
    assert saga.undo_all() == ["a"]


def test_a_failed_run_that_left_things_in_place_opens_no_incident() -> None:
    """§3 Fail."""
    assert not Saga(plan(step("a"), step("b"))).run(done(), NO_AND_LEAVE).state.incidents
