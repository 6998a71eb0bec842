"""How an attempt ends: definite or unknown, for both kinds of step (the table of semantics §2)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bext_workflow.core.input import Beaten, Continued, End, Finished, Lost, Retried
from bext_workflow.core.work import Execute
from bext_workflow.model.definition import StepDefinition
from bext_workflow.model.event import AttemptFailed, AttemptLost, HeartbeatRecorded, IncidentOpened, StepFailed
from bext_workflow.model.status import IncidentKind, WorkflowStatus
from tests.unit.core.support import AGAIN, NO, NO_AND_LEAVE, RAISED, TIMED_OUT, Saga, charge, done, plan, step

DEFINITE: list[tuple[End, str]] = [
    (done(order=1), "step_completed"),
    (AGAIN, "attempt_failed"),
    (Retried(reason="", after_ms=10), "attempt_failed"),
    (NO, "step_failed"),
    (NO_AND_LEAVE, "step_failed"),
]


@pytest.mark.parametrize("kind", [step, charge])
@pytest.mark.parametrize(("end", "follows"), DEFINITE)
def test_a_definite_end_is_taken_at_its_word_whatever_the_step(
    kind: Callable[[str], StepDefinition], end: End, follows: str
) -> None:
    """§2, first row: an explicit Retry of a non-idempotent step is the plugin's word that a retry is safe."""
    saga = Saga(plan(kind("pay"), step("ship"))).run(end)
    assert follows in saga.kinds
    assert not saga.state.incidents


@pytest.mark.parametrize(
    "lost",
    [
        TIMED_OUT,
        Lost(reason="reset", errors=frozenset({"builtins.ConnectionError", "builtins.ConnectionResetError"})),
        Lost(reason="60 s are over", transient=True),
        Lost(reason="pool", errors=frozenset({"asyncpg.exceptions.TooManyConnectionsError"})),
        Lost(reason="gateway", errors=frozenset({"GatewayTimeout"})),
    ],
)
def test_a_transient_unknown_end_of_an_idempotent_step_is_a_retry(lost: Lost) -> None:
    """§2, second row: time-outs, connection errors and what `retry_on` names, bare or dotted."""
    retry_on = ("asyncpg.exceptions.TooManyConnectionsError", "GatewayTimeout")
    saga = Saga(plan(step("pay", retry_on=retry_on))).run(lost)
    failed = saga.last(AttemptFailed)
    assert (failed.attempt, failed.unknown) == (1, True)
    assert saga.status() is WorkflowStatus.RUNNING


def test_any_other_unknown_end_of_an_idempotent_step_fails_it_and_compensates() -> None:
    """§2, third row; the traceback is kept (P14)."""
    end = Lost(reason="KeyError: 'order'", errors=frozenset({"builtins.KeyError"}), traceback="Traceback …")
    saga = Saga(plan(step("reserve"), step("pay"))).run(done(), end)
    failed = saga.last(StepFailed)
    assert (failed.step, failed.reason, failed.compensate) == ("pay", "KeyError: 'order'", True)
    assert failed.traceback == "Traceback …"
    assert saga.status() is WorkflowStatus.COMPENSATING


@pytest.mark.parametrize("lost", [TIMED_OUT, RAISED, Lost(reason="60 s are over", transient=True)])
def test_every_unknown_end_of_a_non_idempotent_step_is_in_doubt(lost: Lost) -> None:
    """§2 and P4: a person is asked, and what was returned or raised is kept for them."""
    saga = Saga(plan(charge())).run(lost)
    assert saga.status() is WorkflowStatus.SUSPENDED
    assert saga.incident.kind is IncidentKind.IN_DOUBT
    opened = saga.last(IncidentOpened)
    assert (opened.reason, opened.evidence, opened.step, opened.attempt) == (lost.reason, lost.evidence, "charge", 1)
    assert not saga.last(AttemptLost).crashed
    assert saga.idle()


def test_a_crash_of_an_idempotent_step_repeats_the_same_attempt_with_the_same_key() -> None:
    """§2, last row; P20: the crash costs no attempt, P3: the key is the same."""
    saga = Saga(plan(step("pay")))
    before = saga.call_step()
    saga.crash()
    assert saga.due(Execute) == before


