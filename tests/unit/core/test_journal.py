"""The journal is the run: its text, read back, gives the state that was decided (`Saga.give` checks each decision)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bext_workflow.core.decide import decide
from bext_workflow.core.evolve import evolve, fold
from bext_workflow.core.input import Beaten, Finished, Intended, Late, PolicyMoved, Settled, Undone
from bext_workflow.core.work import wake_at, work
from bext_workflow.model.fork import JoinDefinition
from bext_workflow.model.journal import KINDS, decode, encode, kind_of
from bext_workflow.model.json import JsonObject, dumps
from bext_workflow.model.origin import Parent
from bext_workflow.model.policy import OnExhausted
from bext_workflow.model.status import Action, Call, WorkflowStatus
from tests.unit.core.support import (
    AGAIN,
    NO,
    NO_AND_LEAVE,
    NOON,
    RAISED,
    RUN_ID,
    TIMED_OUT,
    Saga,
    approves,
    asks,
    calls,
    charge,
    done,
    naps,
    parked,
    plan,
    step,
    tries,
)

ODD: JsonObject = {"ä": "\u2028", "n": -0.0, "big": 2**63 - 1, "deep": [{"x": None}, []], "f": 1e-7, "t": 1.0}
"""Values that a careless text form would change."""


def completed() -> Saga:
    """PENDING, retries, crashes, other policy, the end, its hook."""
    saga = Saga(plan(step("a"), step("b"), notifies=True), begun=False, context=ODD)
    saga.begin()
    saga.run(TIMED_OUT, done(undo_data=ODD, **ODD)).crash()
    saga.give(Beaten(branch=0, step="b", visit=1, detail=ODD))
    saga.give(PolicyMoved(policy="p-2", changes=("timeout_ms was 0; it is 5",)))
    return saga.run(AGAIN, done()).notify("down", None)


def compensated() -> Saga:
    """A doubt of each kind, each answered; a failing undo, skipped and retried."""
    steps = step("a"), step("b", undo_idempotent=False), charge("c"), charge("d", compensate_on_failure=True)
    saga = Saga(plan(*steps)).run(done(), done(), RAISED)
    saga.acts += 1
    saga.give(Late(act=saga.acts, call=Call.STEP, step="c", visit=1, attempt=1, evidence=ODD))
    saga.answer(Action.NOT_DONE)
    saga.run(RAISED)
    saga.answer(Action.DONE, undo_data=ODD, **ODD)
    saga.run(RAISED)
    saga.answer(Action.FAIL_UNDO)
    saga.undo(NO)
    saga.answer(Action.RETRY)
    saga.undo(AGAIN, NO)
    saga.answer(Action.SKIP)
    saga.undo(None, RAISED)
    saga.answer(Action.NOT_DONE)
    return saga.undo(None, None)


def cancelled() -> Saga:
    """Spent attempts, renewed, then a cancel, and a second one."""
    saga = Saga(plan(step("a", retries=tries(1, OnExhausted.INCIDENT)), step("b"))).run(AGAIN)
    saga.answer(Action.RETRY)
    saga.run(done())
    saga.cancel(compensate=False)
    saga.cancel(compensate=False)
    saga.settle()
    return saga


def failed_and_undone() -> Saga:
    """FAILED, retried, FAILED, cancelled, COMPENSATED."""
    saga = Saga(plan(step("a"), step("b"))).run(done(), NO_AND_LEAVE)
    saga.reopen("a")
    saga.run(done(), NO_AND_LEAVE)
    saga.cancel()
    saga.undo_all()
    return saga


def waited() -> Saga:
    """Signals before, while and late; a wait of each kind, one in vain; pauses; the end."""
    steps = asks(into="answer"), naps(), step("a", branches=("z",), next="b"), step("b", next="end"), step("z")
    saga = Saga(plan(*steps), begun=False)
    saga.signal("go", ODD, id="s-1")
    saga.begin()
    saga.open()
    saga.pause()
    saga.resume()
    saga.open()
    saga.wait(500).fire()
    saga.run(parked("go", for_ms=100, on_timeout="z", updates=ODD, undo_data=ODD)).crash()
    saga.wait(100).signal("go", ODD, id="s-2")
    saga.signal("go", id="s-2")
    saga.fire()
    saga.run(parked("go"))
    saga.signal("go")
    return saga


def timed_out() -> Saga:
    """A wait that the run's own time ends; a person has cancelled, too, and hurries."""
    saga = Saga(plan(step("a"), step("b"), timeout_ms=1000)).run(parked("go", until=NOON + 5000)).wait(1000)
    saga.expire()
    saga.cancel(now=True)
    saga.settle()
    saga.undo_all()
    return saga


def raced() -> Saga:
    """Two branches, of which one is enough: the other, which had done its first step, settles and is undone."""
    race = step("a", next=("b", "c"), join=JoinDefinition(at="e", need="any"))
    saga = Saga(plan(race, step("b", next="e"), step("c", next="d"), step("d", next="e"), step("e"))).run(done())
    for branch in (2, 1):
        saga.give(Finished(branch=branch, end=done()))
    saga.give(Settled(branch=2))
    saga.give(Undone())
    return saga.run(done())


def of_children() -> Saga:
    """A child that completes and is undone, one that is stopped; the run is a child itself, and is undone twice."""
    saga = Saga(plan(calls("ship"), step("b")), parent=Parent(run_id="r-0", root="r-0", step="order", visit=1))
    saga.call_child()
    saga.child_ends(WorkflowStatus.COMPLETED, parcel="p-1")
    saga.run(done())
    saga.tell_parent()
    saga.undo_for_parent()
    saga.undo(None)
    saga.undo_child()
    saga.child_ends(WorkflowStatus.COMPENSATED, ending=2)
    saga.tell_parent()
    return saga


