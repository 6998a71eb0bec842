"""The run's own time, and that of a visit's attempts together (semantics §3 `max_elapsed_ms`, §5 run `timeout_ms`)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bext_workflow.core.input import Expired, Lost, Retried, Verified
from bext_workflow.core.work import Compensate, Execute, Expire, Fire, Settle, Verify, wake_at, work
from bext_workflow.errors import Conflict
from bext_workflow.model.event import (
    AttemptFailed,
    IncidentOpened,
    IncidentResolved,
    RunTimedOut,
    StepFailed,
    StopRequested,
    WaitEnded,
)
from bext_workflow.model.outcome import Unknown
from bext_workflow.model.policy import OnExhausted
from bext_workflow.model.status import Action, Call, IncidentKind, StopKind, WaitEnd, WorkflowStatus
from tests.unit.core.support import (
    AGAIN,
    NO,
    NO_AND_LEAVE,
    NOON,
    RAISED,
    TIMED_OUT,
    Saga,
    asks,
    charge,
    done,
    parked,
    plan,
    step,
    tries,
)

BOUND = 1000
REASON = "the run took longer than its timeout_ms = 1000"


def two(**fields: bool) -> Saga:
    return Saga(plan(step("a"), step("b"), step("c"), timeout_ms=BOUND, **fields))


# Where it comes


def running() -> Saga:
    return two().run(done())


def in_a_retry_wait() -> Saga:
    return two().run(done(), Retried(reason="busy", after_ms=BOUND * 5))


def waiting() -> Saga:
    return two().run(parked("go"))


def waiting_for_a_time() -> Saga:
    return two().run(parked(for_ms=BOUND * 5))


def in_a_wait_of_the_hosts() -> Saga:
    saga = Saga(plan(step("a"), asks(), timeout_ms=BOUND)).run(done())
    saga.open()
    return saga


def exhausted() -> Saga:
    b = step("b", retries=tries(1, OnExhausted.INCIDENT))
    return Saga(plan(step("a"), b, timeout_ms=BOUND)).run(done(), AGAIN)


LIVE = [running, in_a_retry_wait, waiting, waiting_for_a_time, in_a_wait_of_the_hosts, exhausted]


@pytest.mark.parametrize("live", LIVE)
def test_the_run_is_stopped_and_undone_when_its_time_is_over(live: Callable[[], Saga]) -> None:
    """§5: a stop with `Fail{compensate: true}`; retry waits and Waits end at once, an exhausted's question is void."""
    saga = live()
    assert saga.wait(BOUND - 1).state.deadline == NOON + BOUND
    assert not any(isinstance(action, Expire) for action in work(saga.state, saga.now))
    saga.wait(1).expire()
    stop = saga.last(StopRequested)
    assert (stop.kind, stop.by, stop.reason, stop.compensate) == (StopKind.TIMEOUT, "host", REASON, True)
    assert not saga.state.incidents
    saga.due(Settle)
    saga.settle()
    assert saga.undo_all() == ["a"]
    assert (saga.status(), saga.state.failure) == (WorkflowStatus.COMPENSATED, REASON)


@pytest.mark.parametrize("live", [waiting, in_a_retry_wait, in_a_wait_of_the_hosts, exhausted])
def test_a_run_that_rests_wakes_for_it(live: Callable[[], Saga]) -> None:
    """§5, P21: whatever it waits for, the nearest due time wins."""
    assert wake_at(live().state) == NOON + BOUND


def test_a_nearer_timer_comes_first() -> None:
    """P21: then the run goes on, and its own time with it."""
    saga = two().run(parked(for_ms=BOUND - 1))
    assert wake_at(saga.state) == NOON + BOUND - 1
    saga.wait(BOUND - 1).fire()
    assert saga.due(Execute).step == "b"


def test_it_comes_before_what_else_is_due() -> None:
    """§5: nothing new starts forward after it, neither a step nor a timer's way on."""
    saga = two().run(parked(for_ms=BOUND)).wait(BOUND)
    first, second = work(saga.state, saga.now)
    assert (type(first), type(second)) == (Expire, Fire)
    saga.expire()
    saga.settle()
    assert saga.last(WaitEnded).how is WaitEnd.STOP


