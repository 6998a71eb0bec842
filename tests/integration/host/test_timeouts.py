"""Calls that take too long: in the loop, in threads, of every hook (semantics §2, §6; P44)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from bext_workflow.host.invoke import COMPLETION_TIMEOUT_MS
from bext_workflow.model.outcome import NotDone, StepOutcome
from bext_workflow.model.policy import RetryPolicy
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import Action, Call, IncidentKind, WorkflowStatus
from bext_workflow.ports import telemetry as names
from bext_workflow.testing.clock import FakeClock
from tests.integration.host.support import SETTINGS, Calls, Hosted, hosting, plugin, registry, saga, step, workflow
from tests.unit.host.support import DEADLINE_S, within

LIMIT_MS = 5_000
TWICE = RetryPolicy(max_attempts=2, backoff_ms=0)
ONCE = RetryPolicy.none()


async def hangs(run: WorkflowRun) -> object:
    await asyncio.Event().wait()
    return StepOutcome.Continue({"too": "late"})


class Stuck:
    """A plain hook that hangs in its thread until it is let go; the calls after the first return at once."""

    def __init__(self, result: object = None) -> None:
        self.result = result
        self.began = threading.Event()
        self.let_go = threading.Event()
        self.calls: list[str] = []
        self.running = 0
        self.most_at_once = 0

    def hang(self, call: str) -> object:
        self.calls.append(call)
        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        try:
            if len(self.calls) == 1:
                self.began.set()
                assert self.let_go.wait(DEADLINE_S)
        finally:
            self.running -= 1
        return self.result

    def run_step(self, run: WorkflowRun, step_name: str) -> object:
        return self.hang(f"{step_name} {run.attempt}")

    def undo(self, run: WorkflowRun, step_name: str) -> object:
        return self.hang(f"undo {step_name} {run.attempt}")

    def undo_well(self, run: WorkflowRun, step_name: str) -> None:
        self.undo(run, step_name)

    def complete(self, run: WorkflowRun) -> object:
        return self.hang(f"complete {run.attempt}")

    async def begun(self) -> None:
        assert await asyncio.to_thread(self.began.wait, DEADLINE_S)


@contextmanager
def stuck(result: object = None) -> Iterator[Stuck]:
    """At the end the thread is let go, whatever the test has come to."""
    one = Stuck(result)
    try:
        yield one
    finally:
        one.let_go.set()


async def given_up(hosted: Hosted, one: Stuck, clock: FakeClock, ms: int = LIMIT_MS) -> None:
    """The call's time passes; the host counts its thread as leaked."""
    await one.begun()
    clock.advance(ms)
    await hosted.telemetry.heard(names.THREAD_LEAKED)


# In the loop


async def test_a_hung_attempt_is_retried_by_the_policy() -> None:
    clock = FakeClock()
    calls = Calls(pack=[hangs, hangs])
    served = saga(calls, workflow(step("pack", timeout_ms=LIMIT_MS, retries=TWICE)))
    async with hosting(served, clock=clock) as hosted:
        run_id = await hosted.start()
        await calls.until("pack")
        clock.advance(LIMIT_MS)
        await calls.until("pack", 2)
        clock.advance(LIMIT_MS)
        run = await hosted.settled(run_id)
        assert run.status is WorkflowStatus.COMPENSATED
        assert "the attempt took longer than timeout_ms = 5000" in (run.failure or "")
        assert run.context == {}


async def test_a_hung_attempt_that_may_not_be_repeated_is_in_doubt() -> None:
    clock = FakeClock()
    calls = Calls(pay=[hangs])
    async with hosting(
        saga(calls, workflow(step("pay", timeout_ms=LIMIT_MS, idempotent=False, retries=TWICE))), clock=clock
    ) as hosted:
        run_id = await hosted.start()
        await calls.until("pay")
        clock.advance(LIMIT_MS)
        assert (await hosted.settled(run_id)).status is WorkflowStatus.SUSPENDED
        incident = await hosted.incident(run_id)
        assert (incident.kind, incident.reason) == (
            IncidentKind.IN_DOUBT,
            "the attempt took longer than timeout_ms = 5000",
        )
        assert calls.made == ["pay"]


