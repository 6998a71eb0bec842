"""Approvals and answers to one visit's wait, in the core (semantics §9)."""

from __future__ import annotations

import pytest

from bext_workflow.core.input import Finished
from bext_workflow.core.work import Execute, Remind, wake_at
from bext_workflow.errors import Conflict, Gone
from bext_workflow.model.event import ActIgnored, AnswerReceived, StepFailed, WaitEnded, WaitReminded
from bext_workflow.model.fork import MapDefinition
from bext_workflow.model.json import Json
from bext_workflow.model.status import Action, IncidentKind, WaitEnd, WorkflowStatus
from tests.unit.core.support import NOON, RUN_ID, Saga, approves, asks, done, parked, plan, step


def asking(**fields: Json) -> Saga:
    """It has done something and asks whether it may go on."""
    saga = Saga(plan(step("a"), approves(**fields), step("b", next="end"), step("late"))).run(done())
    saga.open()
    return saga


# Decisions


def test_a_yes_goes_on_with_who_when_and_why() -> None:
    """§9: the decision is journaled, and in the context."""
    saga = asking().wait(5)
    saga.decide(form={"budget": 12})
    assert saga.state.context.get("go") == {
        "approved": True,
        "by": "ann",
        "at": "2027-01-15T08:00:00.005Z",
        "comment": "as agreed",
        "form": {"budget": 12},
    }
    assert saga.last(WaitEnded).how is WaitEnd.ANSWER
    assert saga.due(Execute).step == "b"
    assert saga.to_undo == ["ask", "a"]


def test_a_no_fails_the_step_with_undo() -> None:
    saga = asking()
    saga.decide(approved=False)
    failed = saga.last(StepFailed)
    assert (failed.reason, failed.compensate, failed.own) == ("rejected by ann: as agreed", True, False)
    assert saga.undo_all() == ["a"]


def test_a_no_goes_to_on_reject_with_the_decision() -> None:
    steps = approves(on_reject="c"), step("b", next="end"), step("c")
    saga = Saga(plan(*steps))
    saga.open()
    saga.decide(approved=False)
    assert saga.due(Execute).step == "c"
    assert saga.state.context.get("go")["approved"] is False


def test_a_signal_decides_nothing() -> None:
    """§9: whoever may send one may not decide; the signal is kept."""
    saga = asking()
    saga.signal("go", {"approved": True})
    assert saga.status() is WorkflowStatus.WAITING
    assert [signal.name for signal in saga.state.signals] == ["go"]


def test_a_decision_that_comes_before_its_wait_is_kept_for_it() -> None:
    """A token may be mailed before the wait is durable."""
    saga = Saga(plan(step("a"), approves(), step("b")))
    saga.decide()
    saga.run(done())
    assert saga.open() == ["wait_opened", "answer_taken", "wait_ended"]
    assert saga.due(Execute).step == "b"


def test_a_wait_has_one_answer() -> None:
    """Single use, at the door and behind it."""
    saga = asking()
    saga.pause()
    saga.decide()
    with pytest.raises(Gone, match="has had its answer"):
        saga.decide()


def test_of_two_answers_that_were_accepted_the_second_is_ignored() -> None:
    saga = Saga(plan(step("a"), approves(), step("b")))
    saga.decide()
    saga.acts += 1
    saga.give(saga.answered(approved=False))
    assert saga.last(ActIgnored).kind == "answer"


def test_an_answer_to_a_wait_that_is_over_is_gone() -> None:
    saga = asking(timeout_ms=10, on_timeout="late").wait(10)
    saga.fire()
    with pytest.raises(Gone, match="is over"):
        saga.decide()


def test_an_answer_to_an_ended_run_is_a_conflict() -> None:
    saga = asking()
    saga.cancel(compensate=False)
    saga.settle()
    with pytest.raises(Conflict, match="CANCELLED"):
        saga.decide()


