"""Heartbeats: a long attempt that says that it is alive, and how far it has come."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from bext_workflow.model.definition import WorkflowDefinition
from bext_workflow.model.fork import JoinDefinition
from bext_workflow.model.json import Json
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.policy import RetryPolicy
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.ports.store import Append
from bext_workflow.service.protocols import SignalRequest
from bext_workflow.testing.clock import FakeClock
from tests.integration.host.support import (
    PATIENT,
    SETTINGS,
    Calls,
    Hosted,
    desk,
    hosting,
    jumping,
    plugin,
    registry,
    saga,
    step,
    workflow,
)
from tests.integration.host.test_timeouts import given_up, stuck
from tests.unit.host.support import DEADLINE_S

DONE = StepOutcome.Continue()


def copying(timeout_ms: int = 1_000, **fields: Json) -> WorkflowDefinition:
    retries = RetryPolicy(max_attempts=2, backoff_ms=0, max_backoff_ms=0)
    return workflow(step("copy", timeout_ms=timeout_ms, heartbeat_ms=500, retries=retries, **fields))


def beating(clock: FakeClock, times: int, every_ms: int) -> Callable[[WorkflowRun], Awaitable[StepOutcome.Continue]]:
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
    assert failed["reason"] == "the attempt has sent no heartbeat for heartbeat_ms = 500"
    assert calls.at[1] - calls.at[0] == 1_400


async def test_the_next_attempt_reads_how_far_the_last_one_has_come() -> None:
    seen: list[Json] = []

    async def fails(run: WorkflowRun) -> StepOutcome.Retry:
        seen.append(run.heartbeat_detail)
        run.heartbeat({"copied": 1})
        run.heartbeat({"copied": 2})  # and no wait after it, in which the host could note it down
        return StepOutcome.Retry(reason="busy")

    async def goes_on(run: WorkflowRun) -> StepOutcome.Continue:
        seen.append(run.heartbeat_detail)
        return DONE

    async with hosting(saga(Calls(copy=[fails, goes_on]), copying())) as hosted:
        run_id = await hosted.start()
        await hosted.settled(run_id)
        kinds = await hosted.kinds(run_id)
    assert seen == [None, {"copied": 2}]
    assert kinds[kinds.index("attempt_failed") - 1] == "heartbeat_recorded"


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


async def test_from_a_thread_an_attempt_goes_on_and_says_how_far_it_has_come() -> None:
    clock, seen = FakeClock(), list[Json]()
    beats, began = threading.Event(), threading.Event()

    def copies(run: WorkflowRun, _: str) -> StepOutcome.Continue | StepOutcome.Retry:
        seen.append(run.heartbeat_detail)
        if run.attempt == 2:
            return DONE
        began.set()
        assert beats.wait(DEADLINE_S)
        run.heartbeat({"copied": 1})
        beats.clear()
        began.set()
        assert beats.wait(DEADLINE_S)
        return StepOutcome.Retry(reason="busy")

    async def until_it_waits() -> None:
        assert await asyncio.to_thread(began.wait, DEADLINE_S)
        began.clear()

    async with hosting(registry(plugin(copies, copying())), clock=clock) as hosted:
        run_id = await hosted.start()
        await until_it_waits()
        clock.advance(900)
        beats.set()
        await until_it_waits()
        clock.advance(400)
        await hosted.quiet()
        beats.set()
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED
    assert seen == [None, {"copied": 1}]


async def test_a_thread_that_was_given_up_says_nothing_any_more() -> None:
    clock = FakeClock()
    with stuck() as one:

        def hangs(run: WorkflowRun, step_name: str) -> object:
            one.run_step(run, step_name)
            run.heartbeat("too late")
            return DONE

        async with hosting(registry(plugin(hangs, copying())), clock=clock) as hosted:
            run_id = await hosted.start()
            await given_up(hosted, one, clock, ms=1_000)
            one.let_go.set()
            assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED
            assert await details(hosted, run_id) == ["too late"]  # of the second attempt


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


async def test_a_clock_that_is_set_back_holds_no_detail_up() -> None:
    """P22"""
    clock = FakeClock()

    async def copies(run: WorkflowRun) -> StepOutcome.Continue:
        run.heartbeat(1)
        await hosted.until_kind(run.run_id, "heartbeat_recorded")
        clock.jump_wall(-3_600_000)
        run.heartbeat(2)
        await hosted.quiet()
        clock.advance(1_000)
        await hosted.until_kind(run.run_id, "heartbeat_recorded", 2)
        return DONE

    async with hosting(saga(Calls(copy=[copies]), copying(timeout_ms=5_000)), clock=clock) as hosted:
        await hosted.settled(await hosted.start())


async def test_while_the_host_drains_an_end_is_not_lost_over_the_detail_before_it(tmp_path: Path) -> None:
    async def fails(run: WorkflowRun) -> StepOutcome.Fail:
        run.heartbeat(1)
        await hosted.until_kind(run.run_id, "heartbeat_recorded")
        run.heartbeat(2)
        hosted.host.drain()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return StepOutcome.Fail("full", compensate=False)

    path, patient = tmp_path / "bext.db", replace(SETTINGS, drain_timeout_ms=60_000)
    async with hosting(saga(Calls(copy=[fails]), copying()), path, settings=patient) as hosted:
        run_id = await hosted.start()
        await hosted.host.drained.wait()
    async with desk(saga(Calls()), path) as after:
        assert await after.status(run_id) is WorkflowStatus.FAILED


async def test_a_detail_that_is_known_already_is_not_written_again() -> None:
    clock = FakeClock()

    async def fails(run: WorkflowRun) -> StepOutcome.Retry:
        run.heartbeat({"copied": 1})
        return StepOutcome.Retry(reason="busy")

    async def goes_on(run: WorkflowRun) -> StepOutcome.Continue:
        for _ in range(5):
            run.heartbeat(run.heartbeat_detail)
            await clock.sleep(400)
        run.heartbeat({"copied": 1.0})
        await clock.sleep(400)
        return DONE

    async with jumping(saga(Calls(copy=[fails, goes_on]), copying()), clock) as hosted:
        run_id = await hosted.start()
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED
        written = await details(hosted, run_id)
        assert all(member.events for member in hosted.store.written if isinstance(member, Append))
    assert [type(detail["copied"]) for detail in written] == [int, float]


async def test_a_detail_waits_for_the_acts_that_have_arrived_before_it(tmp_path: Path) -> None:
    """The append that it would have been is refused, as the driver did not know of them."""
    signalled = asyncio.Event()

    async def copies(run: WorkflowRun) -> StepOutcome.Continue:
        await signalled.wait()
        run.heartbeat(1)
        await hosted.until_kind(run.run_id, "heartbeat_recorded")
        return DONE

    path, served = tmp_path / "bext.db", saga(Calls(copy=[copies]), copying(timeout_ms=60_000))
    async with hosting(served, path, settings=PATIENT) as hosted, desk(served, path) as beside:
        run_id = await hosted.start()
        await beside.service.signal(run_id, SignalRequest(name="go"))
        signalled.set()
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED
        assert (await hosted.kinds(run_id))[1:3] == ["signal_received", "heartbeat_recorded"]


async def test_branches_that_beat_beside_one_another() -> None:
    """Each has its own detail, and its own time."""
    clock, seen = FakeClock(), dict[str, Json]()

    async def copies(run: WorkflowRun, step_name: str) -> StepOutcome.Continue | StepOutcome.Retry:
        if step_name in ("pick", "ship") or run.attempt == 2:
            seen[step_name] = run.heartbeat_detail
            return DONE
        for number in range(8):
            await clock.sleep(400)
            run.heartbeat([step_name, number])
        return StepOutcome.Retry(reason="busy")

    fork = step("pick", next=("label", "invoice"), join=JoinDefinition(at="ship"))
    sides = (step(name, next="ship", timeout_ms=1_000, heartbeat_ms=500) for name in ("label", "invoice"))
    async with jumping(registry(plugin(copies, workflow(fork, *sides, "ship"))), clock) as hosted:
        assert (await hosted.settled(await hosted.start())).status is WorkflowStatus.COMPLETED
    assert (seen["label"], seen["invoice"]) == (["label", 7], ["invoice", 7])


async def test_verify_step_may_take_longer_too_and_reads_how_far_the_attempt_had_come() -> None:
    clock, seen = FakeClock(), list[Json]()

    async def breaks(run: WorkflowRun) -> StepOutcome.Continue:
        run.heartbeat("half")
        raise KeyError("?")

    async def looks(run: WorkflowRun) -> StepOutcome.Continue:
        seen.append(run.heartbeat_detail)
        await beating(clock, times=5, every_ms=400)(run)
        return DONE

    calls = Calls(copy=[breaks], verify_copy=[looks])
    async with jumping(saga(calls, copying(idempotent=False), verifies=True), clock) as hosted:
        run_id = await hosted.start()
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED
        assert (seen, await details(hosted, run_id)) == (["half"], ["half"])