async def test_a_hung_undo_has_the_step_s_time_and_is_tried_again() -> None:
    clock = FakeClock()
    calls = Calls(ship=[StepOutcome.Fail("no", True)], undo_pack=[hangs])
    served = saga(calls, workflow(step("pack", timeout_ms=LIMIT_MS, compensation_retries=TWICE), "ship"))
    async with hosting(served, clock=clock) as hosted:
        run_id = await hosted.start()
        await calls.until("undo_pack")
        clock.advance(LIMIT_MS)
        run = await hosted.settled(run_id)
        assert (run.status, [one.attempt for one in calls.of("undo_pack")]) == (WorkflowStatus.COMPENSATED, [1, 2])


async def test_a_hung_verify_step_is_unknown() -> None:
    clock = FakeClock()
    calls = Calls(pay=[KeyError("?")], verify_pay=[hangs])
    served = saga(calls, workflow(step("pay", timeout_ms=LIMIT_MS, idempotent=False)), verifies=True)
    async with hosting(served, clock=clock) as hosted:
        run_id = await hosted.start()
        await calls.until("verify_pay")
        clock.advance(LIMIT_MS)
        assert (await hosted.settled(run_id)).status is WorkflowStatus.SUSPENDED
        assert (await hosted.incident(run_id)).kind is IncidentKind.IN_DOUBT


async def test_a_hung_completion_hook_has_a_minute_and_changes_nothing_of_the_run() -> None:
    """P17"""
    clock = FakeClock()
    calls = Calls(complete=[hangs])
    async with hosting(saga(calls, workflow("pack"), notifies=True), clock=clock) as hosted:
        run_id = await hosted.start()
        await calls.until("complete")
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED
        clock.advance(COMPLETION_TIMEOUT_MS - 1)
        await hosted.quiet()
        assert "attempt_failed" not in await hosted.kinds(run_id)
        clock.advance(1)
        await hosted.until_kind(run_id, "attempt_failed")
        clock.advance(1_000)
        await hosted.until_kind(run_id, "completion_settled")
        assert (await hosted.get(run_id)).status is WorkflowStatus.COMPLETED


# In threads


async def test_no_second_attempt_of_a_visit_while_the_first_is_known_to_run() -> None:
    """P44: the thread is counted; the retry waits for it, however long that takes."""
    clock = FakeClock()
    with stuck(StepOutcome.Continue()) as one:
        served = registry(plugin(one.run_step, workflow(step("pack", timeout_ms=LIMIT_MS, retries=TWICE))))
        async with hosting(served, clock=clock) as hosted:
            run_id = await hosted.start()
            await given_up(hosted, one, clock)
            await hosted.until_kind(run_id, "attempt_failed")
            assert (hosted.host.leaked_threads, hosted.telemetry.value(names.THREADS_LEAKED)) == (1, 1)
            clock.advance(3_600_000)
            await hosted.quiet()
            assert one.calls == ["pack 1"]
            one.let_go.set()
            assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED
            assert (one.calls, one.most_at_once) == (["pack 1", "pack 2"], 1)
            assert (hosted.host.leaked_threads, hosted.telemetry.value(names.THREADS_LEAKED)) == (0, 0)
            assert len(hosted.telemetry.all(names.THREAD_LEAKED)) == 1


async def test_no_undo_of_a_visit_while_its_attempt_is_known_to_run() -> None:
    clock = FakeClock()
    with stuck(StepOutcome.Continue()) as one:
        definition = workflow(step("pack", timeout_ms=LIMIT_MS, retries=ONCE, compensate_on_failure=True))
        served = registry(plugin(one.run_step, definition, compensate_step=one.undo_well))
        async with hosting(served, clock=clock) as hosted:
            run_id = await hosted.start()
            await given_up(hosted, one, clock)
            await hosted.until_kind(run_id, "compensation_started")
            await hosted.quiet()
            assert one.calls == ["pack 1"]
            one.let_go.set()
            assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPENSATED
            assert (one.calls, one.most_at_once) == (["pack 1", "undo pack 1"], 1)


