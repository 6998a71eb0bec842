"""What a run waits for, and how a wait ends: the outcome Wait, and the steps that are the host's (semantics §3, §7)."""

from __future__ import annotations

import pytest

from bext_workflow.core.input import Parked, Verified
from bext_workflow.core.work import Compensate, Execute, Open, wake_at
from bext_workflow.model.definition import StepDefinition
from bext_workflow.model.event import StepCompensated, StepCompleted, StepFailed, WaitEnded, WaitOpened
from bext_workflow.model.json import Json
from bext_workflow.model.outcome import NotDone
from bext_workflow.model.policy import OnExhausted
from bext_workflow.model.status import Action, Call, IncidentKind, WaitEnd, WorkflowStatus
from bext_workflow.model.wait import WaitDefinition
from tests.unit.core.support import (
    NO,
    NOON,
    RAISED,
    TIMED_OUT,
    Saga,
    asks,
    charge,
    done,
    naps,
    parked,
    plan,
    step,
    tries,
)

DAY = 86_400_000


def ordered(end: Parked, **fields: Json) -> Saga:
    """`order` has answered with this Wait; `ship` follows it, `chase` is declared for when it is late."""
    order = step("order", branches=("chase", "end"), next="ship", **fields)
    return Saga(plan(order, step("ship", next="end"), step("chase"))).run(end)


# The outcome Wait


def test_a_wait_for_a_signal_parks_the_run_until_the_signal_comes() -> None:
    """§3 Wait: WAITING, nothing is due, ever; the payload is in the context under the signal's name."""
    saga = ordered(parked("go"))
    assert saga.status() is WorkflowStatus.WAITING
    assert wake_at(saga.state) is None
    assert saga.wait(1000 * DAY).idle()
    assert saga.signal("go", {"by": "bob"}) == ["signal_received", "wait_ended"]
    assert saga.state.context.to_dict() == {"go": {"by": "bob"}}
    assert saga.due(Execute).step == "ship"


@pytest.mark.parametrize("end", [parked(for_ms=3 * DAY), parked(until=NOON + 3 * DAY)])
def test_a_wait_for_a_time_goes_on_then_and_not_before(end: Parked) -> None:
    """§3 Wait, P21: a pure timer goes on at `next`."""
    saga = ordered(end)
    assert (saga.status(), wake_at(saga.state)) == (WorkflowStatus.WAITING, NOON + 3 * DAY)
    assert saga.wait(3 * DAY - 1).idle()
    assert saga.wait(1).fire() == ["wait_ended"]
    assert saga.last(WaitEnded).how is WaitEnd.TIMER
    assert saga.due(Execute).step == "ship"
    assert saga.state.context.to_dict() == {}


def test_a_time_that_has_passed_is_due_at_once() -> None:
    """§8: a due time that passed means now."""
    ordered(parked(until=NOON - DAY)).fire()
    ordered(parked(for_ms=0)).fire()


@pytest.mark.parametrize("time", [{"for_ms": 100}, {"until": NOON + 100}])
def test_a_signal_in_time_ends_a_wait_for_both(time: dict[str, int]) -> None:
    """§3 Wait: the timer is void then."""
    saga = ordered(parked("go", **time)).wait(99)
    saga.signal()
    assert saga.due(Execute).step == "ship"
    saga.wait(DAY).run(done())
    assert saga.status() is WorkflowStatus.COMPLETED


@pytest.mark.parametrize("time", [{"for_ms": 100}, {"until": NOON + 100}])
def test_a_time_out_goes_where_the_outcome_says(time: dict[str, int]) -> None:
    """§3 Wait: `on_timeout`."""
    saga = ordered(parked("go", on_timeout="chase", **time))
    assert saga.wait(99).idle()
    saga.wait(1).fire()
    assert saga.due(Execute).step == "chase"


def test_a_time_out_without_on_timeout_fails_and_compensates_the_step_that_waits_too() -> None:
    """§3 Wait: `Fail{compensate: true}`; the step is completed, so it is undone like the others."""
    saga = Saga(plan(step("a"), step("b"))).run(done(), parked("go", for_ms=100)).wait(100)
    saga.fire()
    failed = saga.last(StepFailed)
    assert (failed.step, failed.visit, failed.compensate, failed.own) == ("b", 1, True, False)
    assert saga.state.failure == "signal 'go' did not come in time"
    assert saga.undo_all() == ["b", "a"]
    assert saga.status() is WorkflowStatus.COMPENSATED