def test_a_decision_that_was_accepted_after_the_time_is_late() -> None:
    """P28, ADR 0009: nobody has looked yet, and it has lost to the timer all the same."""
    saga = asking(timeout_ms=10, on_timeout="late").wait(20)
    saga.decide()
    assert saga.last(AnswerReceived).late
    saga.fire()
    assert "go" not in saga.state.context


def test_a_decision_that_was_accepted_in_time_wins_though_it_is_taken_later() -> None:
    saga = asking(timeout_ms=10).wait(20)
    saga.decide(at=NOON + 9)
    assert saga.due(Execute).step == "b"


def test_each_item_of_a_map_has_a_decision_of_its_own() -> None:
    each = step("split", map=MapDefinition(over="parcels", at="ask", join="b", collect="said"))
    saga = Saga(plan(each, approves(next="b"), step("b")), context={"parcels": [1, 2]}).run(done())
    for branch in (1, 2):
        saga.open_branch(branch)
    saga.decide(key=f"{RUN_ID}:ask[1]")
    saga.decide(key=f"{RUN_ID}:ask[0]", approved=True)
    assert [said["go"]["approved"] for said in saga.state.context.get("said")] == [True, True]


def test_an_answer_to_a_plain_wait_is_its_payload() -> None:
    """A wait token answers any wait: of its visit, and no other one of that name."""
    saga = Saga(plan(asks(), step("b"), asks("again"), step("c")))
    saga.decide(None, key=f"{RUN_ID}:again", form={"n": 2})
    saga.open()
    assert saga.status() is WorkflowStatus.WAITING
    saga.decide(None, form={"n": 1})
    saga.run(done())
    saga.open()
    assert saga.due(Execute).step == "c"
    assert saga.state.context.get("go") == {"n": 2}


def test_an_answer_to_the_wait_of_a_plugins_step() -> None:
    saga = Saga(plan(step("a"), step("b"))).run(parked("paid"))
    saga.decide(None, key=f"{RUN_ID}:a", form=7)
    assert saga.state.context.get("paid") == 7
    assert saga.due(Execute).step == "b"


# Reminders


def test_a_reminder_is_told_once_and_the_run_waits_on() -> None:
    """P21."""
    saga = asking(remind_ms=100, timeout_ms=500)
    assert wake_at(saga.state) == NOON + 100
    assert saga.wait(99).idle()
    assert saga.wait(1).remind() == ["wait_reminded"]
    assert (saga.status(), wake_at(saga.state), saga.idle()) == (WorkflowStatus.WAITING, NOON + 500, True)


def test_a_reminder_that_was_due_in_a_downtime_is_told_then() -> None:
    saga = asking(remind_ms=100).wait(10_000).crash()
    saga.remind()
    assert len(saga.all(WaitReminded)) == 1
    assert saga.idle()


def test_nobody_is_reminded_of_what_is_paused_or_over() -> None:
    saga = asking(remind_ms=100).wait(200)
    saga.pause()
    assert saga.idle()
    saga.resume()
    saga.due(Remind)
    saga.decide()
    saga.due(Execute)


def test_a_retry_past_a_pivot_asks_again_with_its_reminder() -> None:
    saga = Saga(plan(step("a", pivot=True), approves(remind_ms=100, timeout_ms=500), step("b"))).run(done())
    saga.open()
    saga.decide(approved=False)
    assert saga.incident.kind is IncidentKind.STUCK_AFTER_PIVOT
    saga.wait(50).answer(Action.RETRY)
    assert wake_at(saga.state) == NOON + 150
    saga.decide()
    assert saga.due(Execute).step == "b"


def test_what_has_left_its_visit_can_be_answered_no_more() -> None:
    saga = Saga(plan(step("a"), step("b"))).run(parked("paid"))
    saga.signal("paid", 7)
    with pytest.raises(Gone, match="is over"):
        saga.decide(None, key=f"{RUN_ID}:a")
    saga.give(Finished(branch=0, end=done()))