async def test_a_hung_undo_in_a_thread_is_not_called_a_second_time_beside_it() -> None:
    clock = FakeClock()
    with stuck() as one:
        calls = Calls(ship=[StepOutcome.Fail("no", True)])
        definition = workflow(step("pack", timeout_ms=LIMIT_MS, compensation_retries=TWICE), "ship")
        served = registry(plugin(calls.run_step, definition, compensate_step=one.undo))
        async with hosting(served, clock=clock) as hosted:
            run_id = await hosted.start()
            await given_up(hosted, one, clock)
            await hosted.until_kind(run_id, "attempt_failed")
            clock.advance(60_000)
            await hosted.quiet()
            assert one.calls == ["undo pack 1"]
            one.let_go.set()
            assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPENSATED
            assert (one.calls, one.most_at_once) == (["undo pack 1", "undo pack 2"], 1)


async def test_a_hung_completion_hook_in_a_thread_is_not_called_a_second_time_beside_it() -> None:
    clock = FakeClock()
    with stuck() as one:
        calls = Calls()
        served = registry(plugin(calls.run_step, workflow("pack"), on_workflow_complete=one.complete))
        async with hosting(served, clock=clock) as hosted:
            run_id = await hosted.start()
            await given_up(hosted, one, clock, COMPLETION_TIMEOUT_MS)
            await hosted.until_kind(run_id, "attempt_failed")
            clock.advance(60_000)
            await hosted.quiet()
            assert one.calls == ["complete 1"]
            one.let_go.set()
            await hosted.until_kind(run_id, "completion_settled")
            assert (one.calls, one.most_at_once) == (["complete 1", "complete 2"], 1)
            assert (hosted.host.leaked_threads, hosted.telemetry.value(names.THREADS_LEAKED)) == (0, 0)


async def test_a_late_result_becomes_evidence_on_the_incident_that_waits() -> None:
    """Semantics §6: the person who decides sees what the attempt came to after all."""
    clock = FakeClock()
    with stuck(StepOutcome.Continue({"charge": "ch-1"})) as one:
        served = registry(plugin(one.run_step, workflow(step("pay", timeout_ms=LIMIT_MS, idempotent=False))))
        async with hosting(served, clock=clock) as hosted:
            run_id = await hosted.start()
            await given_up(hosted, one, clock)
            assert (await hosted.settled(run_id)).status is WorkflowStatus.SUSPENDED
            assert (await hosted.incident(run_id)).evidence is None
            one.let_go.set()
            await hosted.until_kind(run_id, "evidence_attached")
            incident = await hosted.incident(run_id)
            assert incident.evidence["late"] is True
            assert "ch-1" in incident.evidence["returned"]
            assert hosted.telemetry.all(names.LATE_RESULT) == [{"run_id": run_id, "step": "pay", "attempt": 1}]
            assert (await hosted.get(run_id)).status is WorkflowStatus.SUSPENDED
            await hosted.resolve(run_id, Action.DONE, updates={"charge": "ch-1"})
            run = await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
            assert (run.context, one.calls) == ({"charge": "ch-1"}, ["pay 1"])


async def test_what_an_attempt_raises_too_late_is_evidence_too() -> None:
    clock = FakeClock()
    with stuck() as one:

        def raises(run: WorkflowRun, step_name: str) -> object:
            one.run_step(run, step_name)
            raise KeyError("order")

        served = registry(plugin(raises, workflow(step("pay", timeout_ms=LIMIT_MS, idempotent=False))))
        async with hosting(served, clock=clock) as hosted:
            run_id = await hosted.start()
            await given_up(hosted, one, clock)
            one.let_go.set()
            await hosted.until_kind(run_id, "evidence_attached")
            assert (await hosted.incident(run_id)).evidence == {"late": True, "raised": "KeyError('order')"}


async def test_a_late_result_that_nobody_waits_for_is_noted_and_does_nothing() -> None:
    clock = FakeClock()
    with stuck(StepOutcome.Continue({"too": "late"})) as one:
        served = registry(plugin(one.run_step, workflow(step("pack", timeout_ms=LIMIT_MS, retries=ONCE))))
        async with hosting(served, clock=clock) as hosted:
            run_id = await hosted.start()
            await given_up(hosted, one, clock)
            run = await hosted.settled(run_id)
            one.let_go.set()
            await hosted.until_kind(run_id, "act_ignored")
            after = await hosted.get(run_id)
            assert (after.status, after.context) == (run.status, {})


