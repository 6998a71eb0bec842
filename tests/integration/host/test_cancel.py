"""Stopping a run from outside, at every moment of it (semantics §5; P18)."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path

import pytest

from bext_workflow.errors import Conflict, WorkflowError
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.policy import RetryPolicy
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import Action, IncidentKind, WorkflowStatus
from bext_workflow.ports import telemetry as names
from bext_workflow.ports.store import Append, Member
from bext_workflow.service.protocols import CancelRequest
from tests.integration.host.support import Calls, Desk, desk, hosting, saga, step, workflow
from tests.unit.host.support import within


class Gate:
    """A step that stands at a gate; `ends` is what it comes to once that opens."""

    def __init__(self, ends: object = None) -> None:
        self.open = asyncio.Event()
        self.ends = ends
        self.interrupted = False

    async def __call__(self, _: WorkflowRun) -> object:
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.interrupted = True
            raise
        if isinstance(self.ends, BaseException):
            raise self.ends
        return self.ends or StepOutcome.Continue({"worked": True})


async def test_a_plain_cancel_waits_for_the_attempt_and_undoes_what_it_did() -> None:
    """Semantics §5: a stop never interrupts; the result counts."""
    gate = Gate()
    calls = Calls(pay=[gate])
    async with hosting(saga(calls, workflow("pack", step("pay", idempotent=False), "ship"))) as hosted:
        run_id = await hosted.start()
        await calls.until("pay")
        assert (await hosted.cancel(run_id)).driven
        await hosted.passed_on(run_id)
        await hosted.quiet()
        assert (await hosted.status(run_id), gate.interrupted) == (WorkflowStatus.RUNNING, False)
        gate.open.set()
        run = await hosted.settled(run_id)
        assert run.status is WorkflowStatus.COMPENSATED
        assert calls.made == ["pack", "pay", "undo_pay", "undo_pack"]
        assert "cancelled by ann: ordered twice" in (run.failure or "")


@pytest.mark.parametrize(
    ("ends", "undone"),
    [
        (StepOutcome.Retry(), ["undo_pack"]),
        (StepOutcome.Fail("no", False), ["undo_pack"]),
        (WorkflowError("503", retryable=True), ["undo_pack"]),
        (KeyError("?"), ["undo_pack"]),
    ],
)
async def test_an_attempt_that_did_not_do_its_work_is_not_undone(ends: object, undone: list[str]) -> None:
    gate = Gate(ends)
    calls = Calls(ship=[gate])
    async with hosting(saga(calls, workflow("pack", "ship", "tell"))) as hosted:
        run_id = await hosted.start()
        await calls.until("ship")
        await hosted.cancel(run_id)
        gate.open.set()
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPENSATED
        assert calls.made == ["pack", "ship", *undone]


async def test_an_unknown_end_under_a_stop_is_in_doubt_if_it_may_not_be_repeated() -> None:
    """P4: the walk back waits for a person's word."""
    gate = Gate(KeyError("?"))
    calls = Calls(pay=[gate])
    async with hosting(saga(calls, workflow("pack", step("pay", idempotent=False)))) as hosted:
        run_id = await hosted.start()
        await calls.until("pay")
        await hosted.cancel(run_id)
        gate.open.set()
        assert (await hosted.settled(run_id)).status is WorkflowStatus.SUSPENDED
        assert (await hosted.incident(run_id)).kind is IncidentKind.IN_DOUBT
        await hosted.resolve(run_id, Action.DONE)
        await hosted.reaches(run_id, WorkflowStatus.COMPENSATED)
        assert calls.made == ["pack", "pay", "undo_pay", "undo_pack"]


async def test_cancel_now_interrupts_and_what_it_interrupts_is_unknown() -> None:
    gate = Gate()
    calls = Calls(pay=[gate])
    async with hosting(saga(calls, workflow("pack", step("pay", idempotent=False)))) as hosted:
        run_id = await hosted.start()
        await calls.until("pay")
        await hosted.cancel(run_id, now=True)
        assert (await hosted.settled(run_id)).status is WorkflowStatus.SUSPENDED
        assert gate.interrupted
        assert (await hosted.incident(run_id)).reason == "the attempt was interrupted by a person"
        await hosted.resolve(run_id, Action.NOT_DONE)
        await hosted.reaches(run_id, WorkflowStatus.COMPENSATED)
        assert calls.made == ["pack", "pay", "undo_pack"]


