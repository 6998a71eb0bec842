"""What is written before a call, and what follows when a host dies (semantics §6)."""

from __future__ import annotations

import pytest

from bext_workflow.core.input import Answer, Continued, Failed, Late, Retried, Verified
from bext_workflow.core.work import Compensate, Execute, Verify
from bext_workflow.model.event import ActIgnored, AttemptLost, AttemptStarted, EvidenceAttached, IncidentOpened
from bext_workflow.model.outcome import NotDone, Unknown
from bext_workflow.model.status import Action, Call, IncidentKind, WorkflowStatus
from tests.unit.core.support import AGAIN, NO, RAISED, TIMED_OUT, Saga, charge, done, plan, step, tries

# The intent


def test_an_idempotent_step_writes_nothing_before_its_first_call() -> None:
    """§6: one step, one append."""
    saga = Saga(plan(step("a"), step("b")))
    assert not saga.call_step().intend
    saga.run(done(), done())
    assert saga.kinds == ["run_created", "step_completed", "step_completed", "run_completed"]


@pytest.mark.parametrize("end", [AGAIN, TIMED_OUT])
def test_an_idempotent_step_writes_the_intent_of_later_attempts(end: Retried) -> None:
    """§6: once an earlier attempt was recorded."""
    saga = Saga(plan(step("a"))).run(end).wait(1000)
    assert saga.call_step().intend
    assert saga.last(AttemptStarted) == AttemptStarted(step="a", visit=1, attempt=2)


def test_a_new_visit_begins_unrecorded() -> None:
    """§6: the rule is about attempts of the same visit."""
    saga = Saga(plan(step("a"), step("b"))).run(AGAIN, done())
    assert not saga.due(Execute).intend


def test_a_non_idempotent_step_always_writes_its_intent_first() -> None:
    """§6, P4: and nothing is due while the attempt may be running."""
    saga = Saga(plan(charge()))
    assert saga.call_step().intend
    assert saga.last(AttemptStarted) == AttemptStarted(step="charge", visit=1, attempt=1)
    assert saga.idle()
    assert saga.folded().branches == saga.state.branches


def test_an_undo_writes_its_intent_by_the_same_rule() -> None:
    """§5, §6."""
    saga = Saga(plan(step("a"), step("b", undo_idempotent=False), step("c"))).run(done(), done(), NO)
    assert saga.due(Compensate).intend
    saga.undo(None)
    assert not saga.due(Compensate).intend
    saga.undo(AGAIN)
    assert saga.wait(1000).due(Compensate).intend


# In doubt


def test_a_step_in_doubt_is_never_called_again_by_the_host() -> None:
    """P4: not after any number of crashes, at any time."""
    saga = Saga(plan(charge()))
    saga.call_step()
    for _ in range(12):
        assert saga.crash().wait(10_000_000).idle()
    assert len(saga.all(AttemptStarted)) == 1
    assert len(saga.all(IncidentOpened)) == 1


def test_a_crash_between_intent_and_call_is_in_doubt_too() -> None:
    """P4: nobody can tell the two apart."""
    saga = Saga(plan(charge()))
    saga.call_step()
    saga.crash()
    assert saga.status() is WorkflowStatus.SUSPENDED


def test_a_crash_before_the_intent_is_durable_is_not() -> None:
    """§6: the call cannot have been made."""
    saga = Saga(plan(charge())).crash()
    assert saga.due(Execute).attempt == 1
    assert saga.status() is WorkflowStatus.RUNNING


# verify_step


def asked(*, crashed: bool = False) -> Saga:
    saga = Saga(plan(step("a"), charge(retries=tries(2)), step("b"), verifies=True)).run(done())
    if crashed:
        saga.call_step()
        return saga.crash()
    return saga.run(RAISED)


def answer(saga: Saga, said: Answer) -> list[str]:
    question = saga.due(Verify)
    assert (question.step, question.visit, question.attempt, question.key) == ("charge", 1, 1, "r-1:charge")
    return saga.give(Verified(call=question.call, branch=question.branch, answer=said))


@pytest.mark.parametrize("crashed", [True, False])
def test_verify_step_is_asked_before_a_person(crashed: bool) -> None:
    """§6: no incident while it is being asked, also when the host that asks dies."""
    saga = asked(crashed=crashed)
    assert not saga.state.incidents
    saga.crash().due(Verify)


@pytest.mark.parametrize("crashed", [True, False])
def test_verified_as_done_the_visit_is_complete(crashed: bool) -> None:
    """§6: an outcome: it happened."""
    saga = asked(crashed=crashed)
    answer(saga, done(charge_id="ch-1"))
    assert saga.due(Execute).step == "b"
    assert saga.state.context.get("charge_id") == "ch-1"


def test_verified_as_failed_it_compensates() -> None:
    """§6: it definitely failed, so it has not acted."""
    saga = asked(crashed=True)
    answer(saga, Failed(reason="declined", compensate=True))
    assert saga.undo_all() == ["a"]


def test_verified_as_a_retry_the_next_attempt_follows() -> None:
    """§6, §3."""
    saga = asked()
    answer(saga, Retried(reason="later", after_ms=5))
    assert saga.wait(5).due(Execute).attempt == 2


