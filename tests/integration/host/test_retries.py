"""Waits between attempts, to the millisecond, across crashes and jumps of the wall clock (P19–P22)."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from bext_workflow.errors import WorkflowError
from bext_workflow.host.progress import KEEP_MS
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.policy import OnExhausted, RetryPolicy
from bext_workflow.model.status import Action, IncidentKind, WorkflowStatus
from bext_workflow.testing.clock import START, FakeClock
from tests.integration.host.support import (
    PATIENT,
    Calls,
    hosting,
    jumping,
    saga,
    step,
    workflow,
)

RETRY = StepOutcome.Retry()
SPEC = RetryPolicy(max_attempts=5, backoff_ms=200, backoff_multiplier=2.0, max_backoff_ms=5000)
"""Waits of 0, 200, 400, 800 and 1600 ms."""

HOUR_MS = 3_600_000


def waits(calls: Calls) -> list[int]:
    return [after - before for before, after in pairwise(calls.at)]


async def test_attempts_start_exactly_when_the_policy_says() -> None:
    """P19: 0/200/400/800/1600 ms for (5, 200, 2.0, 5000), from the end of one attempt to the start of the next."""
    clock = FakeClock()
    calls = Calls(clock=clock, pack=[RETRY] * 4)
    async with jumping(saga(calls, workflow(step("pack", retries=SPEC))), clock) as hosted:
        run = await hosted.settled(await hosted.start())
        assert run.status is WorkflowStatus.COMPLETED
        assert calls.at[0] == START
        assert waits(calls) == [200, 400, 800, 1600]
        assert [made.attempt for made in calls.runs] == [1, 2, 3, 4, 5]
        assert len({made.idempotency_key for made in calls.runs}) == 1


async def test_an_attempt_s_own_length_is_no_part_of_the_wait() -> None:
    """P19: the wait counts from the attempt's end."""
    clock = FakeClock()

    async def takes_long(_: object) -> object:
        await clock.sleep(700)
        return RETRY

    calls = Calls(clock=clock, pack=[takes_long, takes_long])
    async with jumping(saga(calls, workflow(step("pack", retries=SPEC))), clock) as hosted:
        await hosted.settled(await hosted.start())
        assert waits(calls) == [700 + 200, 700 + 400]


async def test_raised_and_returned_retries_wait_alike_and_so_do_transient_errors() -> None:
    clock = FakeClock()
    calls = Calls(clock=clock, pack=[WorkflowError("503", retryable=True), TimeoutError("read"), RETRY])
    async with jumping(saga(calls, workflow(step("pack", retries=SPEC))), clock) as hosted:
        await hosted.settled(await hosted.start())
        assert waits(calls) == [200, 400, 800]


@pytest.mark.parametrize("after_ms", [0, 1, 250, 999, KEEP_MS, KEEP_MS + 1, 5_001, 86_400_000])
async def test_after_ms_is_kept_as_given(after_ms: int) -> None:
    """P19: not cut by `max_backoff_ms`, and the count of attempts goes on beside it."""
    clock = FakeClock()
    calls = Calls(clock=clock, pack=[StepOutcome.Retry(after_ms=after_ms), RETRY])
    async with jumping(saga(calls, workflow(step("pack", retries=SPEC))), clock) as hosted:
        await hosted.settled(await hosted.start())
        assert waits(calls) == [after_ms, 400]


@pytest.mark.parametrize("draw", [0.0, 0.25, 0.999])
async def test_jitter_only_shortens_within_its_share(draw: float) -> None:
    """P19: in [d(1 - jitter), d]."""
    clock = FakeClock()
    policy = RetryPolicy(max_attempts=4, backoff_ms=1000, max_backoff_ms=60_000, jitter=0.2)
    calls = Calls(clock=clock, pack=[RETRY] * 3)
    async with jumping(saga(calls, workflow(step("pack", retries=policy))), clock, jitter=draw) as hosted:
        await hosted.settled(await hosted.start())
        for waited, full in zip(waits(calls), [1000, 2000, 4000], strict=True):
            assert full * 0.8 <= waited <= full
            assert waited == full - int(full * 0.2 * draw)