def test_without_a_bound_it_never_comes() -> None:
    """§5: 0 is none."""
    saga = Saga(plan(step("a"), step("b"))).run(parked("go"))
    assert wake_at(saga.state) is None
    assert saga.wait(BOUND * 10_000).idle()


def test_it_counts_from_the_first_attempt() -> None:
    """§5: a run that nobody has taken up yet has all its time."""
    saga = Saga(plan(step("a"), timeout_ms=BOUND), begun=False).wait(BOUND * 5)
    assert not isinstance(work(saga.state, saga.now)[0], Expire)
    saga.begin()
    assert saga.state.deadline == NOON + BOUND * 6


def test_it_ends_compensated_even_if_nothing_had_completed() -> None:
    """§5: CANCELLED is for persons."""
    saga = two().wait(BOUND)
    saga.expire()
    saga.settle()
    assert saga.status() is WorkflowStatus.COMPENSATED


def test_a_running_attempt_is_waited_for_and_what_it_completed_is_undone() -> None:
    """§5 Stop: the driver looks at the time when the attempt has ended."""
    saga = running()
    saga.call_step()
    saga.wait(BOUND * 2).finish(done())
    saga.expire()
    saga.settle()
    assert saga.undo_all() == ["b", "a"]


def test_a_run_whose_last_attempt_ends_after_its_time_is_completed() -> None:
    """§5: there is nothing left to stop."""
    saga = Saga(plan(step("a"), timeout_ms=BOUND)).wait(0)
    saga.call_step()
    saga.wait(BOUND * 2).finish(done())
    assert saga.status() is WorkflowStatus.COMPLETED
    assert saga.idle()


def test_what_may_have_acted_is_undone_first() -> None:
    """§5 `compensate_on_failure`: an attempt ended unknown before the time was over."""
    saga = Saga(plan(step("a"), step("b", compensate_on_failure=True), timeout_ms=BOUND)).run(done(), TIMED_OUT)
    saga.wait(BOUND).expire()
    saga.settle()
    assert saga.undo_all() == ["b", "a"]


@pytest.mark.parametrize("action", [Action.DONE, Action.NOT_DONE, Action.FAIL, Action.FAIL_UNDO])
def test_compensation_waits_for_the_answer_to_a_doubt(action: Action) -> None:
    """§5 Stop: "no in-doubt is open"; the time-out is a stop like a cancel."""
    saga = Saga(plan(step("a"), charge(), step("c"), timeout_ms=BOUND)).run(done(), RAISED)
    saga.wait(BOUND).expire()
    assert (saga.status(), saga.idle(), saga.incident.kind) == (WorkflowStatus.SUSPENDED, True, IncidentKind.IN_DOUBT)
    saga.answer(action)
    undone = ["charge", "a"] if action in (Action.DONE, Action.FAIL_UNDO) else ["a"]
    assert saga.undo_all() == undone
    assert saga.status() is WorkflowStatus.COMPENSATED


def test_verify_step_is_still_asked() -> None:
    """§6: what the last attempt did must be known before the walk back."""
    saga = Saga(plan(step("a"), charge(), step("c"), timeout_ms=BOUND, verifies=True)).run(done(), RAISED)
    saga.wait(BOUND).expire()
    saga.due(Verify)
    saga.give(Verified(call=Call.STEP, branch=0, answer=done()))
    assert saga.undo_all() == ["charge", "a"]


def test_undo_ignores_it() -> None:
    """§5: before its time and after it, and the input itself is refused."""
    saga = running().run(NO)
    assert wake_at(saga.state) != NOON + BOUND
    saga.wait(BOUND * 10).due(Compensate)
    with pytest.raises(Conflict, match="Expired is not possible while the run is COMPENSATING"):
        saga.give(Expired())
    saga.undo(None)
    assert saga.status() is WorkflowStatus.COMPENSATED
    assert not saga.all(RunTimedOut)