def test_a_visit_that_waits_is_undone_once_also_if_an_attempt_of_it_may_have_acted() -> None:
    """P11: it has completed, so `compensate_on_failure` adds nothing to it."""
    a = step("a", compensate_on_failure=True, retries=tries(2))
    saga = Saga(plan(a)).run(TIMED_OUT, parked("go", for_ms=100)).wait(100)
    saga.fire()
    assert saga.undo_all() == ["a"]


def test_the_updates_are_visible_and_the_undo_data_kept_from_the_checkpoint_on() -> None:
    """§3 Wait: the step is completed before the wait begins (P5)."""
    saga = Saga(plan(step("a"), step("b"))).run(parked("go", updates={"ref": "r-7"}, undo_data={"id": 7}))
    assert saga.state.context.to_dict() == {"ref": "r-7"}
    assert saga.to_undo == ["a"]
    completed = saga.last(StepCompleted)
    assert (completed.undo_data, completed.next, completed.wait) == ({"id": 7}, "b", saga.waits_for)
    saga.signal()
    saga.run(NO)
    assert saga.state.pending is not None
    assert saga.state.pending.undo_data == {"id": 7}
    assert saga.due(Compensate).step == "a"


def test_the_step_that_waited_is_undone_when_a_later_one_fails() -> None:
    """§3 Wait, P10: in its place, which is that of its completion."""
    saga = Saga(plan(step("a"), step("b"), step("c"))).run(done(), parked("go"))
    saga.signal()
    saga.run(NO)
    assert saga.undo_all() == ["b", "a"]


@pytest.mark.parametrize(("into", "key"), [("approval", "approval"), (None, "go")])
def test_the_payload_goes_into_the_key_that_is_named(into: str | None, key: str) -> None:
    """§3 Wait: by default the signal's name; what stood there is replaced, also by a payload of null."""
    saga = ordered(parked("go", into=into, updates={key: "asked"}))
    saga.signal("go", None)
    assert saga.state.context.to_dict() == {key: None}
    assert saga.last(WaitEnded).updates.value == {key: None}


@pytest.mark.parametrize("chosen", ["chase", "ship", "end"])
def test_next_says_where_the_branch_goes_after_the_wait(chosen: str) -> None:
    """§3 Wait: "then `next` as for Continue"."""
    saga = ordered(parked("go", next=chosen))
    saga.signal()
    if chosen == "end":
        assert saga.status() is WorkflowStatus.COMPLETED
    else:
        assert saga.due(Execute).step == chosen


@pytest.mark.parametrize("fields", [{"next": "nowhere"}, {"on_timeout": "nowhere", "for_ms": 5}])
def test_only_a_declared_name_may_be_chosen(fields: dict[str, Json]) -> None:
    """§3: else a permanent failure of this step; `on_timeout` is held to it as `next` is."""
    saga = ordered(parked("go", **fields))
    assert saga.last(StepFailed).reason.startswith("step 'order' may not go to 'nowhere'")
    assert saga.status() is WorkflowStatus.COMPENSATED


def test_a_loop_over_a_wait_is_a_new_visit_each_time() -> None:
    """§3, §6: the wait of the second visit is its own."""
    saga = Saga(plan(step("a", branches=("a",), next="end"))).run(parked("go", next="a"))
    saga.signal("go", 1)
    assert saga.due(Execute).key == "r-1:a#2"
    saga.run(parked("go", next="end"))
    assert saga.status() is WorkflowStatus.WAITING
    saga.signal("go", 2)
    assert (saga.status(), saga.state.context.get("go")) == (WorkflowStatus.COMPLETED, 2)


def test_a_crash_in_a_wait_loses_nothing_and_repeats_nothing() -> None:
    """P1, P21: the due time is in the journal; it is not counted anew."""
    saga = ordered(parked("go", for_ms=100)).wait(60).crash()
    assert (saga.status(), wake_at(saga.state)) == (WorkflowStatus.WAITING, NOON + 100)
    saga.signal()
    assert saga.due(Execute).step == "ship"


# What verify_step or a person says of an attempt in doubt


def in_doubt(end: Parked) -> Saga:
    saga = Saga(plan(charge("a", branches=("c",), next="b"), step("b", next="end"), step("c"), verifies=True))
    saga.run(RAISED)
    saga.give(Verified(call=Call.STEP, branch=0, answer=end))
    return saga


def test_verify_step_may_say_that_the_step_waits() -> None:
    """§6: an outcome: it happened; no second call (P4)."""
    saga = in_doubt(parked("go", updates={"x": 1}))
    assert (saga.status(), saga.to_undo) == (WorkflowStatus.WAITING, ["a"])


