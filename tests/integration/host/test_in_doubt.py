"""Steps that must not be repeated blindly: crashes in their window, and `verify_step` (semantics §6; P4)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bext_workflow.errors import WorkflowError
from bext_workflow.model.definition import WorkflowDefinition
from bext_workflow.model.outcome import NotDone, StepOutcome, Unknown
from bext_workflow.model.policy import RetryPolicy
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import Action, Call, IncidentKind, WorkflowStatus
from tests.integration.host.support import Calls, hosting, saga, step, workflow

TWICE = RetryPolicy(max_attempts=2, backoff_ms=0)
PAY = workflow("pack", step("pay", idempotent=False, retries=TWICE), "ship")
UNDO_ONCE = workflow("pack", step("pay", undo_idempotent=False, compensation_retries=TWICE), "ship")

COMPLETED, COMPENSATED, SUSPENDED = WorkflowStatus.COMPLETED, WorkflowStatus.COMPENSATED, WorkflowStatus.SUSPENDED


async def for_ever(_: WorkflowRun) -> object:
    await asyncio.Event().wait()
    return None


async def dead_in(
    call: str, calls: Calls, path: Path, definition: WorkflowDefinition = PAY, *, verifies: bool = False
) -> str:
    """The host dies while that call is made. Returns the run's id."""
    async with hosting(saga(calls, definition, verifies=verifies), path) as hosted:
        run_id = await hosted.start()
        await calls.until(call)
        hosted.dies()
    return run_id


async def test_a_crash_in_the_window_puts_the_step_in_doubt_and_it_is_not_called_again(tmp_path: Path) -> None:
    """P4: for any number of crashes."""
    calls, path = Calls(pay=[for_ever]), tmp_path / "bext.db"
    run_id = await dead_in("pay", calls, path)
    for _ in range(3):
        async with hosting(saga(calls, PAY), path) as hosted:
            assert (await hosted.reaches(run_id, SUSPENDED)).holds
            incident = await hosted.incident(run_id)
            assert (incident.kind, incident.reason) == (IncidentKind.IN_DOUBT, "the host died during the attempt")
            await hosted.quiet()
            hosted.dies()
    assert calls.made == ["pack", "pay"]
    async with hosting(saga(calls, PAY), path) as hosted:
        await hosted.resolve(run_id, Action.NOT_DONE)
        assert (await hosted.reaches(run_id, COMPLETED)).status is COMPLETED
    assert [run.attempt for run in calls.of("pay")] == [1, 1]
    assert len({run.idempotency_key for run in calls.of("pay")}) == 1


async def test_a_crash_in_a_repeatable_step_repeats_the_same_attempt_with_the_same_key(tmp_path: Path) -> None:
    """P3, P20: it counts as a recovery, not as an attempt."""
    calls, path = Calls(ship=[for_ever, for_ever]), tmp_path / "bext.db"
    definition = workflow("pack", step("ship", retries=RetryPolicy.none()))
    run_id = await dead_in("ship", calls, path, definition)
    async with hosting(saga(calls, definition), path) as hosted:
        await calls.until("ship", 2)
        hosted.dies()
    async with hosting(saga(calls, definition), path) as hosted:
        assert (await hosted.settled(run_id)).status is COMPLETED
        assert (await hosted.kinds(run_id)).count("recovered") == 2
    assert calls.made == ["pack", "ship", "ship", "ship"]
    assert [run.attempt for run in calls.of("ship")] == [1, 1, 1]
    assert {run.idempotency_key for run in calls.of("ship")} == {f"{run_id}:ship"}


async def test_a_crash_in_an_undo_repeats_it_with_the_same_key(tmp_path: Path) -> None:
    """P11, P16: a run that compensates goes on compensating, from the one that failed to be recorded."""
    calls = Calls(ship=[StepOutcome.Fail("no", True)], undo_pay=[for_ever])
    path, definition = tmp_path / "bext.db", workflow("pack", "pay", "ship")
    run_id = await dead_in("undo_pay", calls, path, definition)
    async with hosting(saga(calls, definition), path) as hosted:
        assert (await hosted.settled(run_id)).status is COMPENSATED
    assert calls.made == ["pack", "pay", "ship", "undo_pay", "undo_pay", "undo_pack"]
    assert {run.idempotency_key for run in calls.of("undo_pay")} == {f"{run_id}:pay:compensate"}