async def test_cancel_now_undoes_a_repeatable_step_itself_where_the_step_says_so() -> None:
    """Semantics §5: its attempt may have acted."""
    calls = Calls(ship=[Gate()])
    async with hosting(saga(calls, workflow("pack", step("ship", compensate_on_failure=True)))) as hosted:
        run_id = await hosted.start()
        await calls.until("ship")
        await hosted.cancel(run_id, now=True)
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPENSATED
        assert calls.made == ["pack", "ship", "undo_ship", "undo_pack"]


async def test_cancel_now_after_a_plain_cancel_interrupts_still() -> None:
    gate = Gate()
    calls = Calls(ship=[gate])
    async with hosting(saga(calls, workflow("pack", "ship"))) as hosted:
        run_id = await hosted.start()
        await calls.until("ship")
        await hosted.cancel(run_id)
        await hosted.passed_on(run_id)
        assert not gate.interrupted
        await hosted.cancel(run_id, now=True)
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPENSATED
        assert gate.interrupted


async def test_cancel_now_interrupts_no_undo_that_follows_from_it() -> None:
    """Semantics §5: undo ignores cancel. A look at the inbox from before the act was taken must not end the undo."""
    undo = Gate()
    calls = Calls(ship=[Gate()], undo_pack=[undo])
    async with hosting(saga(calls, workflow("pack", "ship"))) as hosted, within():
        run_id = await hosted.start()
        await calls.until("ship")
        (row,) = await hosted.store.find(run_id)
        driver = hosted.host._dispatcher._active[row.rid]
        await hosted.cancel(run_id, now=True)
        stale = (await hosted.store.load(row.rid)).inbox
        await calls.until("undo_pack")
        driver.poke(stale)
        await hosted.quiet()
        assert not undo.interrupted
        undo.ends = None
        undo.open.set()


async def test_no_compensate_leaves_in_place_what_was_done() -> None:
    gate = Gate()
    calls = Calls(ship=[gate])
    async with hosting(saga(calls, workflow("pack", "ship", "tell"))) as hosted:
        run_id = await hosted.start()
        await calls.until("ship")
        await hosted.cancel(run_id, compensate=False)
        gate.open.set()
        run = await hosted.settled(run_id)
        assert (run.status, run.left_in_place) == (WorkflowStatus.CANCELLED, ["pack", "ship"])
        assert calls.made == ["pack", "ship"]
        (event,) = hosted.telemetry.all(names.LEFT_IN_PLACE)
        assert (event["run_id"], event["steps"]) == (run_id, ["pack", "ship"])


async def test_a_run_that_has_not_begun_is_cancelled_without_a_step(tmp_path: Path) -> None:
    calls = Calls()
    served = saga(calls)
    async with desk(served, tmp_path / "bext.db") as alone:
        run_id = await alone.start()
        assert not (await alone.cancel(run_id)).driven
        assert await alone.status(run_id) is WorkflowStatus.PENDING
    async with hosting(served, tmp_path / "bext.db") as hosted:
        assert (await hosted.settled(run_id)).status is WorkflowStatus.CANCELLED
        assert calls.made == []


async def test_a_run_for_which_there_is_no_room_is_cancelled_all_the_same() -> None:
    gate = Gate()
    calls = Calls(pack=[gate])
    async with hosting(saga(calls), concurrency=1) as hosted:
        first = await hosted.start()
        await calls.until("pack")
        waiting = await hosted.start()
        assert await hosted.status(waiting) is WorkflowStatus.PENDING
        await hosted.cancel(waiting)
        gate.open.set()
        assert (await hosted.settled(first)).status is WorkflowStatus.COMPLETED
        assert (await hosted.settled(waiting)).status is WorkflowStatus.CANCELLED
        assert calls.made == ["pack", "ship"]