@pytest.mark.parametrize(
    ("on_exhausted", "status"),
    [
        (OnExhausted.COMPENSATE, WorkflowStatus.COMPENSATED),
        (OnExhausted.FAIL, WorkflowStatus.FAILED),
        (OnExhausted.INCIDENT, WorkflowStatus.SUSPENDED),
    ],
)
async def test_no_attempt_more_than_max_attempts(on_exhausted: OnExhausted, status: WorkflowStatus) -> None:
    """P20"""
    clock = FakeClock()
    policy = RetryPolicy(max_attempts=3, backoff_ms=10, on_exhausted=on_exhausted)
    calls = Calls(clock=clock, ship=[RETRY] * 9)
    async with jumping(saga(calls, workflow("pack", step("ship", retries=policy))), clock) as hosted:
        run = await hosted.settled(await hosted.start())
        assert (run.status, len(calls.of("ship"))) == (status, 3)
        assert calls.of("undo_pack") == [] or status is WorkflowStatus.COMPENSATED
        if status is WorkflowStatus.SUSPENDED:
            assert (await hosted.incident(run.run_id)).kind is IncidentKind.EXHAUSTED
            await hosted.resolve(run.run_id, Action.RETRY)
            await calls.until("ship", 6)
            await hosted.until_kind(run.run_id, "incident_opened", 2)
            assert [made.attempt for made in calls.of("ship")] == [1, 2, 3, 4, 5, 6]


async def test_undo_has_a_policy_and_a_counter_of_its_own() -> None:
    """Semantics §5"""
    clock = FakeClock()
    undo = RetryPolicy(max_attempts=4, backoff_ms=100, backoff_multiplier=3.0)
    again = WorkflowError("busy", retryable=True)
    calls = Calls(clock=clock, ship=[StepOutcome.Fail("no", True)], undo_pack=[again, TimeoutError(), again])
    definition = workflow(step("pack", retries=RetryPolicy.none(), compensation_retries=undo), "ship")
    async with jumping(saga(calls, definition), clock) as hosted:
        run = await hosted.settled(await hosted.start())
        assert run.status is WorkflowStatus.COMPENSATED
        assert waits(calls)[2:] == [100, 300, 900]
        assert {made.idempotency_key for made in calls.of("undo_pack")} == {f"{run.run_id}:pack:compensate"}


async def test_the_count_of_attempts_and_the_time_of_the_next_survive_a_crash(tmp_path: Path) -> None:
    """P19, P20: the host dies in the wait; another one calls at the very millisecond, with the next number."""
    clock = FakeClock()
    calls = Calls(clock=clock, pack=[RETRY] * 4)
    definition = workflow(step("pack", retries=SPEC))
    path = tmp_path / "bext.db"
    run_id = ""
    for attempt in range(1, 5):
        async with jumping(saga(calls, definition), clock, path) as hosted:
            if attempt == 1:
                run_id = await hosted.start()
            await hosted.until_kind(run_id, "attempt_failed", attempt)
            hosted.dies()
    async with jumping(saga(calls, definition), clock, path) as hosted:
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED
    assert [made.attempt for made in calls.runs] == [1, 2, 3, 4, 5]
    assert waits(calls) == [200, 400, 800, 1600]
    assert len({made.idempotency_key for made in calls.runs}) == 1


async def test_a_due_time_that_passed_while_no_host_was_there_means_now(tmp_path: Path) -> None:
    """P21: late, and never lost."""
    clock = FakeClock()
    calls = Calls(clock=clock, pack=[StepOutcome.Retry(after_ms=HOUR_MS)])
    definition = workflow(step("pack", retries=SPEC))
    async with jumping(saga(calls, definition), clock, tmp_path / "bext.db") as hosted:
        run_id = await hosted.start()
        await hosted.until_kind(run_id, "attempt_failed")
        hosted.dies()
    clock.advance(3 * HOUR_MS)
    async with jumping(saga(calls, definition), clock, tmp_path / "bext.db") as hosted:
        back_at = clock.now()
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED
        assert back_at <= calls.at[1] <= back_at + PATIENT.poll_ms