def test_not_done_after_a_crash_repeats_the_attempt() -> None:
    """§6, P20: the same number; the budget is not touched."""
    saga = asked(crashed=True)
    assert answer(saga, NotDone()) == ["attempt_cleared"]
    assert saga.due(Execute).attempt == 1
    saga.run(AGAIN)
    assert saga.status() is WorkflowStatus.RUNNING


def test_not_done_after_an_unknown_end_counts_as_a_retry() -> None:
    """§6: by the policy, until it is exhausted."""
    saga = asked()
    assert answer(saga, NotDone()) == ["attempt_failed"]
    assert saga.wait(1000).due(Execute).attempt == 2
    saga.run(AGAIN)
    assert saga.status() is WorkflowStatus.COMPENSATING


@pytest.mark.parametrize("said", [Unknown(), Continued(next="nowhere")])
def test_what_verify_step_cannot_tell_a_person_must(said: Answer) -> None:
    """§6: Unknown; an answer that cannot be used is no answer."""
    saga = asked()
    answer(saga, said)
    assert saga.status() is WorkflowStatus.SUSPENDED
    assert saga.incident.kind is IncidentKind.IN_DOUBT
    assert saga.last(IncidentOpened).evidence == RAISED.evidence


def test_verify_step_that_kills_its_hosts_is_not_asked_for_ever() -> None:
    """§6, P45: a suspect's question goes to a person."""
    saga = asked(crashed=True).crash(3)
    assert saga.incident.kind is IncidentKind.IN_DOUBT
    assert saga.idle()


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (done(), WorkflowStatus.COMPENSATED),
        (NotDone(), WorkflowStatus.COMPENSATING),
        (Retried(reason="later"), WorkflowStatus.COMPENSATING),
        (Failed(reason="it is locked", compensate=True), WorkflowStatus.FAILED),
        (Unknown(), WorkflowStatus.SUSPENDED),
    ],
)
@pytest.mark.parametrize("crashed", [True, False])
def test_verify_step_answers_for_an_undo_in_doubt(said: Answer, status: WorkflowStatus, crashed: bool) -> None:
    """§5 `undo_idempotent = false`, §6."""
    saga = Saga(plan(step("a", undo_idempotent=False), step("b"), verifies=True)).run(done(), NO)
    if crashed:
        saga.call_undo()
        saga.crash()
    else:
        saga.undo(RAISED)
    question = saga.due(Verify)
    assert (question.call, question.step, question.key) == (Call.UNDO, "a", "r-1:a:compensate")
    saga.give(Verified(call=Call.UNDO, answer=said))
    assert saga.status() is status
    if isinstance(said, NotDone):
        assert saga.wait(1000).due(Compensate).attempt == (1 if crashed else 2)


def test_verify_step_may_say_when_an_undo_in_doubt_is_tried_again() -> None:
    """§3: `after_ms` replaces the policy's wait, of an undo too."""
    saga = Saga(plan(step("a", undo_idempotent=False), step("b"), verifies=True)).run(done(), NO).undo(RAISED)
    saga.give(Verified(call=Call.UNDO, answer=Retried(reason="the shelf is locked", after_ms=7)))

    assert saga.wait(6).idle()
    assert saga.wait(1).due(Compensate).attempt == 2


# A result that comes too late


def late(saga: Saga, *, attempt: int = 1) -> list[str]:
    saga.acts += 1
    given = Late(act=saga.acts, call=Call.STEP, step="charge", visit=1, attempt=attempt, evidence={"returned": "ok"})
    return saga.give(given)


def test_a_late_result_is_evidence_for_the_incident() -> None:
    """§6: attached, not judged; the run stays SUSPENDED until a person answers."""
    saga = Saga(plan(charge())).run(TIMED_OUT)
    assert late(saga) == ["evidence_attached"]
    attached = saga.last(EvidenceAttached)
    assert (attached.id, attached.evidence) == (saga.incident.id, {"returned": "ok"})
    assert saga.status() is WorkflowStatus.SUSPENDED
    assert saga.state.inbox == 1


def test_a_late_result_that_nobody_waits_for_is_noted_and_changes_nothing() -> None:
    """§6: the incident is answered, or it was another attempt."""
    saga = Saga(plan(charge())).run(TIMED_OUT)
    assert late(saga, attempt=2) == ["act_ignored"]
    saga.answer(Action.NOT_DONE)
    assert late(saga) == ["act_ignored"]
    assert saga.last(ActIgnored).act == saga.state.inbox
    assert saga.due(Execute).attempt == 1


def test_what_was_lost_stays_readable() -> None:
    """§2, P14: reason, evidence and traceback of the attempt in doubt are in the journal."""
    lost = Saga(plan(charge())).run(RAISED).last(AttemptLost)
    assert (lost.reason, lost.evidence, lost.crashed) == (RAISED.reason, RAISED.evidence, False)


def test_an_old_doubt_does_not_colour_a_later_incident() -> None:
    """§5: after the person's answer the evidence of the old one is no longer shown."""
    saga = Saga(plan(step("a", pivot=True), charge())).run(done(), RAISED)
    saga.answer(Action.FAIL)
    saga.answer(Action.RETRY)
    saga.run(NO)
    opened = saga.last(IncidentOpened)
    assert (opened.kind, opened.reason, opened.evidence) == (IncidentKind.STUCK_AFTER_PIVOT, "declined", None)
