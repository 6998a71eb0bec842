"""`on_workflow_complete`: after the end is durable, at least once, and never a reason to change it (P17)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bext_workflow.errors import WorkflowError
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import Action, IncidentKind, WorkflowStatus
from bext_workflow.ports.store import Append, Create
from bext_workflow.testing.clock import START, FakeClock
from tests.integration.host.support import Calls, hosting, jumping, saga, workflow

PACK = workflow("pack")
ENDINGS: dict[WorkflowStatus, list[object]] = {
    WorkflowStatus.COMPLETED: [],
    WorkflowStatus.COMPENSATED: [StepOutcome.Fail("no", True)],
    WorkflowStatus.FAILED: [StepOutcome.Fail("no", False)],
    WorkflowStatus.CANCELLED: [],
}


@pytest.mark.parametrize("status", ENDINGS)
async def test_it_is_called_for_every_ending_once_that_is_durable(status: WorkflowStatus) -> None:
    seen: list[WorkflowStatus] = []
    gate = asyncio.Event()

    async def waits(_: WorkflowRun) -> object:
        await gate.wait()
        return (ENDINGS[status] or [StepOutcome.Continue()])[0]

    async def looks(run: WorkflowRun) -> object:
        seen.append((await hosted.store.find(run.run_id))[0].status)
        return None

    calls = Calls(ship=[waits], complete=[looks])
    async with hosting(saga(calls, notifies=True)) as hosted:
        run_id = await hosted.start()
        if status is WorkflowStatus.CANCELLED:
            await hosted.cancel(run_id, compensate=False)
        gate.set()
        await hosted.until_kind(run_id, "completion_settled")
        assert seen == [status]
        (told,) = calls.of("complete")
        assert (told.status, told.attempt, told.idempotency_key) == (status, 1, f"{run_id}:complete#1")
        assert (await hosted.get(run_id)).status is status


async def test_a_run_that_ends_twice_is_told_of_twice() -> None:
    calls = Calls(ship=[StepOutcome.Fail("closed", False)])
    async with hosting(saga(calls, notifies=True)) as hosted:
        run_id = await hosted.start()
        await hosted.until_kind(run_id, "completion_settled")
        await hosted.retry(run_id)
        await hosted.until_kind(run_id, "completion_settled", 2)
        told = [(run.status, run.idempotency_key) for run in calls.of("complete")]
        assert told == [
            (WorkflowStatus.FAILED, f"{run_id}:complete#1"),
            (WorkflowStatus.COMPLETED, f"{run_id}:complete#2"),
        ]


async def test_an_ending_is_told_of_as_it_was_though_the_run_has_moved_on_since() -> None:
    """The hook failed the first time; before the second a person has set the run going again."""
    clock, gate = FakeClock(), asyncio.Event()

    async def waits(_: WorkflowRun) -> object:
        await gate.wait()
        return StepOutcome.Continue()

    calls = Calls(ship=[StepOutcome.Fail("closed", False), waits], complete=[KeyError("?")])
    async with hosting(saga(calls, notifies=True), clock=clock) as hosted:
        run_id = await hosted.start()
        await hosted.until_kind(run_id, "attempt_failed")
        clock.advance(999)
        await hosted.retry(run_id)
        await calls.until("ship", 2)
        clock.advance(1)
        gate.set()
        await hosted.until_kind(run_id, "completion_settled", 2)
        told = [(run.status, run.idempotency_key) for run in calls.of("complete")]
        first, second = (
            (WorkflowStatus.FAILED, f"{run_id}:complete#1"),
            (WorkflowStatus.COMPLETED, f"{run_id}:complete#2"),
        )
        assert told == [first, first, second]
        assert (await hosted.get(run_id)).status is WorkflowStatus.COMPLETED


async def test_its_errors_are_retried_by_the_default_policy_and_change_nothing() -> None:
    clock = FakeClock()
    calls = Calls(clock=clock, complete=[KeyError("?"), SystemExit(3)])
    async with jumping(saga(calls, PACK, notifies=True), clock) as hosted:
        run_id = await hosted.start()
        await hosted.until_kind(run_id, "completion_settled")
        assert (await hosted.get(run_id)).status is WorkflowStatus.COMPLETED
        assert calls.at[1:] == [START, START + 1_000, START + 3_000]
        assert [run.attempt for run in calls.of("complete")] == [1, 2, 3]
        assert {run.idempotency_key for run in calls.of("complete")} == {f"{run_id}:complete#1"}


async def test_errors_without_an_end_become_an_incident_beside_the_ending() -> None:
    clock = FakeClock()
    calls = Calls(complete=[KeyError("1"), WorkflowError("2"), KeyError("3")])
    async with jumping(saga(calls, PACK, notifies=True), clock) as hosted:
        run_id = await hosted.start()
        await hosted.until_kind(run_id, "incident_opened")
        incident = await hosted.incident(run_id)
        assert incident.kind is IncidentKind.COMPLETION_FAILED
        assert incident.actions == [Action.RETRY, Action.CLOSE]
        assert "KeyError('3')" in incident.reason
        run = await hosted.get(run_id)
        assert (run.status, run.failure) == (WorkflowStatus.COMPLETED, None)
        (row,) = await hosted.store.find(run_id)
        assert row.owner is None


async def test_a_crash_during_the_call_makes_it_again(tmp_path: Path) -> None:
    """At least once, with the same key."""

    async def hangs(_: WorkflowRun) -> object:
        await asyncio.Event().wait()
        return None

    calls, path = Calls(complete=[hangs]), tmp_path / "bext.db"
    async with hosting(saga(calls, PACK, notifies=True), path) as hosted:
        run_id = await hosted.start()
        await calls.until("complete")
        hosted.dies()
    async with hosting(saga(calls, PACK, notifies=True), path) as hosted:
        await hosted.until_kind(run_id, "completion_settled")
        assert (await hosted.get(run_id)).status is WorkflowStatus.COMPLETED
    assert [run.idempotency_key for run in calls.of("complete")] == [f"{run_id}:complete#1"] * 2
    assert calls.made.count("pack") == 1


async def test_a_crash_between_the_end_and_the_call_loses_nothing(tmp_path: Path) -> None:
    calls, path = Calls(), tmp_path / "bext.db"
    async with hosting(saga(calls, PACK, notifies=True), path) as hosted:

        async def dies_after_the_end(number: int, after: bool) -> None:
            if (number, after) == (2, True):
                hosted.dies()

        hosted.store.around = dies_after_the_end
        run_id = await hosted.start()
        await hosted.host.drained.wait()
    assert calls.made in (["pack"], ["pack", "complete"])
    async with hosting(saga(calls, PACK, notifies=True), path) as hosted:
        await hosted.until_kind(run_id, "completion_settled")
    assert "complete" in calls.made


async def test_whoever_waits_for_the_end_does_not_wait_for_the_hook() -> None:
    gate = asyncio.Event()

    async def waits(_: WorkflowRun) -> object:
        await gate.wait()
        return None

    calls = Calls(complete=[waits])
    async with hosting(saga(calls, PACK, notifies=True)) as hosted:
        run_id = await hosted.start()
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED
        gate.set()
        await hosted.until_kind(run_id, "completion_settled")


async def test_only_a_plugin_that_has_the_hook_pays_for_it() -> None:
    """Create + 1 step, and one more commit where the hook is called."""
    for notifies, members in ((False, [Create, Append]), (True, [Create, Append, Append])):
        calls = Calls()
        async with hosting(saga(calls, PACK, notifies=notifies)) as hosted:
            run_id = await hosted.start()
            await hosted.settled(run_id)
            if notifies:
                await hosted.until_kind(run_id, "completion_settled")
            await hosted.quiet()
            assert [type(member) for member in hosted.store.written] == members
            assert calls.made == (["pack", "complete"] if notifies else ["pack"])