async def test_a_long_wait_is_a_row_and_a_short_one_keeps_its_driver() -> None:
    """Semantics §8: a parked run has no memory and no owner."""
    for after_ms, kept in ((500, True), (KEEP_MS, True), (KEEP_MS + 1, False), (3_000, False)):
        clock = FakeClock()
        calls = Calls(clock=clock, pack=[StepOutcome.Retry(after_ms=after_ms)])
        async with hosting(saga(calls, workflow(step("pack", retries=SPEC))), clock=clock) as hosted:
            run_id = await hosted.start()
            await hosted.until_kind(run_id, "attempt_failed")
            await hosted.quiet()
            (row,) = await hosted.store.find(run_id)
            assert (row.owner is not None) is kept
            assert (hosted.host._dispatcher.active == 1) is kept
            assert kept or row.wake_at == START + after_ms
            clock.advance(after_ms - 1)
            await hosted.quiet()
            assert len(calls.runs) == 1
            clock.advance(1)
            await calls.until("pack", 2)
            assert calls.at == [START, START + after_ms]
            assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS])
async def test_a_jump_of_the_wall_clock_fires_a_parked_wait_by_the_wall_and_once(jump_ms: int) -> None:
    """P22: a due time is an instant of the store's clock: it comes an hour sooner, or later, never twice or early."""
    clock = FakeClock()
    calls = Calls(clock=clock, pack=[StepOutcome.Retry(after_ms=2 * HOUR_MS)])
    async with jumping(saga(calls, workflow(step("pack", retries=SPEC))), clock) as hosted:
        run_id = await hosted.start()
        await hosted.until_kind(run_id, "attempt_failed")
        clock.jump_wall(jump_ms)
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED
        assert len(calls.runs) == 2
        due = START + 2 * HOUR_MS
        assert due <= calls.at[1] <= due + PATIENT.poll_ms
        assert clock.monotonic() * 1000 == pytest.approx(2 * HOUR_MS - jump_ms, abs=PATIENT.poll_ms)


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS])
async def test_a_jump_of_the_wall_clock_moves_no_attempt_s_time_out(jump_ms: int) -> None:
    """P22: waits inside the process are monotonic."""
    clock = FakeClock()

    async def hangs(_: object) -> object:
        await clock.sleep(10 * HOUR_MS)
        return None

    calls = Calls(clock=clock, pack=[hangs])
    async with hosting(saga(calls, workflow(step("pack", timeout_ms=5_000, retries=SPEC))), clock=clock) as hosted:
        run_id = await hosted.start()
        await calls.until("pack")
        clock.jump_wall(jump_ms)
        clock.advance(4_999)
        await hosted.quiet()
        assert await hosted.kinds(run_id) == ["run_created"]
        clock.advance(1)
        await hosted.until_kind(run_id, "attempt_failed")


async def test_a_jump_back_while_a_driver_rests_neither_spins_nor_loses_the_wait() -> None:
    """P22: the run becomes a row that is due when the store's clock says so."""
    clock = FakeClock()
    calls = Calls(clock=clock, pack=[StepOutcome.Retry(after_ms=500)])
    async with jumping(saga(calls, workflow(step("pack", retries=SPEC))), clock) as hosted:
        run_id = await hosted.start()
        await hosted.until_kind(run_id, "attempt_failed")
        clock.jump_wall(-HOUR_MS)
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED
        assert calls.at[1] == START + 500


async def test_cancel_ends_a_retry_wait_at_once() -> None:
    """Semantics §5, both for a run that rests in memory and for one that is a row."""
    for after_ms in (KEEP_MS, HOUR_MS):
        clock = FakeClock()
        calls = Calls(clock=clock, ship=[StepOutcome.Retry(after_ms=after_ms)])
        async with hosting(saga(calls, workflow("pack", step("ship", retries=SPEC))), clock=clock) as hosted:
            run_id = await hosted.start()
            await hosted.until_kind(run_id, "attempt_failed")
            await hosted.cancel(run_id)
            await hosted.reaches(run_id, WorkflowStatus.COMPENSATED)
            assert calls.made == ["pack", "ship", "undo_pack"]
            assert clock.now() == START
