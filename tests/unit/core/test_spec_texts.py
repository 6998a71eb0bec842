"""The literal values and listings of the texts that the project started from, through `decide`."""

from __future__ import annotations

import pytest

from bext_workflow.core.input import Failed, Lost, Retried
from bext_workflow.core.work import Compensate, Execute, wake_at
from bext_workflow.model.definition import StepDefinition, error_names
from bext_workflow.model.policy import RetryPolicy
from bext_workflow.model.status import IncidentKind, WorkflowStatus
from tests.unit.core.support import AGAIN, NO, NOON, Saga, charge, done, plan, step

RESERVE = step(
    "reserve_stock",
    retries=RetryPolicy(max_attempts=3, backoff_ms=500, backoff_multiplier=2.0, max_backoff_ms=5000),
)
CHARGE = charge(
    "charge_card", retries=RetryPolicy(max_attempts=1, backoff_ms=0, backoff_multiplier=1.0, max_backoff_ms=0)
)
RECEIPT = step(
    "send_receipt",
    retries=RetryPolicy(max_attempts=5, backoff_ms=200, backoff_multiplier=2.0, max_backoff_ms=10000),
)


def checkout() -> Saga:
    """The three-step checkout of the text's config."""
    return Saga(plan(RESERVE, CHARGE, RECEIPT), context={"sku": "book"})


def waits(saga: Saga, *, crash: bool) -> list[int]:
    """The ms before each attempt of the only step, all of which answer Retry; the host may die in each wait."""
    found = []
    ended = saga.now
    while (due := wake_at(saga.state)) is not None:
        found.append(max(due - ended, 0))
        if due > ended:
            if crash:
                saga.wait((due - ended) // 2).crash()
            saga.now = due - 1
            assert saga.idle(), "not a millisecond early"
            saga.now = due
        saga.call_step()
        ended = saga.wait(37).now
        saga.finish(AGAIN)
    return found


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (
            RetryPolicy(max_attempts=5, backoff_ms=200, backoff_multiplier=2.0, max_backoff_ms=5_000),
            [0, 200, 400, 800, 1600],
        ),
        (RetryPolicy(), [0, 1000, 2000]),
        (RESERVE.retries, [0, 500, 1000]),
        (CHARGE.retries, [0]),
        (RECEIPT.retries, [0, 200, 400, 800, 1600]),
        (RetryPolicy(max_attempts=6, max_backoff_ms=3000), [0, 1000, 2000, 3000, 3000, 3000]),
        (RetryPolicy.none(), [0]),
    ],
)
def test_retries_follow_the_texts_delays_to_the_millisecond_also_over_a_crash_in_the_wait(
    policy: RetryPolicy, expected: list[int], crash: bool
) -> None:
    """Sagas, "Retry Policy Semantics"; P19: each wait counts from the end of the attempt before, P20: none is lost."""
    assert waits(Saga(plan(step("a", retries=policy))), crash=crash) == expected


def test_the_engine_texts_retry_loop() -> None:
    """Engine, `runWithRetry` and `shouldRetry`: `attempt < maxAttempts` and an error of a wanted class; doubled."""
    flaky = step("a", retries=RetryPolicy(max_attempts=3, backoff_ms=100), retry_on=("OSError",))
    error = ConnectionResetError("reset")
    lost = Lost(reason="reset", errors=error_names(error))
    saga = Saga(plan(flaky))
    for attempt, wait in ((1, 100), (2, 200)):
        assert flaky.should_retry(error, attempt)
        saga.run(lost)
        assert wake_at(saga.state) == saga.now + wait
    assert not flaky.should_retry(error, 3)
    saga.run(lost)
    assert saga.status() is WorkflowStatus.COMPENSATED
    assert not flaky.should_retry(ValueError("bad"), 1)


# Sagas, the example's `run_step`, branch by branch