@pytest.mark.parametrize("status", [WorkflowStatus.COMPLETED, WorkflowStatus.COMPENSATED, WorkflowStatus.CANCELLED])
async def test_a_cancel_after_the_end_is_refused_with_that_end(status: WorkflowStatus) -> None:
    """P18: it says that it lost the race."""
    endings: dict[WorkflowStatus, object] = {WorkflowStatus.COMPENSATED: StepOutcome.Fail("no", True)}
    gate = Gate(endings.get(status))
    calls = Calls(ship=[gate])
    async with hosting(saga(calls)) as hosted:
        run_id = await hosted.start()
        if status is WorkflowStatus.CANCELLED:
            await hosted.cancel(run_id, compensate=False)
        gate.open.set()
        assert (await hosted.settled(run_id)).status is status
        with pytest.raises(Conflict, match=f"cancel is not possible while the run is {status}"):
            await hosted.cancel(run_id)
        assert (await hosted.get(run_id)).status is status


async def test_a_cancel_while_the_run_is_undone_is_refused() -> None:
    undo = Gate()
    calls = Calls(ship=[StepOutcome.Fail("no", True)], undo_pack=[undo])
    async with hosting(saga(calls)) as hosted:
        run_id = await hosted.start()
        await calls.until("undo_pack")
        for now in (False, True):
            with pytest.raises(Conflict, match="cancel is not possible while the run is COMPENSATING"):
                await hosted.cancel(run_id, now=now)
        assert not undo.interrupted


async def test_a_run_that_failed_and_left_things_in_place_can_still_be_undone() -> None:
    """P18: there the cancel is the way to the undo."""
    calls = Calls(ship=[StepOutcome.Fail("unknown address", False)])
    async with hosting(saga(calls)) as hosted:
        run = await hosted.settled(await hosted.start())
        assert (run.status, run.left_in_place) == (WorkflowStatus.FAILED, ["pack"])
        with pytest.raises(Conflict, match="nothing of it is left to undo"):
            await hosted.cancel(run.run_id, compensate=False)
        await hosted.cancel(run.run_id)
        undone = await hosted.reaches(run.run_id, WorkflowStatus.COMPENSATED)
        assert (undone.left_in_place, undone.failure) == ([], "unknown address")
        assert calls.made == ["pack", "ship", "undo_pack"]


async def test_the_same_cancel_twice_is_one_and_another_one_is_refused() -> None:
    gate = Gate()
    calls = Calls(ship=[gate])
    async with hosting(saga(calls)) as hosted:
        run_id = await hosted.start()
        await calls.until("ship")
        await hosted.cancel(run_id)
        await hosted.cancel(run_id)
        with pytest.raises(Conflict, match="already being stopped, with its undo"):
            await hosted.cancel(run_id, compensate=False)
        gate.open.set()
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPENSATED
        kinds = await hosted.kinds(run_id)
        assert (kinds.count("stop_requested"), kinds.count("act_ignored")) == (1, 1)


async def test_a_plan_says_what_a_cancel_would_do_and_does_nothing() -> None:
    gate = Gate()
    calls = Calls(tell=[gate])
    async with hosting(saga(calls, workflow("pack", "ship", "tell"))) as hosted:
        run_id = await hosted.start()
        await calls.until("tell")
        plan = await hosted.service.plan_cancel(run_id, CancelRequest())
        assert (plan.undo, plan.left_in_place) == (["ship", "pack"], [])
        plan = await hosted.service.plan_cancel(run_id, CancelRequest(compensate=False))
        assert (plan.undo, plan.left_in_place) == ([], ["pack", "ship"])
        gate.open.set()
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED
        with pytest.raises(Conflict):
            await hosted.service.plan_cancel(run_id, CancelRequest())


async def test_past_a_pivot_there_is_no_cancel() -> None:
    gate = Gate()
    calls = Calls(ship=[gate])
    async with hosting(saga(calls, workflow(step("pay", pivot=True), "ship"))) as hosted:
        run_id = await hosted.start()
        await calls.until("ship")
        with pytest.raises(Conflict, match="a pivot step has completed"):
            await hosted.cancel(run_id)
        gate.open.set()
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED


# P18: many interleavings of an accepted cancel and the end of the last step