@pytest.mark.parametrize("fields", [{"next": "nowhere"}, {"on_timeout": "nowhere", "for_ms": 5}])
def test_a_verdict_that_names_what_is_not_declared_is_no_verdict(fields: dict[str, Json]) -> None:
    """§3, §6: a person is asked, as for Unknown."""
    assert in_doubt(parked("go", **fields)).incident.kind is IncidentKind.IN_DOUBT


def test_not_done_goes_on_without_the_wait() -> None:
    """§6, for contrast: the attempt counts as Retry."""
    saga = Saga(plan(charge("a", retries=tries(2)), verifies=True)).run(RAISED)
    saga.give(Verified(call=Call.STEP, branch=0, answer=NotDone()))
    assert saga.status() is WorkflowStatus.RUNNING


# Steps that are the host's own


def test_a_declared_wait_has_no_attempt_and_takes_the_payload() -> None:
    """§7 `wait`: no `run_step`; the visit completes with the signal, in one event."""
    saga = Saga(plan(step("a"), asks(into="approval"), step("b"))).run(done())
    assert saga.due(Open).branch == 0
    assert saga.open() == ["wait_opened"]
    assert (saga.status(), saga.to_undo) == (WorkflowStatus.WAITING, ["a"])
    saga.signal("go", "yes")
    ended = saga.last(WaitEnded)
    assert (ended.step, ended.completes, ended.how) == ("ask", True, WaitEnd.SIGNAL)
    assert saga.state.context.to_dict() == {"approval": "yes"}
    assert saga.due(Execute).step == "b"


def test_a_declared_sleep_passes_and_the_run_goes_on() -> None:
    """§7 `sleep_ms`: counted from when the step is entered."""
    saga = Saga(plan(step("a"), naps(ms=500), step("b"))).run(done()).wait(7)
    saga.open()
    assert wake_at(saga.state) == NOON + 507
    assert saga.wait(499).idle()
    saga.wait(1).fire()
    assert saga.due(Execute).step == "b"
    assert saga.to_undo == ["nap", "a"]


def test_a_declared_time_out_goes_to_on_timeout_else_the_step_fails() -> None:
    """§3, §7: the visit itself has not completed, then."""
    late = Saga(plan(asks(timeout_ms=50, on_timeout="c"), step("b", next="end"), step("c")))
    late.open()
    late.wait(50).fire()
    assert late.due(Execute).step == "c"
    failing = Saga(plan(step("a"), asks(timeout_ms=50), step("b"))).run(done())
    failing.open()
    failing.wait(50).fire()
    assert (failing.last(StepFailed).step, failing.last(StepFailed).compensate) == ("ask", True)
    assert failing.undo_all() == ["a"]


def test_without_a_timeout_ms_a_declared_wait_has_no_bound() -> None:
    """§7: 0 is none, not "at once"."""
    saga = Saga(plan(asks()))
    saga.open()
    assert wake_at(saga.state) is None
    assert saga.wait(10_000 * DAY).idle()


def test_a_host_may_die_between_entering_the_step_and_opening_its_wait() -> None:
    """P1: the wait is opened once, by whoever comes first to it."""
    saga = Saga(plan(step("a"), asks(timeout_ms=50))).run(done()).crash()
    saga.open()
    saga.crash()
    assert saga.status() is WorkflowStatus.WAITING
    assert len(saga.all(WaitOpened)) == 1


def test_what_the_host_did_counts_as_undone() -> None:
    """§5, §7: no undo, no call, and the rest of the walk as ever (P15)."""
    saga = Saga(plan(step("a"), asks(), step("b"), naps(), step("c"))).run(done())
    saga.open()
    saga.signal()
    saga.run(done())
    saga.open()
    saga.wait(500).fire()
    saga.run(NO)
    assert saga.undo_all() == ["b", "a"]
    undone = [(event.step, event.no_undo) for event in saga.all(StepCompensated)]
    assert undone == [("nap", True), ("b", False), ("ask", True), ("a", False)]
    assert saga.status() is WorkflowStatus.COMPENSATED


def test_what_the_host_did_leaves_nothing_in_place() -> None:
    """§3 Fail, §7: it had no effects, so there is nothing to report and nothing that a cancel could undo."""
    saga = Saga(plan(step("a"), asks(), step("b", retries=tries(1, OnExhausted.FAIL)))).run(done())
    saga.open()
    saga.signal()
    saga.run(TIMED_OUT)
    assert (saga.status(), saga.left) == (WorkflowStatus.FAILED, ("a",))


def test_a_step_of_the_hosts_has_no_undo_of_its_own_after_a_crash() -> None:
    """§5 `compensate_on_failure` is about attempts, and there was none: CANCELLED, nothing had completed."""
    ask = StepDefinition(name="ask", wait=WaitDefinition(signal="go"), compensate_on_failure=True)
    saga = Saga(plan(ask)).crash()
    saga.cancel()
    saga.settle()
    assert saga.status() is WorkflowStatus.CANCELLED


