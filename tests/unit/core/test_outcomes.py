"""What follows each outcome (semantics §3)."""

from __future__ import annotations

import pytest

from bext_workflow.core.input import Finished, Retried
from bext_workflow.core.work import Compensate, Execute, wake_at
from bext_workflow.model.event import AttemptFailed, IncidentOpened, RunFailed, StepCompleted, StepFailed
from bext_workflow.model.policy import OnExhausted
from bext_workflow.model.status import IncidentKind, WorkflowStatus
from tests.unit.core.support import AGAIN, NO, NO_AND_LEAVE, NOON, TIMED_OUT, Saga, done, plan, step, tries

# Continue


def test_updates_merge_key_by_key_in_the_checkpoint_that_completes_the_step() -> None:
    """§3 Continue: shallow; a nested object is replaced, not merged."""
    saga = Saga(plan(step("a"), step("b")), context={"deep": {"x": 1, "y": 2}, "kept": 0})
    saga.run(done(deep={"x": 3}, new=1))
    assert saga.state.context.to_dict() == {"deep": {"x": 3}, "kept": 0, "new": 1}
    completed = saga.last(StepCompleted)
    assert (completed.step, completed.visit, completed.attempt, completed.next) == ("a", 1, 1, "b")


def test_without_a_next_the_following_step_comes_then_the_run_is_complete() -> None:
    """§3 Continue."""
    saga = Saga(plan(step("a"), step("b"))).run(done())
    assert saga.due(Execute).step == "b"
    saga.run(done())
    assert saga.status() is WorkflowStatus.COMPLETED
    assert saga.kinds[-2:] == ["step_completed", "run_completed"], "one checkpoint both completes and ends"


def test_a_declared_next_goes_before_the_following_step() -> None:
    """§3 Continue."""
    saga = Saga(plan(step("a", next="c"), step("b"), step("c"))).run(done())
    assert saga.due(Execute).step == "c"


@pytest.mark.parametrize("chosen", ["c", "b", "end"])
def test_an_outcome_may_choose_what_the_step_declares_or_the_following_step(chosen: str) -> None:
    """§3 Continue: `next`, `branches`, or the step after it in the list."""
    saga = Saga(plan(step("a", branches=("c", "end")), step("b", next="end"), step("c")))
    saga.run(done(chosen))
    if chosen == "end":
        assert saga.status() is WorkflowStatus.COMPLETED
    else:
        assert saga.due(Execute).step == chosen


def test_a_choice_backwards_is_a_new_visit_with_a_key_of_its_own() -> None:
    """§3, §6: loops; visits count the entries of the step over the whole run."""
    saga = Saga(plan(step("a"), step("b", branches=("a",), next="end"))).run(done(), done("a"))
    again = saga.due(Execute)
    assert (again.step, again.visit, again.attempt, again.key) == ("a", 2, 1, "r-1:a#2")


def test_max_visits_bounds_a_loop() -> None:
    """§7 (in force for one branch too): one entry more fails the run, without an attempt."""
    saga = Saga(plan(step("a", branches=("a",), next="end", max_visits=3)))
    saga.run(done("a"), done("a"), done("a"))
    failed = saga.last(StepFailed)
    assert (failed.visit, failed.attempt, failed.compensate) == (4, 0, True)
    assert "max_visits = 3" in failed.reason
    assert saga.undo_all() == ["a", "a", "a"]


# Retry


def test_a_retry_waits_by_the_policy_and_then_makes_the_next_attempt() -> None:
    """§3 Retry: durable, and nothing is due before."""
    saga = Saga(plan(step("a", retries=tries(3, backoff_ms=500)))).run(AGAIN)
    assert saga.last(AttemptFailed).retry_at == NOON + 500
    assert saga.status() is WorkflowStatus.RUNNING
    assert wake_at(saga.state) == NOON + 500
    assert saga.wait(499).idle()
    assert saga.wait(1).due(Execute).attempt == 2