def test_every_step_goes_well() -> None:
    """Sagas: COMPLETED with the updates of the steps in the context."""
    saga = checkout().run(done(reservation_id="r"), done(charge_id="c"), done(receipt_id="s"))
    assert saga.status() is WorkflowStatus.COMPLETED
    assert saga.state.context.to_dict() == {"sku": "book", "reservation_id": "r", "charge_id": "c", "receipt_id": "s"}


def test_reserve_stock_transient() -> None:
    """Sagas: `Retry { after_ms: 500 }`."""
    saga = checkout().run(Retried(reason="busy", after_ms=500))
    assert wake_at(saga.state) == NOON + 500
    saga.run(Retried(reason="busy", after_ms=500), done(reservation_id="r"))
    assert saga.due(Execute).step == "charge_card"


def test_reserve_stock_fails_and_there_is_nothing_to_undo_yet() -> None:
    """Sagas: `Fail { compensate: false }`."""
    saga = checkout().run(Failed(reason="unknown sku", compensate=False))
    assert (saga.status(), saga.left) == (WorkflowStatus.FAILED, ())


def test_card_declined_rolls_back_the_reservation() -> None:
    """Sagas: `Fail { compensate: true }`; the completed prefix in reverse; Compensated once rollback finishes."""
    saga = checkout().run(done(reservation_id="r"), Failed(reason="card declined", compensate=True))
    assert saga.status() is WorkflowStatus.COMPENSATING
    assert saga.undo_all() == ["reserve_stock"]
    assert saga.status() is WorkflowStatus.COMPENSATED


def test_receipt_bounces_refund_comes_before_release() -> None:
    """Both texts: reverse order; "release inventory after refunding the payment"."""
    saga = checkout().run(done(), done(), Failed(reason="bounced", compensate=True))
    assert saga.undo_all() == ["charge_card", "reserve_stock"]


def test_step_not_found_is_permanent() -> None:
    """Sagas: `Err(WorkflowError::step_not_found(other))` (semantics §2: it compensates)."""
    saga = checkout().run(done(), done(), Failed(reason="step not found: send_receipt", compensate=True))
    assert saga.state.failure == "step not found: send_receipt"
    assert saga.status() is WorkflowStatus.COMPENSATING


def test_a_failing_compensation_is_escalated_to_a_person() -> None:
    """Both texts: FAILED, the host surfaces the error; unlike the listing, the failed one is not popped (P13)."""
    saga = checkout().run(done(), done(), Failed(reason="bounced", compensate=True)).undo(NO)
    assert saga.status() is WorkflowStatus.FAILED
    assert (saga.incident.kind, saga.incident.step) == (IncidentKind.COMPENSATION_FAILED, "charge_card")
    saga.reopen()
    assert saga.undo_all() == ["charge_card", "reserve_stock"]


# Engine


def inventory() -> Saga:
    """Engine, "Sequential execution with branching"."""
    check = StepDefinition(name="check", branches=("reserveInventory", "notifyOutOfStock"), next="reserveInventory")
    reserve = StepDefinition(name="reserveInventory", next="end")
    return Saga(plan(check, reserve, StepDefinition(name="notifyOutOfStock")))


@pytest.mark.parametrize(("in_stock", "chosen"), [(True, "reserveInventory"), (False, "notifyOutOfStock")])
def test_a_steps_own_result_decides_the_next_step(in_stock: bool, chosen: str) -> None:
    """Engine: `nextStepId` of the result; null means the default."""
    saga = inventory().run(done(chosen, inStock=in_stock))
    assert saga.due(Execute).step == chosen
    saga.run(done())
    assert saga.status() is WorkflowStatus.COMPLETED


def test_a_restart_resumes_from_the_checkpoint() -> None:
    """Engine, "Checkpoint after every step"; P1: what is done is not done again."""
    saga = checkout().run(done(), done()).crash()
    assert saga.due(Execute).step == "send_receipt"


def test_a_restart_resumes_a_compensating_run_too() -> None:
    """Against the engine's listing, which reloads RUNNING ones only (P16)."""
    saga = checkout().run(done(), done(), NO).undo(None).crash()
    assert saga.due(Compensate).step == "reserve_stock"