def decided() -> Saga:
    """A decision that was there early, one of which somebody was reminded."""
    saga = Saga(plan(approves(remind_ms=5), approves("again", "sure", into="said")))
    saga.decide(form=ODD)
    saga.open()
    saga.decide(key=f"{RUN_ID}:again", form=ODD)
    saga.open()
    return saga


def reminded() -> Saga:
    saga = Saga(plan(approves(remind_ms=5)))
    saga.open()
    saga.wait(5).remind()
    saga.decide(approved=False)
    return saga


def stopped_with_a_child() -> Saga:
    saga = Saga(plan(calls()))
    saga.call_child()
    saga.cancel()
    saga.stop_child()
    saga.child_ends(WorkflowStatus.CANCELLED)
    return saga


JOURNEYS = {
    decided: WorkflowStatus.COMPLETED,
    reminded: WorkflowStatus.COMPENSATED,
    of_children: WorkflowStatus.COMPENSATED,
    stopped_with_a_child: WorkflowStatus.CANCELLED,
    raced: WorkflowStatus.COMPLETED,
    waited: WorkflowStatus.COMPLETED,
    timed_out: WorkflowStatus.COMPENSATED,
    completed: WorkflowStatus.COMPLETED,
    compensated: WorkflowStatus.FAILED,
    cancelled: WorkflowStatus.CANCELLED,
    failed_and_undone: WorkflowStatus.COMPENSATED,
}


def test_the_journeys_hold_every_kind_of_event() -> None:
    """So that a new kind cannot be forgotten in what follows."""
    assert {kind for journey in JOURNEYS for kind in journey().kinds} == set(KINDS.values())


@pytest.mark.parametrize(("journey", "status"), JOURNEYS.items())
def test_the_text_of_a_journal_folds_to_the_decided_state(journey: Callable[[], Saga], status: WorkflowStatus) -> None:
    """P5, architecture "Journal and index": the state is the fold of the journal, and nothing else."""
    saga = journey()
    assert saga.status() is status
    assert saga.folded() == saga.state


@pytest.mark.parametrize("journey", JOURNEYS)
def test_an_events_text_reads_back_equal_and_type_equal(journey: Callable[[], Saga]) -> None:
    """P47 for the journal: the second text equals the first, byte for byte."""
    for kind, text, _ in journey().journal:
        event = decode(kind, text)
        assert (kind_of(event), encode(event)) == (kind, text)
        assert decode(kind, text.decode()) == event


@pytest.mark.parametrize("journey", JOURNEYS)
def test_any_prefix_of_a_journal_is_a_run_that_can_be_looked_at(journey: Callable[[], Saga]) -> None:
    """P5, architecture "Journal and index": time travel; `seq` is the length of the journal."""
    saga = journey()
    for length in range(1, len(saga.journal) + 1):
        state = saga.folded(length)
        assert state.seq == length
        work(state, NOON)
        wake_at(state)


def test_a_context_is_carried_exactly() -> None:
    """P47: -0.0, 1.0 against 1, integers of 63 bits, key order."""
    saga = completed()
    assert dumps(saga.folded().context.to_dict()) == dumps(ODD)
    assert list(saga.folded().context) == list(ODD)


def test_defaults_are_left_out_of_the_text() -> None:
    """Architecture "Journal and index": deltas only; a bare checkpoint is a short row."""
    assert encode(Saga(plan(step("a"), step("b"))).run(done()).events[-1]) == (
        b'{"step":"a","visit":1,"attempt":1,"next":"b"}'
    )


def test_a_journal_begins_with_the_start_and_has_one() -> None:
    """A journal that does not is refused, not guessed at."""
    saga = completed()
    created, *rest = ((event, NOON) for event in saga.events)
    with pytest.raises(ValueError, match="begins with run_created"):
        fold(saga.state.plan, rest)
    with pytest.raises(ValueError, match="begins with run_created"):
        fold(saga.state.plan, [])
    with pytest.raises(ValueError, match="created once"):
        evolve(saga.state, created[0], NOON)


def test_a_kind_of_a_later_version_is_not_guessed_at() -> None:
    """`decode` knows its kinds."""
    with pytest.raises(KeyError):
        decode("step_teleported", b"{}")


def test_a_decision_changes_nothing_until_it_is_taken() -> None:
    """P5: `decide` is pure: the same input of the same state decides the same; the state that it was given stays."""
    saga = Saga(plan(charge()))
    before = saga.state
    first = decide(saga.state, Intended(call=Call.STEP), now=NOON)
    assert decide(saga.state, Intended(call=Call.STEP), now=NOON) == first
    assert saga.state is before
    assert before == saga.folded()


def test_policy_may_change_under_a_live_run_the_graph_is_its_own() -> None:
    """P49, semantics §10: the journal holds the digest of the graph; another policy folds to the same place."""
    old, new = plan(step("a"), step("b")), plan(step("a", retries=tries(9)), step("b", timeout_ms=5))
    other = plan(step("a"), step("b", idempotent=False))
    assert old.definition.digest == new.definition.digest != other.definition.digest
    saga = Saga(old).run(AGAIN)
    moved = fold(new, [(decode(kind, text), at) for kind, text, at in saga.journal])
    assert moved.branches == saga.state.branches