def test_a_stop_ignores_it() -> None:
    """§5: the run is on its way to its end already, by a person's will."""
    saga = Saga(plan(step("a"), charge(), timeout_ms=BOUND)).run(done(), RAISED)
    saga.cancel()
    assert saga.wait(BOUND).idle()
    saga.answer(Action.FAIL)
    assert saga.undo_all() == ["a"]
    assert saga.state.failure == "cancelled by ann: ordered twice"


def test_it_comes_once_over_crashes() -> None:
    """P21: the stop is durable; a host that folds the journal does not stop the run again."""
    saga = waiting().wait(BOUND)
    saga.expire()
    saga.crash()
    saga.due(Settle)
    saga.settle()
    saga.crash()
    assert saga.undo_all() == ["a"]
    assert len(saga.all(RunTimedOut)) == 1


# Pauses


def test_pauses_are_included_and_it_is_due_at_resume() -> None:
    """§5, §8: nothing happens in a pause, not even this."""
    saga = waiting()
    saga.pause()
    assert saga.wait(BOUND * 3).idle()
    saga.resume()
    saga.expire()
    saga.settle()
    assert saga.undo_all() == ["a"]


def test_a_pause_that_ends_in_time_leaves_the_rest() -> None:
    """§5: the clock of the run has not stood still."""
    saga = waiting()
    saga.pause()
    saga.wait(BOUND - 1).resume()
    assert wake_at(saga.state) == NOON + BOUND


# Past a pivot


def sent(*, timeout_ms: int = BOUND) -> Saga:
    return Saga(plan(step("a"), step("send", pivot=True), step("ship"), timeout_ms=timeout_ms)).run(done(), done())


def test_past_a_pivot_a_person_decides() -> None:
    """§5 `stuck_after_pivot`: nothing compensates; the time is over once."""
    saga = sent().wait(BOUND)
    assert saga.expire() == ["run_timed_out", "incident_opened"]
    assert (saga.incident.kind, saga.incident.step) == (IncidentKind.STUCK_AFTER_PIVOT, "ship")
    assert saga.last(IncidentOpened).reason == REASON
    assert (saga.status(), wake_at(saga.state)) == (WorkflowStatus.SUSPENDED, None)
    saga.answer(Action.RETRY)
    again = saga.due(Execute)
    assert (again.step, again.attempt, again.key) == ("ship", 1, "r-1:ship"), "none had been made"
    saga.run(done())
    assert saga.status() is WorkflowStatus.COMPLETED


def test_past_a_pivot_in_a_retry_wait_no_attempt_number_is_passed_over() -> None:
    """P20: the attempt that would have been next is the one that `retry` makes."""
    saga = sent().run(Retried(reason="busy", after_ms=BOUND * 5)).wait(BOUND)
    saga.expire()
    assert saga.incident.attempt == 1
    saga.answer(Action.RETRY)
    assert saga.due(Execute).attempt == 2


@pytest.mark.parametrize("action", [Action.RETRY, Action.DONE])
def test_past_a_pivot_a_wait_is_held_and_can_be_gone_on_with(action: Action) -> None:
    """§5: `retry` waits on, `done` says that it is over."""
    saga = Saga(plan(step("send", pivot=True), step("a"), step("b"), timeout_ms=BOUND)).run(done(), parked("go"))
    saga.wait(BOUND).expire()
    assert (saga.status(), saga.incident.step) == (WorkflowStatus.SUSPENDED, "a")
    saga.answer(action)
    if action is Action.RETRY:
        assert (saga.status(), wake_at(saga.state)) == (WorkflowStatus.WAITING, None)
        saga.signal()
    assert saga.due(Execute).step == "b"
    assert saga.to_undo == ["a", "send"]


def test_past_a_pivot_a_doubt_is_settled_first() -> None:
    """P4: the question of the time-out must not hide that a charge may have been made."""
    saga = Saga(plan(step("send", pivot=True), charge(), step("b"), timeout_ms=BOUND, verifies=True))
    saga.run(done(), RAISED).wait(BOUND)
    saga.due(Verify)
    saga.give(Verified(call=Call.STEP, branch=0, answer=Unknown()))
    assert saga.idle()
    assert saga.incident.kind is IncidentKind.IN_DOUBT
    saga.answer(Action.DONE)
    saga.expire()
    assert (saga.incident.kind, saga.incident.step) == (IncidentKind.STUCK_AFTER_PIVOT, "b")