def test_a_crash_of_a_non_idempotent_step_is_in_doubt() -> None:
    """§2, last row; P4."""
    saga = Saga(plan(charge()))
    saga.call_step()
    saga.crash()
    assert saga.incident.kind is IncidentKind.IN_DOUBT
    assert saga.last(AttemptLost).crashed
    assert saga.idle()


@pytest.mark.parametrize("end", [AGAIN, TIMED_OUT, RAISED, NO_AND_LEAVE])
def test_only_a_completed_visit_changes_the_context(end: End) -> None:
    """P8: nothing of Retry, Fail, or of what raised, is ever seen in the context."""
    saga = Saga(plan(step("pay"), step("ship")), context={"order": 1}).run(end)
    assert saga.state.context.to_dict() == {"order": 1}


def test_an_attempt_in_doubt_changes_no_context() -> None:
    """P8: what a lost attempt returned is evidence, not state."""
    saga = Saga(plan(charge()), context={"order": 1}).run(Lost(reason="too large", evidence={"paid": 1}))
    assert saga.state.context.to_dict() == {"order": 1}


def test_a_step_that_chooses_an_undeclared_next_fails_for_good() -> None:
    """§3: an outcome whose `next` is not declared is no valid outcome: a permanent failure that compensates."""
    saga = Saga(plan(step("look", branches=("ship",), next="pay"), step("pay", next="end"), step("ship")))
    saga.run(done("refund", stock=1))
    failed = saga.last(StepFailed)
    assert failed.compensate
    assert "'refund'" in failed.reason
    assert "['pay', 'ship']" in failed.reason
    assert "stock" not in saga.state.context


def test_a_non_idempotent_step_that_chooses_an_undeclared_next_is_in_doubt() -> None:
    """§2: an unknown end; what it returned is kept, so that a person can answer `done` with it."""
    saga = Saga(plan(charge(), step("ship"))).run(Continued(updates=done(paid=1).updates, next="nowhere", undo_data=7))
    assert saga.incident.kind is IncidentKind.IN_DOUBT
    evidence = saga.last(IncidentOpened).evidence
    assert evidence == {"context_updates": {"paid": 1}, "next": "nowhere", "undo_data": 7}


@pytest.mark.parametrize("end", [AGAIN, NO, NO_AND_LEAVE, TIMED_OUT, RAISED])
@pytest.mark.parametrize("kind", [step, charge])
def test_what_an_attempt_said_last_stands_before_its_end(kind: Callable[[str], StepDefinition], end: End) -> None:
    """§8: in one append with it."""
    saga = Saga(plan(kind("copy")))
    saga.call_step()
    kinds = saga.give(Finished(branch=0, end=end, detail={"copied": 7}))
    assert kinds[0] == "heartbeat_recorded"
    assert saga.last(HeartbeatRecorded) == HeartbeatRecorded(step="copy", visit=1, attempt=1, detail={"copied": 7})


def test_a_step_that_is_done_has_nobody_to_tell_how_far_it_came() -> None:
    saga = Saga(plan(step("copy")))
    assert saga.give(Finished(branch=0, end=done(), detail=7)) == ["step_completed", "run_completed"]


def test_what_is_known_already_is_not_said_twice() -> None:
    """An append that was under way when the attempt ended may have been the same."""
    saga = Saga(plan(step("copy")))
    saga.give(Beaten(branch=0, step="copy", visit=1, detail={"copied": 1}))
    assert saga.give(Finished(branch=0, end=AGAIN, detail={"copied": 1})) == ["attempt_failed"]
    assert saga.wait(1000).give(Finished(branch=0, end=AGAIN, detail={"copied": 1.0}))[0] == "heartbeat_recorded"


def test_a_retry_by_a_person_goes_on_with_what_was_said_a_new_visit_begins_without() -> None:
    """§8: the same visit, the same detail."""
    saga = Saga(plan(step("copy")))
    saga.give(Finished(branch=0, end=NO_AND_LEAVE, detail=7))
    saga.reopen()
    assert saga.branch.detail == 7
    saga.run(NO_AND_LEAVE).reopen(new_visit=True)
    assert saga.branch.detail is None