async def test_a_crash_in_an_undo_that_must_not_be_repeated_is_in_doubt(tmp_path: Path) -> None:
    """P4, for the way back."""
    calls, path = Calls(ship=[StepOutcome.Fail("no", True)], undo_pay=[for_ever]), tmp_path / "bext.db"
    run_id = await dead_in("undo_pay", calls, path, UNDO_ONCE)
    async with hosting(saga(calls, UNDO_ONCE), path) as hosted:
        await hosted.reaches(run_id, SUSPENDED)
        incident = await hosted.incident(run_id)
        assert (incident.kind, incident.call) == (IncidentKind.IN_DOUBT, Call.UNDO)
        await hosted.resolve(run_id, Action.DONE)
        await hosted.reaches(run_id, COMPENSATED)
    assert calls.made == ["pack", "pay", "ship", "undo_pay", "undo_pack"]


# verify_step, after an attempt that raised


VERDICTS: dict[str, tuple[object, WorkflowStatus, list[str]]] = {
    "it happened": (StepOutcome.Continue({"charge": 1}), COMPLETED, ["ship"]),
    "it failed": (StepOutcome.Fail("declined", True), COMPENSATED, ["undo_pack"]),
    "it failed, leave the rest": (StepOutcome.Fail("declined", False), WorkflowStatus.FAILED, []),
    "again": (StepOutcome.Retry(), COMPLETED, ["pay", "ship"]),
    "not done": (NotDone(), COMPLETED, ["pay", "ship"]),
    "unknown": (Unknown(), SUSPENDED, []),
    "nothing": (None, SUSPENDED, []),
    "it happened, and waits": (StepOutcome.Wait(signal="paid"), WorkflowStatus.WAITING, []),
    "no wait": (StepOutcome.Wait(), SUSPENDED, []),
    "an illegal next": (StepOutcome.Continue(next="nowhere"), SUSPENDED, []),
    "illegal updates": (StepOutcome.Continue({"a": float("nan")}), SUSPENDED, []),
    "an error": (KeyError("?"), SUSPENDED, []),
    "a definite error": (WorkflowError("no"), SUSPENDED, []),
    "the end of the world": (SystemExit(1), SUSPENDED, []),
}


@pytest.mark.parametrize(("verdict", "status", "follows"), VERDICTS.values(), ids=VERDICTS)
async def test_verify_step_is_asked_before_a_person_is(
    verdict: object, status: WorkflowStatus, follows: list[str]
) -> None:
    calls = Calls(pay=[KeyError("?")], verify_pay=[verdict])
    async with hosting(saga(calls, PAY, verifies=True)) as hosted:
        run = await hosted.settled(await hosted.start())
        assert (run.status, calls.made) == (status, ["pack", "pay", "verify_pay", *follows])
        asked = calls.of("verify_pay")[0]
        assert (asked.step, asked.attempt, asked.visit) == ("pay", 1, 1)
        assert asked.idempotency_key == f"{run.run_id}:pay"
        if status is SUSPENDED:
            incident = await hosted.incident(run.run_id)
            assert (incident.kind, incident.evidence) == (IncidentKind.IN_DOUBT, {"raised": "KeyError('?')"})
        if status is COMPLETED and follows == ["ship"]:
            assert run.context == {"charge": 1}


async def test_not_done_after_an_error_is_a_retry_with_the_next_number() -> None:
    """Semantics §6: it counts against the policy."""
    calls = Calls(pay=[KeyError("?"), KeyError("?")], verify_pay=[NotDone(), NotDone()])
    async with hosting(saga(calls, PAY, verifies=True)) as hosted:
        run = await hosted.settled(await hosted.start())
        assert run.status is COMPENSATED
        assert [made.attempt for made in calls.of("pay")] == [1, 2]
        assert run.failure == "retries exhausted: verified: not done"