def test_past_a_pivot_a_question_that_is_open_is_not_asked_twice() -> None:
    """§5: the branch is held already; whoever answers knows the time."""
    saga = sent().run(NO).wait(BOUND)
    assert saga.expire() == ["run_timed_out"]
    saga.answer(Action.RETRY)
    assert saga.due(Execute).step == "ship"


def in_doubt_about_the_pivot(*rest: str) -> Saga:
    """The time was over while a person was asked about the pivot itself, which had acted."""
    send = charge("send", pivot=True)
    saga = Saga(plan(step("a"), send, *(step(name) for name in rest), timeout_ms=BOUND)).run(done(), RAISED)
    saga.wait(BOUND).expire()
    return saga


def test_a_pivot_that_outran_it_can_only_go_forward() -> None:
    """§5: as for a cancel."""
    saga = in_doubt_about_the_pivot("ship")
    saga.answer(Action.DONE)
    assert (saga.incident.kind, saga.incident.step) == (IncidentKind.STUCK_AFTER_PIVOT, "ship")
    saga.answer(Action.RETRY)
    saga.run(done())
    assert saga.status() is WorkflowStatus.COMPLETED


def test_a_last_pivot_that_outran_it_ends_the_run_well() -> None:
    """§5: nothing is left to do or to undo, and nobody but the clock wanted it stopped."""
    saga = in_doubt_about_the_pivot()
    saga.answer(Action.DONE)
    assert (saga.status(), saga.left) == (WorkflowStatus.COMPLETED, ())


def test_unless_a_person_has_cancelled_meanwhile() -> None:
    """P18: an accepted cancel is never COMPLETED."""
    saga = in_doubt_about_the_pivot()
    assert saga.cancel() == ["stop_requested"]
    saga.answer(Action.DONE)
    assert (saga.status(), saga.left) == (WorkflowStatus.CANCELLED, ("a", "send"))


# A person beside it


@pytest.mark.parametrize("now", [False, True])
def test_a_cancel_after_it_is_a_persons_and_keeps_the_first_reason(now: bool) -> None:
    """§5 Cancel: CANCELLED if nothing had completed, as ever."""
    saga = Saga(plan(charge(), timeout_ms=BOUND)).run(RAISED).wait(BOUND)
    saga.expire()
    saga.cancel(now=now)
    stop = saga.last(StopRequested)
    assert (stop.kind, stop.by, stop.reason, stop.now) == (StopKind.CANCEL, "ann", REASON, now)
    saga.answer(Action.FAIL)
    assert saga.status() is WorkflowStatus.CANCELLED


def test_a_cancel_cannot_take_the_undo_from_it() -> None:
    """§5: the manner was settled by the stop that came first."""
    saga = Saga(plan(charge(), timeout_ms=BOUND)).run(RAISED).wait(BOUND)
    saga.expire()
    with pytest.raises(Conflict, match="already being stopped, with its undo"):
        saga.cancel(compensate=False)


def test_an_open_exhausted_is_resolved_by_the_host() -> None:
    """§5: the incident says how it ended, and that no person did it."""
    saga = exhausted().wait(BOUND)
    saga.expire()
    resolved = saga.last(IncidentResolved)
    assert (resolved.by, resolved.note) == ("host", "the run was stopped")


@pytest.mark.parametrize("late", [False, True])
def test_a_retry_of_a_failed_run_renews_its_time(late: bool) -> None:
    """§5 `retry`: with the budget; else a run that is mended a day later would be undone at once."""
    saga = running().run(NO_AND_LEAVE).wait(BOUND * 5 if late else 1)
    saga.reopen()
    assert saga.state.deadline == saga.now + BOUND
    assert saga.due(Execute).step == "b"
    saga.wait(BOUND).expire()
    saga.settle()
    assert saga.undo_all() == ["a"]