@pytest.mark.parametrize("idempotent", [True, False])
async def test_an_accepted_cancel_never_ends_in_completed_wherever_it_falls(idempotent: bool) -> None:
    """P18: the cancel is put before each write of the run, and after it but before the driver hears of it.

    What was decided on an inbox that did not show the cancel is refused by the store as stale.
    """
    steps = [step(name, idempotent=idempotent) for name in "abc"]
    refused = 0
    for number, after in ((number, after) for number in count(2) for after in (False, True)):
        calls = Calls()
        async with hosting(saga(calls, workflow(*steps))) as hosted, within():
            attempt = Attempt(hosted, number, after)
            hosted.store.around = attempt
            run_id = await hosted.start()
            attempt.run_id.set_result(run_id)
            run = await hosted.reaches(
                run_id, WorkflowStatus.COMPLETED, WorkflowStatus.COMPENSATED, WorkflowStatus.CANCELLED
            )
            if attempt.accepted is None:
                break
            done = [call for call in calls.made if not call.startswith("undo_")]
            if attempt.accepted:
                assert run.status in (WorkflowStatus.CANCELLED, WorkflowStatus.COMPENSATED)
                assert calls.made == done + [f"undo_{call}" for call in reversed(done)]
            else:
                assert (run.status, done) == (WorkflowStatus.COMPLETED, ["a", "b", "c"])
                refused += 1
    assert number >= (5 if idempotent else 8)
    assert refused == 1, "only the cancel after the last commit loses the race"


class Attempt:
    """Cancels the run around its `number`-th write; `accepted` of None: there was no such write."""

    def __init__(self, desk: Desk, number: int, after: bool) -> None:
        self.run_id: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.accepted: bool | None = None
        self._desk = desk
        self._at = number, after

    async def __call__(self, number: int, after: bool) -> None:
        if (number, after) != self._at:
            return
        try:
            await self._desk.cancel(await self.run_id)
            self.accepted = True
        except Conflict:
            self.accepted = False


async def test_no_step_is_called_whose_intent_did_not_see_the_cancel() -> None:
    """P18, P4: nothing starts past an acknowledged cancel."""
    calls = Calls()
    async with hosting(saga(calls, workflow("pack", step("pay", idempotent=False)))) as hosted, within():
        hosted.store.close_gate()
        starting = asyncio.create_task(hosted.start())
        for _ in range(2):
            await hosted.store.reached()
            hosted.store.let_one_through()
        await hosted.store.reached()
        run_id = await starting
        await hosted.cancel(run_id)
        hosted.store.open_gate()
        await hosted.reaches(run_id, WorkflowStatus.COMPENSATED)
        assert calls.made == ["pack", "undo_pack"]
        assert "attempt_started" not in await hosted.kinds(run_id)


async def test_stale_is_what_an_append_gets_that_has_not_seen_the_cancel() -> None:
    """P18, seen at the store: the last step's checkpoint, which would end the run, does not go through."""
    calls = Calls()
    async with hosting(saga(calls, workflow("pack"))) as hosted, within():
        hosted.store.close_gate()
        starting = asyncio.create_task(hosted.start())
        await hosted.store.reached()
        hosted.store.let_one_through()
        run_id = await starting
        await hosted.store.reached()
        await hosted.cancel(run_id)
        hosted.store.open_gate()
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPENSATED
        assert _kinds(hosted.store.written[1]) == ["step_completed", "run_completed"]
        assert await hosted.kinds(run_id) == [
            "run_created",
            "stop_requested",
            "step_completed",
            "compensation_started",
            "step_compensated",
            "run_compensated",
        ]


def _kinds(member: Member) -> list[str]:
    assert isinstance(member, Append)
    return [kind for kind, _ in member.events]


async def test_cancel_ends_a_rest_between_attempts_at_once() -> None:
    calls = Calls(ship=[StepOutcome.Retry(after_ms=900)])
    definition = workflow("pack", step("ship", retries=RetryPolicy(max_attempts=9)))
    async with hosting(saga(calls, definition)) as hosted:
        run_id = await hosted.start()
        await hosted.until_kind(run_id, "attempt_failed")
        await hosted.cancel(run_id)
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPENSATED
        assert calls.made == ["pack", "ship", "undo_pack"]