async def test_not_done_after_a_crash_is_the_same_attempt_again(tmp_path: Path) -> None:
    calls, path = Calls(pay=[for_ever], verify_pay=[NotDone()]), tmp_path / "bext.db"
    run_id = await dead_in("pay", calls, path, verifies=True)
    async with hosting(saga(calls, PAY, verifies=True), path) as hosted:
        assert (await hosted.settled(run_id)).status is COMPLETED
    assert calls.made == ["pack", "pay", "verify_pay", "pay", "ship"]
    assert [made.attempt for made in calls.of("pay")] == [1, 1]


async def test_a_crash_while_verify_step_is_asked_asks_again_and_never_calls_the_step(tmp_path: Path) -> None:
    calls, path = Calls(pay=[KeyError("?")], verify_pay=[for_ever, StepOutcome.Continue()]), tmp_path / "bext.db"
    run_id = await dead_in("verify_pay", calls, path, verifies=True)
    async with hosting(saga(calls, PAY, verifies=True), path) as hosted:
        assert (await hosted.settled(run_id)).status is COMPLETED
    assert calls.made == ["pack", "pay", "verify_pay", "verify_pay", "ship"]


UNDO_VERDICTS: dict[str, tuple[object, WorkflowStatus, list[str]]] = {
    "it happened": (StepOutcome.Continue(), COMPENSATED, ["undo_pack"]),
    "not done": (NotDone(), COMPENSATED, ["undo_pay", "undo_pack"]),
    "it failed": (StepOutcome.Fail("no", True), WorkflowStatus.FAILED, []),
    "unknown": (Unknown(), SUSPENDED, []),
}


@pytest.mark.parametrize(("verdict", "status", "follows"), UNDO_VERDICTS.values(), ids=UNDO_VERDICTS)
async def test_verify_step_is_asked_of_an_undo_too(verdict: object, status: WorkflowStatus, follows: list[str]) -> None:
    calls = Calls(ship=[StepOutcome.Fail("lost", True)], undo_pay=[KeyError("?")], verify_pay=[verdict])
    async with hosting(saga(calls, UNDO_ONCE, verifies=True)) as hosted:
        run = await hosted.settled(await hosted.start())
        assert (run.status, run.failure) == (status, "lost")
        assert calls.made == ["pack", "pay", "ship", "undo_pay", "verify_pay", *follows]
        assert calls.of("verify_pay")[0].idempotency_key == f"{run.run_id}:pay:compensate"


async def test_an_undo_sees_its_own_visit_s_updates_over_the_context() -> None:
    """Semantics §5: a loop's second refund must not refund the first payment twice."""
    definition = workflow(step("pay", branches=("pay",), max_visits=9), "ship")
    pays = [StepOutcome.Continue({"charge": 1}, next="pay", undo_data=1), StepOutcome.Continue({"charge": 2})]
    calls = Calls(pay=list(pays), ship=[StepOutcome.Fail("lost", True)])
    async with hosting(saga(calls, definition)) as hosted:
        assert (await hosted.settled(await hosted.start())).status is COMPENSATED
        undone = calls.of("undo_pay")
        assert [(run.visit, run.context["charge"], run.undo_data) for run in undone] == [(2, 2, None), (1, 1, 1)]
        assert all(run.failure == "lost" for run in undone)


async def test_an_intent_is_durable_before_the_call_and_only_where_it_must_be(tmp_path: Path) -> None:
    """Semantics §6: nothing is written before the call of a repeatable step, unless an attempt was recorded."""
    calls = Calls(pack=[StepOutcome.Retry()])
    definition = workflow(step("pack", retries=TWICE), step("pay", idempotent=False))
    async with hosting(saga(calls, definition), tmp_path / "bext.db") as hosted:
        run = await hosted.settled(await hosted.start())
        assert await hosted.kinds(run.run_id) == [
            "run_created",
            "attempt_failed",
            "attempt_started",
            "step_completed",
            "attempt_started",
            "step_completed",
            "run_completed",
        ]