@pytest.mark.parametrize(("after_ms", "wait"), [(0, 0), (7, 7), (86_400_000, 86_400_000), (None, 500)])
def test_after_ms_replaces_the_policys_wait_and_is_not_cut(after_ms: int | None, wait: int) -> None:
    """§3 Retry, P19: `max_backoff_ms` is the policy's clamp alone; 0 is a wait of 0, not an absent one."""
    saga = Saga(plan(step("a", retries=tries(2, backoff_ms=500, max_backoff_ms=600, jitter=0.0))))
    saga.run(Retried(reason="busy", after_ms=after_ms))
    assert saga.last(AttemptFailed).retry_at - NOON == wait


def test_jitter_is_drawn_once_and_only_shortens() -> None:
    """§3, P19: the drawn wait is in the journal; a fold does not draw again."""
    saga = Saga(plan(step("a", retries=tries(2, backoff_ms=1000, jitter=0.2))))
    saga.give(Finished(branch=0, end=AGAIN), jitter=0.5)
    assert saga.last(AttemptFailed).retry_at - NOON == 900
    saga.crash()
    assert wake_at(saga.state) == NOON + 900


def test_attempts_count_all_tries() -> None:
    """§3, P20: three attempts are three calls."""
    saga = Saga(plan(step("a", retries=tries(3)))).run(AGAIN, AGAIN)
    assert saga.wait(10_000).due(Execute).attempt == 3
    saga.run(AGAIN)
    assert saga.status() is WorkflowStatus.COMPENSATED
    assert saga.last(StepFailed).reason == "retries exhausted: 503"


@pytest.mark.parametrize("end", [AGAIN, TIMED_OUT])
@pytest.mark.parametrize(
    ("on_exhausted", "status"),
    [
        (OnExhausted.COMPENSATE, WorkflowStatus.COMPENSATING),
        (OnExhausted.FAIL, WorkflowStatus.FAILED),
        (OnExhausted.INCIDENT, WorkflowStatus.SUSPENDED),
    ],
)
def test_spent_attempts_do_what_on_exhausted_says(
    on_exhausted: OnExhausted, status: WorkflowStatus, end: Retried
) -> None:
    """§3 Retry, for definite retries and transient unknown ends alike."""
    saga = Saga(plan(step("a"), step("b", retries=tries(2, on_exhausted)))).run(done(), end, end)
    assert saga.status() is status
    if on_exhausted is OnExhausted.INCIDENT:
        assert saga.incident.kind is IncidentKind.EXHAUSTED
        assert saga.last(IncidentOpened).reason == f"retries exhausted: {end.reason}"
        assert saga.idle()
        assert wake_at(saga.state) is None
    else:
        assert saga.last(StepFailed).compensate is (on_exhausted is OnExhausted.COMPENSATE)
        assert saga.state.failure == f"retries exhausted: {end.reason}"


# Fail


def test_fail_without_compensate_ends_the_run_and_lists_what_is_left_in_place() -> None:
    """§3 Fail: nothing is undone."""
    saga = Saga(plan(step("a"), step("b"), step("c"))).run(done(), done(), NO_AND_LEAVE)
    assert saga.status() is WorkflowStatus.FAILED
    assert saga.left == ("a", "b")
    assert saga.last(RunFailed).reason == "unknown sku"
    assert saga.idle()
    assert not saga.state.incidents


def test_fail_without_compensate_of_the_first_step_leaves_nothing() -> None:
    """§3 Fail, and the text's `reserve_stock`: "nothing to undo yet"."""
    saga = Saga(plan(step("a"))).run(NO_AND_LEAVE)
    assert (saga.status(), saga.left) == (WorkflowStatus.FAILED, ())


def test_fail_with_compensate_walks_back() -> None:
    """§3 Fail; P12: the failing step and those after it are not undone."""
    saga = Saga(plan(step("a"), step("b"), step("c"))).run(done(), NO)
    assert saga.status() is WorkflowStatus.COMPENSATING
    assert saga.due(Compensate).step == "a"
    assert saga.undo_all() == ["a"]
    assert saga.status() is WorkflowStatus.COMPENSATED


def test_fail_with_compensate_and_nothing_done_ends_compensated_at_once() -> None:
    """§3 Fail: there is nothing to undo."""
    saga = Saga(plan(step("a"))).run(NO)
    assert saga.status() is WorkflowStatus.COMPENSATED
    assert saga.kinds[-3:] == ["step_failed", "compensation_started", "run_compensated"]
