"""Steps in a transaction (semantics §6): whatever is not completed has not acted, and so is never in doubt."""

from __future__ import annotations

import pytest

from bext_workflow.core.input import End, Withdrawn
from bext_workflow.model.definition import StepDefinition
from bext_workflow.model.event import StepFailed
from bext_workflow.model.json import Json
from bext_workflow.model.policy import RetryPolicy
from bext_workflow.model.status import WorkflowStatus
from tests.unit.core.support import AGAIN, RAISED, TIMED_OUT, Saga, charge, done, plan, step


def pays(**fields: Json) -> StepDefinition:
    """A step that would be in doubt, and would be undone though it failed, if it were not transactional."""
    return charge("pay", transactional=True, compensate_on_failure=True, **fields)


def test_its_intent_is_not_written() -> None:
    assert not Saga(plan(pays())).call_step().intend


def test_a_raised_error_fails_it_and_there_is_nothing_to_undo() -> None:
    saga = Saga(plan(pays())).run(RAISED)
    assert saga.status() is WorkflowStatus.COMPENSATED
    assert not saga.last(StepFailed).own


def test_a_time_out_is_retried() -> None:
    saga = Saga(plan(pays())).run(TIMED_OUT)
    assert saga.status() is WorkflowStatus.RUNNING
    assert saga.branch.attempt == 2


def test_exhausted_retries_leave_nothing_to_undo() -> None:
    saga = Saga(plan(pays(retries=RetryPolicy.none()))).run(TIMED_OUT)
    assert saga.status() is WorkflowStatus.COMPENSATED
    assert not saga.last(StepFailed).own


def test_retry_on_may_be_stated_of_one_that_is_not_idempotent() -> None:
    assert pays(retry_on=("KeyError",)).should_retry(KeyError(), 1)


@pytest.mark.parametrize("first", [(), (AGAIN,)], ids=["the first attempt", "a later one, which is recorded"])
def test_a_crash_repeats_the_attempt_and_leaves_nothing_to_undo(first: tuple[End, ...]) -> None:
    """P20: the same number; P12: once it has failed, its own undo has no call."""
    saga = Saga(plan(pays())).run(*first).wait(60_000)
    action = saga.call_step()
    saga.crash()

    assert saga.call_step().attempt == action.attempt
    assert not saga.branch.acted
    saga.finish(RAISED)
    assert not saga.last(StepFailed).own


def test_an_attempt_that_was_withdrawn_is_made_again() -> None:
    saga = Saga(plan(pays())).run(AGAIN).wait(60_000)
    saga.call_step()

    assert saga.give(Withdrawn(branch=0)) == ["attempt_cleared"]
    assert saga.call_step().attempt == 2


def test_an_attempt_that_was_withdrawn_under_a_stop_is_not_made_again() -> None:
    saga = Saga(plan(step("a"), pays())).run(done())
    saga.call_step()
    saga.cancel()
    saga.give(Withdrawn(branch=0))

    assert saga.status() is WorkflowStatus.COMPENSATING
    assert saga.to_undo == ["a"]
