"""Heartbeats: a long attempt that says that it is alive, and how far it has come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from bext_workflow.model.definition import WorkflowDefinition
from bext_workflow.model.json import Json
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.policy import RetryPolicy
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.testing.clock import FakeClock
from tests.integration.host.support import Calls, Hosted, hosting, jumping, plugin, registry, saga, step, workflow

DONE = StepOutcome.Continue()


def copying(**fields: Json) -> WorkflowDefinition:
    retries = RetryPolicy(max_attempts=2, backoff_ms=0, max_backoff_ms=0)
    return workflow(step("copy", timeout_ms=1_000, heartbeat_ms=500, retries=retries, **fields))


def beating(clock: FakeClock, times: int, every_ms: int) -> Callable[[WorkflowRun], object]:
    """An attempt that beats so often, then hangs as long again, and is done."""

    async def attempt(run: WorkflowRun) -> StepOutcome.Continue:
        for number in range(times):
            await clock.sleep(every_ms)
            run.heartbeat({"copied": number + 1})
        return DONE

    return attempt


async def details(hosted: Hosted, run_id: str) -> list[Json]:
    return [event.data["detail"] for event in await hosted.journal(run_id) if event.kind == "heartbeat_recorded"]


async def test_heartbeats_extend_an_attempt_beyond_its_time_out() -> None:
    clock = FakeClock()
    calls = Calls(copy=[beating(clock, times=20, every_ms=400)])
    async with jumping(saga(calls, copying()), clock) as hosted:
        run = await hosted.settled(await hosted.start())
    assert run.status is WorkflowStatus.COMPLETED
    assert calls.made == ["copy"]


async def test_an_attempt_that_falls_silent_is_given_up() -> None:
    clock = FakeClock()

    async def silent(run: WorkflowRun) -> StepOutcome.Continue:
        await clock.sleep(900)
        run.heartbeat()
        await asyncio.Event().wait()
        return DONE

    calls = Calls(copy=[silent, DONE], clock=clock)
    async with jumping(saga(calls, copying()), clock) as hosted:
        run_id = await hosted.start()
        await hosted.settled(run_id)
        (failed,) = [event.data for event in await hosted.journal(run_id) if event.kind == "attempt_failed"]
    assert failed["reason"] == "the attempt took longer than timeout_ms = 1000, and there was no heartbeat in time"
    assert calls.at[1] - calls.at[0] == 1_400


async def test_the_next_attempt_reads_how_far_the_last_one_has_come() -> None:
    seen: list[Json] = []

    async def fails(run: WorkflowRun) -> StepOutcome.Retry:
        seen.append(run.heartbeat_detail)
        run.heartbeat({"copied": 1})
        run.heartbeat({"copied": 2})
        await asyncio.sleep(0)
        return StepOutcome.Retry(reason="busy")

    async def goes_on(run: WorkflowRun) -> StepOutcome.Continue:
        seen.append(run.heartbeat_detail)
        return DONE

    async with hosting(saga(Calls(copy=[fails, goes_on]), copying())) as hosted:
        run_id = await hosted.start()
        await hosted.settled(run_id)
    assert seen == [None, {"copied": 2}]


async def test_a_detail_outlives_the_host(tmp_path: Path) -> None:
    """P16: the same attempt again, from where it was."""
    seen: list[Json] = []

    async def dies(run: WorkflowRun) -> StepOutcome.Continue:
        run.heartbeat(7)
        await hosted.until_kind(run.run_id, "heartbeat_recorded")
        hosted.dies()
        await asyncio.Event().wait()
        return DONE

    async def goes_on(run: WorkflowRun) -> StepOutcome.Continue:
        seen.append((run.attempt, run.heartbeat_detail))
        return DONE

    async with hosting(saga(Calls(copy=[dies]), copying()), tmp_path / "bext.db") as hosted:
        run_id = await hosted.start()
        await hosted.host.drained.wait()
    async with hosting(saga(Calls(copy=[goes_on]), copying()), tmp_path / "bext.db") as hosted:
        await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
    assert seen == [(1, 7)]


async def test_a_detail_is_written_once_a_second_and_the_last_one_counts() -> None:
    clock = FakeClock()
    calls = Calls(copy=[beating(clock, times=25, every_ms=100)])
    async with jumping(saga(calls, copying()), clock) as hosted:
        run_id = await hosted.start()
        await hosted.settled(run_id)
        written = [detail["copied"] for detail in await details(hosted, run_id)]
    assert 2 <= len(written) <= 4
    assert written[0] == 1
    assert all(later - earlier >= 9 for earlier, later in pairwise(written))


async def test_a_new_visit_begins_without() -> None:
    seen: list[Json] = []

    async def first(run: WorkflowRun) -> StepOutcome.Continue:
        run.heartbeat("once")
        await hosted.until_kind(run.run_id, "heartbeat_recorded")
        return StepOutcome.Continue(next="copy")

    async def second(run: WorkflowRun) -> StepOutcome.Continue:
        seen.append(run.heartbeat_detail)
        return DONE

    async with hosting(saga(Calls(copy=[first, second]), copying(branches=("copy",)))) as hosted:
        assert (await hosted.settled(await hosted.start())).status is WorkflowStatus.COMPLETED
    assert seen == [None]


async def test_from_a_thread_too() -> None:
    def copies(run: WorkflowRun, _: str) -> StepOutcome.Continue:
        run.heartbeat({"copied": 1})
        return DONE

    async with hosting(registry(plugin(copies, copying()))) as hosted:
        run = await hosted.settled(await hosted.start())
    assert run.status is WorkflowStatus.COMPLETED


async def test_an_undo_may_take_longer_too_and_its_detail_is_nobodys() -> None:
    clock = FakeClock()
    calls = Calls(send=[StepOutcome.Fail("no", compensate=True)], undo_copy=[beating_undo(clock)])
    definition = workflow(copying().steps[0], "send")
    async with jumping(saga(calls, definition), clock) as hosted:
        run_id = await hosted.start()
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPENSATED
        assert await details(hosted, run_id) == []
    assert calls.made.count("undo_copy") == 1


def beating_undo(clock: FakeClock) -> Callable[[WorkflowRun], object]:
    async def undo(run: WorkflowRun) -> None:
        for _ in range(5):
            await clock.sleep(400)
            run.heartbeat("undone so far")

    return undo


@pytest.mark.parametrize(
    ("definition", "detail", "reason"),
    [
        (workflow("copy"), None, "step 'copy' has no heartbeat_ms"),
        (copying(), {"x": float("nan")}, "$.detail.x"),
        (copying(), "x" * 5_000, "4096"),
    ],
)
async def test_what_is_no_heartbeat_fails_the_step(definition: WorkflowDefinition, detail: Json, reason: str) -> None:
    async def beats(run: WorkflowRun) -> StepOutcome.Continue:
        run.heartbeat(detail)
        return DONE

    async with hosting(saga(Calls(copy=[beats]), definition)) as hosted:
        run = await hosted.settled(await hosted.start())
    assert run.failure is not None
    assert reason in run.failure


async def test_a_snapshot_that_nobody_listens_to_takes_heartbeats_for_nothing() -> None:
    kept: list[WorkflowRun] = []

    async def keeps(run: WorkflowRun) -> StepOutcome.Continue:
        kept.append(run)
        return DONE

    async with hosting(saga(Calls(copy=[keeps]), copying())) as hosted:
        run_id = await hosted.start()
        await hosted.settled(run_id)
        kept[0].heartbeat("too late")
        await hosted.quiet()
        assert await details(hosted, run_id) == []
