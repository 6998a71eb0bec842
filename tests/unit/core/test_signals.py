"""Signals: in order, to one wait each, and the race with the timer (semantics §9)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from bext_workflow.core.decide import decide
from bext_workflow.core.input import Cancel, Signalled, TimerDue
from bext_workflow.core.state import State
from bext_workflow.core.waiting import refuse_signal
from bext_workflow.core.work import Execute, wake_at
from bext_workflow.errors import Conflict
from bext_workflow.model.event import ActIgnored, SignalReceived, StepCompleted, WaitEnded
from bext_workflow.model.json import Json
from bext_workflow.model.status import Action, WaitEnd, WorkflowStatus
from tests.unit.core.support import NO, NO_AND_LEAVE, NOON, RAISED, Saga, asks, charge, done, naps, parked, plan, step


def payloads(saga: Saga) -> list[Json]:
    """What is kept for waits to come."""
    return [signal.payload for signal in saga.state.signals]


def sent(payload: Json = None, *, id: str | None = None) -> Signalled:
    """As the inbox keeps it: its number, and when it was accepted, stand beside it."""
    return Signalled(act=0, by="ann", at=0, name="go", payload=payload, id=id)


STOP = Cancel(act=0, by="ann", reason="")


# Before, while, after


def test_a_signal_to_a_run_that_has_not_begun_is_kept_for_its_wait() -> None:
    """P26: PENDING too; the wait is over in the very decision that would open it."""
    saga = Saga(plan(step("a"), asks(), step("b")), begun=False)
    assert saga.signal("go", 1) == ["signal_received"]
    assert (saga.status(), payloads(saga)) == (WorkflowStatus.PENDING, [1])
    saga.begin()
    saga.run(done())
    assert saga.open() == ["wait_opened", "wait_ended"]
    assert (saga.state.context.get("go"), saga.due(Execute).step, payloads(saga)) == (1, "b", [])


def test_a_signal_that_is_there_already_is_taken_at_once() -> None:
    """§3 Wait, §9 "before": in the checkpoint of the step that waits for it (P5)."""
    saga = Saga(plan(step("a"), step("b"))).wait(0)
    saga.call_step()
    saga.signal("go", 1)
    assert saga.finish(parked("go", for_ms=0)) == ["step_completed", "wait_ended"]
    assert (saga.status(), saga.state.context.get("go")) == (WorkflowStatus.RUNNING, 1)


def test_a_wait_for_another_name_lets_a_signal_be() -> None:
    """§9: by name; an unconsumed one stays visible (P27)."""
    saga = Saga(plan(step("a"))).run(parked("stop"))
    assert saga.signal("go", 1) == ["signal_received"]
    assert (saga.status(), payloads(saga)) == (WorkflowStatus.WAITING, [1])
    saga.signal("stop")
    assert (saga.status(), payloads(saga)) == (WorkflowStatus.COMPLETED, [1])


def test_a_pure_timer_takes_no_signal() -> None:
    """§3 Wait: it waits for a time alone."""
    saga = Saga(plan(naps(ms=50), asks()))
    saga.open()
    saga.signal("go", 1)
    assert saga.status() is WorkflowStatus.WAITING
    saga.wait(50).fire()
    saga.open()
    assert saga.status() is WorkflowStatus.COMPLETED


def test_signals_of_one_name_are_taken_in_the_order_of_acceptance() -> None:
    """P27: each by one wait, over a loop; names do not hold each other up."""
    saga = Saga(plan(asks(branches=("ask",)), step("again", next="ask", branches=("end",)), step("z")))
    for payload in (1, 2):
        saga.signal("go", payload)
    saga.signal("other", 9)
    saga.signal("go", 3)
    got = []
    for _ in range(3):
        saga.open()
        got.append(saga.state.context.get("go"))
        saga.run(done())
    assert got == [1, 2, 3]
    assert payloads(saga) == [9]
    saga.open()
    assert saga.status() is WorkflowStatus.WAITING


def test_each_wait_of_a_loop_takes_one_signal() -> None:
    """P26: the second wait for the name waits for the second signal."""
    saga = Saga(plan(step("a", branches=("a",), next="end"))).run(parked("go", next="a"))
    saga.signal("go", 1)
    saga.run(parked("go", next="end"))
    assert saga.status() is WorkflowStatus.WAITING
    saga.signal("go", 2)
    assert [event.signal for event in saga.all(WaitEnded)] == [1, 2]


def test_the_same_id_twice_is_one_signal() -> None:
    """P26: also when the first has been taken long ago, and whatever the second says."""
    saga = Saga(plan(step("a", branches=("a",), next="end"))).run(parked("go", next="a"))
    saga.signal("go", 1, id="s-1")
    saga.run(parked("go", next="end"))
    assert saga.signal("go", 2, id="s-1") == ["act_ignored"]
    assert saga.status() is WorkflowStatus.WAITING
    assert saga.state.inbox == 2, "it is behind the run all the same"
    assert saga.signal("go", 3, id="s-2")[:2] == ["signal_received", "wait_ended"]
    assert saga.state.context.get("go") == 3


def test_signals_without_an_id_are_never_the_same() -> None:
    """P26: for contrast."""
    saga = Saga(plan(step("a"), asks(), asks("ask2")))
    saga.signal("go", 1)
    saga.signal("go", 1)
    assert payloads(saga) == [1, 1]


def test_a_crash_forgets_no_signal() -> None:
    """P26: kept ones, taken ones and their ids are in the journal."""
    saga = Saga(plan(step("a"), step("b"), asks())).run(parked("go"))
    saga.signal("go", 1, id="s-1")
    saga.signal("go", 2, id="s-2")
    saga.crash()
    assert payloads(saga) == [2]
    assert saga.signal("go", 9, id="s-1") == ["act_ignored"]


# Signal and timer


def asking(**fields: Json) -> Saga:
    """A wait until NOON + 100, then another wait for the same name, without a bound."""
    saga = Saga(plan(step("a", branches=("late",)), step("b", next="late"), step("late")))
    return saga.run(parked("go", for_ms=100, on_timeout="late", **fields))


@pytest.mark.parametrize(("accepted", "wins"), [(NOON + 99, True), (NOON + 100, False), (NOON + 101, False)])
@pytest.mark.parametrize("looks", [101, 5_000])
def test_what_came_first_wins_whenever_the_driver_looks(accepted: int, wins: bool, looks: int) -> None:
    """P28: by the time of acceptance; the host may have been down meanwhile (P21)."""
    saga = asking().wait(looks)
    saga.take((accepted, sent("yes")))
    assert (saga.last(SignalReceived).late, saga.last(SignalReceived).accepted_at) == (not wins, accepted)
    if not wins:
        saga.fire()
    ended = saga.last(WaitEnded)
    assert (ended.how, ended.signal) == ((WaitEnd.SIGNAL, 1) if wins else (WaitEnd.TIMER, None))
    assert saga.due(Execute).step == ("b" if wins else "late")
    assert saga.state.context.get("go") == ("yes" if wins else None)
    assert payloads(saga) == []


def test_of_two_signals_around_the_due_time_the_first_wins_and_the_second_is_kept() -> None:
    """P28, P26: the first ended the wait, so that the second came into a gap: a later wait takes it."""
    saga = asking().wait(500)
    kinds = saga.take((NOON + 99, sent(1)), (NOON + 101, sent(2)))
    assert kinds == ["signal_received", "wait_ended", "signal_received"]
    assert payloads(saga) == [2]


def test_all_signals_that_came_while_the_timer_was_due_are_late() -> None:
    """P28, §9: who sent them saw the first request open: none of them may answer the second."""
    saga = asking().wait(500)
    saga.take((NOON + 100, sent(1)), (NOON + 101, sent(2)))
    saga.fire()
    saga.run(parked("go"))
    assert [event.late for event in saga.all(SignalReceived)] == [True, True]
    assert (saga.status(), payloads(saga)) == (WorkflowStatus.WAITING, [])


def test_a_signal_that_lost_to_its_timer_is_never_taken_by_a_later_wait() -> None:
    """§9: an old approval must not approve the second request."""
    saga = asking()
    saga.wait(100).signal("go", "old")
    saga.fire()
    saga.run(parked("go"))
    assert (saga.status(), payloads(saga)) == (WorkflowStatus.WAITING, [])
    assert saga.last(SignalReceived).late, "and it is visible as late"
    saga.signal("go", "new")
    assert saga.state.context.get("go") == "new"


def test_a_signal_in_the_gap_between_two_waits_is_for_the_second() -> None:
    """P26: the first wait is over, so there was no timer to lose to."""
    saga = asking()
    saga.wait(100).fire()
    saga.call_step()
    assert saga.signal("go", "gap") == ["signal_received"]
    saga.finish(parked("go"))
    assert saga.state.context.get("go") == "gap"


def test_a_late_signal_keeps_its_id() -> None:
    """P26: the sender repeats it; it is not taken for a new one."""
    saga = asking()
    saga.wait(100).signal("go", "old", id="s-1")
    saga.fire()
    saga.run(parked("go"))
    assert saga.signal("go", "old", id="s-1") == ["act_ignored"]


def test_a_timer_that_has_lost_is_void() -> None:
    """P28: exactly one wins; nothing follows from the other."""
    saga = asking()
    saga.signal()
    assert decide(saga.state, TimerDue(branch=0), now=NOON + 100).events == []


def test_a_timer_that_is_not_due_does_nothing() -> None:
    """P21: whoever asks."""
    saga = asking()
    assert decide(saga.state, TimerDue(branch=0), now=NOON + 99).events == []
    assert decide(saga.state, TimerDue(branch=1), now=NOON + 100).events == []


# Two waits at once


def two_waits(first_due: int | None = None) -> Saga:
    """Two branches wait for one name; the one that has waited longer may have a time-out."""
    saga = Saga(plan(step("a"), step("b"))).run(parked("go", into="second"))
    second = replace(saga.branch, id=1)
    wait = replace(saga.waits_for, into="first", due_at=first_due, on_timeout="b")
    saga.state = replace(saga.state, branches=(second, replace(second, id=0, wait=wait, wait_opened=1)))
    return saga


def events_of(saga: Saga, *given: Signalled) -> State:
    """The state after these signals; a run of two branches is made by hand here, and has no journal."""
    for one in given:
        saga.state = decide(saga.state, one, now=one.at).state
    return saga.state


def test_two_waits_for_one_name_share_the_queue_in_the_order_of_opening() -> None:
    """§9."""
    state = events_of(two_waits(), replace(sent(1), act=1, at=NOON), replace(sent(2), act=2, at=NOON))
    assert state.context.to_dict() == {"first": 1, "second": 2}


def test_a_signal_that_is_too_late_for_one_wait_is_for_the_other() -> None:
    """P26, P28: the run waits for it, and so gets it; the first wait is left to its timer."""
    state = events_of(two_waits(first_due=NOON + 100), replace(sent(1), act=1, at=NOON + 100))
    assert state.context.to_dict() == {"second": 1}
    assert [(branch.id, branch.step) for branch in state.branches] == [(1, "b"), (0, "a")]


# The door


def pending() -> Saga:
    return Saga(plan(step("a")), begun=False)


def running() -> Saga:
    return Saga(plan(step("a"), step("b"))).run(done())


def waiting() -> Saga:
    return Saga(plan(step("a"))).run(parked("stop"))


def suspended() -> Saga:
    return Saga(plan(charge())).run(RAISED)


def paused() -> Saga:
    saga = running()
    saga.pause()
    return saga


@pytest.mark.parametrize("saga", [pending, running, waiting, suspended, paused])
def test_a_live_run_takes_signals(saga: Callable[[], Saga]) -> None:
    """§9: whatever it is doing."""
    live = saga()
    live.signal("go", 1)
    assert payloads(live) == [1]


def compensating() -> Saga:
    return running().run(NO)


def undo_in_doubt() -> Saga:
    saga = Saga(plan(step("a", undo_idempotent=False), step("b"))).run(done(), NO).undo(RAISED)
    assert saga.status() is WorkflowStatus.SUSPENDED
    return saga


def undo_paused() -> Saga:
    saga = compensating()
    saga.pause()
    return saga


def stopping() -> Saga:
    saga = running()
    saga.call_step()
    saga.cancel()
    return saga


def timed_out() -> Saga:
    saga = Saga(plan(step("a"), charge(), timeout_ms=50)).run(done(), RAISED)
    saga.wait(50).expire()
    assert saga.status() is WorkflowStatus.SUSPENDED
    return saga


def completed() -> Saga:
    return Saga(plan(step("a"))).run(done())


def compensated() -> Saga:
    return Saga(plan(step("a"))).run(NO)


def failed() -> Saga:
    return running().run(NO_AND_LEAVE)


def cancelled() -> Saga:
    saga = pending()
    saga.cancel()
    saga.settle()
    return saga


REFUSING = [
    compensating,
    undo_in_doubt,
    undo_paused,
    stopping,
    timed_out,
    completed,
    compensated,
    failed,
    cancelled,
]


@pytest.mark.parametrize("saga", REFUSING)
def test_a_run_that_has_ended_or_is_about_to_takes_none(saga: Callable[[], Saga]) -> None:
    """P29: refused at the door, with the status in the message; never silently dropped."""
    over = saga()
    with pytest.raises(Conflict, match=f"the run is {over.status()}.*takes no signals"):
        refuse_signal(over.state)


@pytest.mark.parametrize("saga", REFUSING)
def test_a_signal_that_was_accepted_before_is_listed_all_the_same(saga: Callable[[], Saga]) -> None:
    """P26, P29: what was acknowledged is in the journal; it moves nothing."""
    over = saga()
    before = over.state
    over.acts = before.inbox
    assert over.take((NOON, sent(1))) == ["signal_received"]
    assert (over.last(SignalReceived).payload, over.last(SignalReceived).late) == (1, False)
    after = over.state
    assert (after.status, after.branches, after.pending) == (before.status, before.branches, before.pending)


def test_a_failed_run_that_is_set_going_again_takes_what_it_had_kept() -> None:
    """P27: an unconsumed signal is still there after `retry`."""
    saga = Saga(plan(step("a"), asks()))
    saga.signal("go", 1)
    saga.run(NO_AND_LEAVE)
    saga.reopen()
    saga.run(done())
    saga.open()
    assert (saga.status(), saga.state.context.get("go")) == (WorkflowStatus.COMPLETED, 1)


def test_an_answered_doubt_finds_its_signal() -> None:
    """P26: the step asks for a signal that came while it was in doubt."""
    saga = Saga(plan(charge(), asks())).run(RAISED)
    saga.signal("go", 1)
    saga.answer(Action.DONE)
    saga.open()
    assert saga.status() is WorkflowStatus.COMPLETED


# Cancel


def test_a_cancel_ends_a_wait_at_once() -> None:
    """§5 Stop: the step that asked for the wait is undone; the wait says how it ended."""
    saga = Saga(plan(step("a"), step("b"))).run(done(), parked("go", for_ms=1000))
    saga.cancel()
    assert wake_at(saga.state) == 0
    assert saga.settle() == ["wait_ended", "compensation_started"]
    ended = saga.last(WaitEnded)
    assert (ended.how, ended.completes) == (WaitEnd.STOP, False)
    assert saga.undo_all() == ["b", "a"]
    assert saga.status() is WorkflowStatus.COMPENSATED


def test_a_cancel_in_a_wait_of_the_hosts_own_finds_nothing_done() -> None:
    """§5 Cancel: that visit has not completed: CANCELLED."""
    saga = Saga(plan(asks()))
    saga.open()
    saga.cancel()
    saga.settle()
    assert (saga.status(), saga.to_undo) == (WorkflowStatus.CANCELLED, [])


@pytest.mark.parametrize("order", ["signal", "cancel"])
def test_signal_and_cancel_count_in_the_order_of_acceptance(order: str) -> None:
    """P18, P26: a signal before the cancel ends the wait, and the stop ends the run before its next step; one after it
    is refused at the door, as the cancel that stands in the inbox is seen there.
    """
    saga = Saga(plan(step("a"), step("b"))).run(parked("go"))
    if order == "signal":
        saga.take((NOON, sent(1)), (NOON, STOP))
        assert saga.state.context.get("go") == 1
        assert saga.settle() == ["branch_settled", "compensation_started"]
        assert saga.undo_all() == ["a"]
    else:
        saga.take((NOON, STOP))
        with pytest.raises(Conflict, match="WAITING"):
            refuse_signal(saga.state)


def test_neither_signal_nor_timer_moves_a_wait_that_a_stop_is_about_to_end() -> None:
    """§5: nothing new starts forward after the stop, whatever the driver had in hand."""
    saga = Saga(plan(step("a"), step("b"))).run(parked("go", for_ms=100))
    saga.cancel()
    assert decide(saga.state, TimerDue(branch=0), now=NOON + 100).events == []
    assert saga.take((NOON, sent())) == ["signal_received"]


def test_a_wait_that_is_returned_under_a_stop_is_completed_and_undone() -> None:
    """§5 Stop: "Continue, Wait: completed, so undone"; a signal that is there is not taken by it."""
    saga = Saga(plan(step("a"))).wait(0)
    saga.call_step()
    saga.signal()
    saga.cancel()
    assert saga.finish(parked("go")) == ["step_completed", "compensation_started"]
    assert saga.last(StepCompleted).wait is not None
    assert saga.undo_all() == ["a"]


def test_a_cancel_that_comes_with_nothing_left_says_so() -> None:
    """§5: FAILED after a wait of the host's alone; there is nothing that an undo could do."""
    saga = Saga(plan(asks(), step("b")))
    saga.open()
    saga.signal()
    saga.run(NO_AND_LEAVE)
    with pytest.raises(Conflict, match="nothing of it is left"):
        saga.cancel()


def test_an_ignored_repeat_says_why() -> None:
    """P26: nothing that was acknowledged vanishes."""
    saga = Saga(plan(step("a")))
    saga.signal(id="s-1")
    saga.signal(id="s-1")
    ignored = saga.last(ActIgnored)
    assert (ignored.kind, ignored.reason) == ("signal", "a signal with this id has come already")
