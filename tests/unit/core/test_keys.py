"""Idempotency keys (semantics §6)."""

from __future__ import annotations

from bext_workflow.core.state import ending_key, undo_key, visit_key
from bext_workflow.core.work import Compensate, Execute
from tests.unit.core.support import AGAIN, NO, TIMED_OUT, Saga, done, plan, step


def test_the_forms_of_the_keys() -> None:
    """§6: `run_id:step`, `#visit` from the second on, `:compensate` appended; `run_id:complete#n`."""
    assert visit_key("r", "charge", 1) == "r:charge"
    assert visit_key("r", "charge", 2) == "r:charge#2"
    assert undo_key("r", "charge", 1) == "r:charge:compensate"
    assert undo_key("r", "charge", 3) == "r:charge#3:compensate"
    assert ending_key("r", 1) == "r:complete#1"


def test_a_visits_key_is_the_same_for_every_attempt_crash_and_host() -> None:
    """§6, P3: a time-out, a retry and a crash later it is still the same."""
    saga = Saga(plan(step("a")))
    keys = {saga.call_step().key}
    keys.add(saga.crash().due(Execute).key)
    keys.add(saga.run(TIMED_OUT).wait(60_000).due(Execute).key)
    keys.add(saga.run(AGAIN).wait(60_000).crash().due(Execute).key)
    assert keys == {"r-1:a"}


def test_each_visit_has_its_own_key_and_its_undo_has_the_same_with_a_suffix() -> None:
    """§6, P11: visits count over the whole run, and are undone under their own number."""
    saga = Saga(plan(step("pay", branches=("pay",)), step("ship")))
    keys = []
    for outcome in (done("pay"), done("pay"), done("ship")):
        keys.append(saga.due(Execute).key)
        saga.run(outcome)
    assert keys == ["r-1:pay", "r-1:pay#2", "r-1:pay#3"]
    saga.run(NO)
    undone = []
    while saga.state.pending is not None:
        undone.append(saga.due(Compensate).key)
        saga.undo(None)
    assert undone == ["r-1:pay#3:compensate", "r-1:pay#2:compensate", "r-1:pay:compensate"]


def test_an_undos_key_is_the_same_after_its_failure_and_a_persons_retry() -> None:
    """§6, P13."""
    saga = Saga(plan(step("a"), step("b"))).run(done(), NO)
    first = saga.due(Compensate).key
    saga.undo(NO)
    saga.reopen()
    assert saga.due(Compensate).key == first == "r-1:a:compensate"