def test_a_run_that_was_stuck_by_it_and_closed_has_its_whole_time_again() -> None:
    """§5 `close`, then `runs retry`."""
    saga = sent().wait(BOUND)
    saga.expire()
    saga.answer(Action.CLOSE)
    assert saga.status() is WorkflowStatus.FAILED
    saga.wait(BOUND).reopen()
    assert saga.due(Execute).attempt == 1
    saga.wait(BOUND).expire()
    assert saga.status() is WorkflowStatus.SUSPENDED


# max_elapsed_ms


def trying(elapsed: int, choice: OnExhausted = OnExhausted.COMPENSATE) -> Saga:
    policy = tries(9, choice, backoff_ms=100, backoff_multiplier=1.0, max_elapsed_ms=elapsed)
    return Saga(plan(step("a"), step("b", retries=policy))).run(done())


@pytest.mark.parametrize(("elapsed", "attempts"), [(0, 9), (350, 4), (300, 4), (299, 3), (50, 1)])
def test_retries_end_when_the_next_would_begin_too_late(elapsed: int, attempts: int) -> None:
    """§3 Retry: now + wait passes `max_elapsed_ms`; 0 is none. Each attempt here takes no time, each wait 100 ms."""
    saga = trying(elapsed)
    made = 0
    while saga.status() is WorkflowStatus.RUNNING:
        saga.run(AGAIN)
        made += 1
    assert made == attempts
    assert saga.last(StepFailed).reason == "retries exhausted: 503"
    assert saga.status() is WorkflowStatus.COMPENSATING


@pytest.mark.parametrize("end", [AGAIN, TIMED_OUT])
def test_the_time_of_the_attempts_counts(end: Retried | Lost) -> None:
    """§3: from the checkpoint that entered the visit, so with the time that the call took; exhausted at once."""
    saga = trying(1000)
    saga.call_step()
    saga.wait(901).finish(end)
    assert saga.status() is WorkflowStatus.COMPENSATING
    assert saga.now == NOON + 901, "it does not wait for what it will not try"


def test_an_after_ms_is_held_to_it_too() -> None:
    """§3: what the step asks for."""
    saga = trying(1000)
    saga.run(Retried(reason="busy", after_ms=1000))
    assert saga.last(AttemptFailed).retry_at == NOON + 1000
    other = trying(1000)
    other.run(Retried(reason="busy", after_ms=1001))
    assert other.status() is WorkflowStatus.COMPENSATING


def test_it_does_what_on_exhausted_says_and_a_retry_renews_it() -> None:
    """§3, §5: the budget is renewed."""
    saga = trying(1000, OnExhausted.INCIDENT)
    saga.run(Retried(reason="busy", after_ms=2000))
    assert saga.incident.kind is IncidentKind.EXHAUSTED
    saga.wait(50_000).answer(Action.RETRY)
    saga.run(AGAIN)
    assert saga.last(AttemptFailed).retry_at == saga.now + 100


@pytest.mark.parametrize(("spent", "status"), [(0, WorkflowStatus.RUNNING), (51, WorkflowStatus.COMPENSATED)])
def test_it_is_each_visits_own(spent: int, status: WorkflowStatus) -> None:
    """§3: the second visit of a loop has the whole time, from its own checkpoint on."""
    policy = tries(3, backoff_ms=100, max_elapsed_ms=150)
    saga = Saga(plan(step("a", retries=policy, branches=("a",), next="end"), undoes=False)).wait(10_000).run(done("a"))
    saga.wait(spent).run(AGAIN)
    assert saga.status() is status


def test_a_run_that_was_not_taken_up_for_long_has_it_all() -> None:
    """§3, §4: a visit is not entered before the run begins."""
    policy = tries(3, backoff_ms=100, max_elapsed_ms=150)
    saga = Saga(plan(step("a", retries=policy)), begun=False).wait(10_000)
    saga.begin()
    saga.run(AGAIN)
    assert saga.status() is WorkflowStatus.RUNNING