async def test_too_many_leaked_threads_and_the_host_drains_itself() -> None:
    """P44: it serves nobody any more, and a fresh process has all its threads again."""
    clock = FakeClock()
    with stuck() as one, stuck() as other:
        served = registry(
            plugin(one.run_step, workflow(step("pack", timeout_ms=LIMIT_MS), id_="one"), name="one"),
            plugin(other.run_step, workflow(step("pack", timeout_ms=LIMIT_MS), id_="other"), name="other"),
        )
        settings = replace(SETTINGS, leaked_threads=2)
        async with hosting(served, clock=clock, settings=settings) as hosted:
            await hosted.start("one")
            await given_up(hosted, one, clock)
            assert not hosted.host.drained.is_set()
            await hosted.start("other")
            await other.begun()
            clock.advance(LIMIT_MS)
            async with within():
                await hosted.host.wound_down()
            assert len(hosted.telemetry.all(names.HOST_DRAINING)) == 1
            assert "the host is draining" in hosted.host.readiness().reasons


async def test_a_thread_that_ends_after_its_host_starts_nothing() -> None:
    clock = FakeClock()
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    with stuck(StepOutcome.Continue()) as one:
        served = registry(plugin(one.run_step, workflow(step("pack", timeout_ms=LIMIT_MS, retries=TWICE))))
        async with hosting(served, clock=clock) as hosted:
            await hosted.start()
            await given_up(hosted, one, clock)
            telemetry = hosted.telemetry
        one.let_go.set()
        await telemetry.heard(names.LATE_RESULT)
        for _ in range(50):
            await asyncio.sleep(0)
        assert (one.calls, complaints) == (["pack 1"], [])


# Waiting for a thread


async def test_waiting_for_a_thread_is_no_part_of_an_attempt() -> None:
    """Neither of its time nor of its intent: a crash meanwhile puts nothing in doubt that was never called."""
    clock = FakeClock()
    with stuck(StepOutcome.Continue()) as one:
        definition = workflow(step("pay", timeout_ms=LIMIT_MS, idempotent=False))
        settings = replace(SETTINGS, threads=1)
        async with hosting(registry(plugin(one.run_step, definition)), clock=clock, settings=settings) as hosted:
            first = await hosted.start()
            await one.begun()
            waiting = await hosted.start()
            clock.advance(LIMIT_MS - 1)
            await hosted.quiet()
            assert await hosted.kinds(first) == ["run_created", "attempt_started"]
            assert await hosted.kinds(waiting) == ["run_created"]
            one.let_go.set()
            assert (await hosted.settled(waiting)).status is WorkflowStatus.COMPLETED


async def test_a_run_that_is_cancelled_while_it_waits_for_a_thread_is_never_called() -> None:
    """P18: the cancel was acknowledged before the step could start."""
    with stuck(StepOutcome.Continue()) as one:
        settings = replace(SETTINGS, threads=1)
        async with hosting(registry(plugin(one.run_step, workflow("pay"))), settings=settings) as hosted:
            first = await hosted.start()
            await one.begun()
            waiting = await hosted.start()
            await hosted.cancel(waiting)
            await hosted.passed_on(waiting)
            one.let_go.set()
            assert (await hosted.settled(waiting)).status is WorkflowStatus.CANCELLED
            assert (await hosted.settled(first)).status is WorkflowStatus.COMPLETED
            assert one.calls == ["pay 1"]


async def test_a_verdict_counts_like_an_outcome_towards_the_size_of_the_context() -> None:
    """P46: `verify_step` cannot bring in what `run_step` may not."""
    calls = Calls(pay=[KeyError("?")], verify_pay=[StepOutcome.Continue({"page": "x" * 60_000})])
    served = saga(calls, workflow(step("pay", idempotent=False)), verifies=True)
    async with hosting(served) as hosted:
        run = await hosted.settled(await hosted.start(page_before="x" * 60_000))
        assert run.status is WorkflowStatus.SUSPENDED
        assert (await hosted.incident(run.run_id)).call is Call.STEP


async def test_not_done_after_a_time_out_counts_as_a_retry() -> None:
    clock = FakeClock()
    calls = Calls(pay=[hangs], verify_pay=[NotDone()])
    definition = workflow(step("pay", timeout_ms=LIMIT_MS, idempotent=False, retries=TWICE))
    async with hosting(saga(calls, definition, verifies=True), clock=clock) as hosted:
        run_id = await hosted.start()
        await calls.until("pay")
        clock.advance(LIMIT_MS)
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED
        assert [run.attempt for run in calls.of("pay")] == [1, 2]
