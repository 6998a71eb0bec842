"""Waiting for a run that a person has just set going again: its old end is not the answer."""

from __future__ import annotations

from pathlib import Path

from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.status import Action, IncidentKind, WorkflowStatus
from tests.integration.host.support import Calls, desk, hosting, saga, step, workflow

DECLINED = StepOutcome.Fail("declined", compensate=False)


async def test_result_after_a_retry_is_that_of_the_retry() -> None:
    calls = Calls(pack=[DECLINED])
    async with hosting(saga(calls)) as hosted:
        run_id = await hosted.start()
        assert (await hosted.settled(run_id)).status is WorkflowStatus.FAILED
        await hosted.retry(run_id)
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED


async def test_result_after_an_answer_is_that_of_the_answer() -> None:
    calls = Calls(pack=[KeyError("lost")])
    async with hosting(saga(calls, workflow(step("pack", idempotent=False)))) as hosted:
        run_id = await hosted.start()
        assert (await hosted.settled(run_id)).status is WorkflowStatus.SUSPENDED
        assert (await hosted.incident(run_id)).kind is IncidentKind.IN_DOUBT
        await hosted.resolve(run_id, Action.DONE)
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED


async def test_result_of_a_run_that_nobody_drives_is_not_waited_for(tmp_path: Path) -> None:
    calls = Calls(pack=[DECLINED])
    async with hosting(saga(calls), tmp_path / "bext.db") as hosted:
        run_id = await hosted.start()
        await hosted.settled(run_id)
    async with desk(saga(calls), tmp_path / "bext.db") as desked:
        await desked.retry(run_id)
        assert (await desked.settled(run_id)).status is WorkflowStatus.FAILED