def test_max_visits_bounds_a_loop_of_waits() -> None:
    """§7: one entry more fails the run, and no wait is opened for it."""
    saga = Saga(plan(asks(), step("a", next="ask", max_visits=1)))
    saga.open()
    saga.signal()
    saga.run(done())
    saga.open()
    saga.signal()
    assert "max_visits = 1" in saga.last(StepFailed).reason
    assert len(saga.all(WaitOpened)) == 2


# Past a pivot


def stuck(end: Parked | None = None) -> Saga:
    """The pivot is done, a wait after it was in vain: the host's own, or one that a step asked for."""
    asking = asks(timeout_ms=100, branches=("other",)) if end is None else step("ask", branches=("other",), next="last")
    saga = Saga(plan(step("send", pivot=True), asking, step("last", next="end"), step("other"))).run(done())
    if end is None:
        saga.open()
    else:
        saga.run(end)
    saga.wait(100).fire()
    return saga


ENDS = [None, parked("go", for_ms=100, next="other"), parked("go", until=NOON + 100, next="other")]


@pytest.mark.parametrize("end", ENDS)
def test_a_time_out_past_a_pivot_waits_for_a_person(end: Parked | None) -> None:
    """§5: nothing compensates."""
    saga = stuck(end)
    assert saga.status() is WorkflowStatus.SUSPENDED
    assert (saga.incident.kind, saga.incident.step) == (IncidentKind.STUCK_AFTER_PIVOT, "ask")
    assert "did not come in time" in saga.incident.reason
    assert wake_at(saga.state) is None


@pytest.mark.parametrize("end", ENDS)
def test_retry_waits_again_for_the_whole_time(end: Parked | None) -> None:
    """§5 `retry`: the visit is not made again, its budget is renewed."""
    saga = stuck(end).wait(40)
    saga.answer(Action.RETRY)
    assert (saga.status(), wake_at(saga.state)) == (WorkflowStatus.WAITING, NOON + 240)
    saga.wait(99).signal()
    assert saga.due(Execute).step == ("last" if end is None else "other")
    assert saga.kinds.count("step_completed") == (1 if end is None else 2)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("closed", [False, True])
def test_a_signal_that_came_while_nobody_waited_is_there_for_the_renewed_wait(end: Parked | None, closed: bool) -> None:
    """P26: after the incident's `retry`, and after `close` and `runs retry`."""
    saga = stuck(end)
    saga.signal("go", 1)
    if closed:
        saga.answer(Action.CLOSE)
        assert saga.status() is WorkflowStatus.FAILED
        saga.reopen()
    else:
        saga.answer(Action.RETRY)
    assert (saga.status(), saga.state.context.get("go")) == (WorkflowStatus.RUNNING, 1)
    assert not saga.state.signals


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("chosen", [None, "other"])
def test_done_ends_the_wait_where_it_was_to_go(end: Parked | None, chosen: str | None) -> None:
    """§5 `done`: the visit stands on the list once (P11), and goes on where the wait said, or the person does."""
    saga = stuck(end)
    saga.answer(Action.DONE, chosen, go="by phone")
    ended = saga.last(WaitEnded)
    assert (ended.how, ended.completes) == (WaitEnd.PERSON, end is None)
    assert saga.to_undo == ["ask", "send"]
    assert saga.state.context.get("go") == "by phone"
    assert saga.due(Execute).step == (chosen or ("last" if end is None else "other"))


def test_a_wait_may_be_the_pivot() -> None:
    """§5: once the approval is there, there is no way back."""
    ask = StepDefinition(name="ask", wait=WaitDefinition(signal="go"), pivot=True)
    saga = Saga(plan(step("a"), ask, step("b"))).run(done())
    saga.open()
    saga.signal()
    saga.run(NO)
    assert saga.incident.kind is IncidentKind.STUCK_AFTER_PIVOT


def test_a_wait_of_a_pivot_that_a_cancel_came_too_late_for_can_be_gone_on_with() -> None:
    """§5, P18: SUSPENDED; `retry` waits, `done` goes where the wait was to go."""
    for action, status in ((Action.RETRY, WorkflowStatus.WAITING), (Action.DONE, WorkflowStatus.COMPLETED)):
        saga = Saga(plan(step("send", pivot=True, branches=("end",)), step("never")))
        saga.call_step()
        saga.cancel()
        saga.finish(parked("go", next="end"))
        assert (saga.status(), saga.incident.attempt) == (WorkflowStatus.SUSPENDED, 1)
        saga.answer(action)
        assert saga.status() is status
