"""Nothing is acknowledged before its commit, and a commit counts though its answer was lost (P2, P6)."""

from __future__ import annotations

import asyncio

import pytest

from bext_workflow.errors import StoreUnavailable
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.ports import telemetry as names
from bext_workflow.service.protocols import RunQuery
from tests.integration.host.support import (
    Calls,
    hosting,
    saga,
    step,
    workflow,
)
from tests.unit.host.support import within

ALL = RunQuery()


async def test_a_start_is_answered_once_its_checkpoint_is_durable() -> None:
    """P2"""
    calls = Calls()
    async with hosting(saga(calls)) as hosted, within():
        hosted.store.close_gate()
        starting = asyncio.create_task(hosted.start())
        await hosted.store.reached()
        await hosted.quiet()
        assert not starting.done()
        assert calls.made == []
        hosted.store.open_gate()
        assert (await hosted.settled(await starting)).status is WorkflowStatus.COMPLETED


async def test_no_step_starts_before_its_predecessor_s_checkpoint_is_durable() -> None:
    """P2, for each commit of a saga that rolls back."""
    calls = Calls(c=[StepOutcome.Fail("no", True)])
    order = ["a", "b", "c", "undo_b", "undo_a"]
    async with hosting(saga(calls, workflow("a", "b", "c"))) as hosted, within():
        hosted.store.close_gate()
        starting = asyncio.create_task(hosted.start())
        for done in range(len(order) + 1):
            await hosted.store.reached()
            await hosted.quiet()
            assert calls.made == order[:done]
            hosted.store.let_one_through()
        hosted.store.open_gate()
        assert (await hosted.settled(await starting)).status is WorkflowStatus.COMPENSATED


async def test_the_intent_of_a_step_that_may_not_be_repeated_is_durable_before_its_call() -> None:
    """P4, P2"""
    calls = Calls()
    async with hosting(saga(calls, workflow(step("pay", idempotent=False)))) as hosted, within():
        hosted.store.close_gate()
        starting = asyncio.create_task(hosted.start())
        await hosted.store.reached()
        hosted.store.let_one_through()
        await hosted.store.reached()
        await hosted.quiet()
        assert calls.made == []
        hosted.store.let_one_through()
        await calls.until("pay")
        hosted.store.open_gate()
        await hosted.settled(await starting)


async def test_nobody_is_told_of_an_end_before_it_is_durable() -> None:
    """P2, P17: neither a caller that waits nor the completion hook."""
    calls = Calls()
    async with hosting(saga(calls, workflow("pack"), notifies=True)) as hosted, within():
        hosted.store.close_gate()
        starting = asyncio.create_task(hosted.start())
        await hosted.store.reached()
        hosted.store.let_one_through()
        waiting = asyncio.create_task(hosted.settled(await starting))
        await hosted.store.reached()
        await hosted.quiet()
        assert (waiting.done(), calls.made) == (False, ["pack"])
        hosted.store.open_gate()
        assert (await waiting).status is WorkflowStatus.COMPLETED
        await calls.until("complete")


# P6: done, but nobody was told


async def test_a_commit_whose_answer_was_lost_neither_loses_nor_repeats_a_step() -> None:
    """P6, at each commit of a saga that rolls back and tells of its end."""
    commits = len(["create", "a", "b", "c fails", "undo_b", "undo_a", "told"])
    for lost in range(1, commits):
        calls = Calls(c=[StepOutcome.Fail("no", True)])
        async with hosting(saga(calls, workflow("a", "b", "c"), notifies=True)) as hosted, within():
            hosted.store.close_gate()
            starting = asyncio.create_task(hosted.start())
            for _ in range(lost):
                await hosted.store.reached()
                hosted.store.let_one_through()
            await hosted.store.reached()
            hosted.store.fail_writes(1, after_commit=True)
            hosted.store.open_gate()
            run_id = await starting
            await hosted.until_kind(run_id, "completion_settled")
            assert (await hosted.get(run_id)).status is WorkflowStatus.COMPENSATED
            assert calls.made == ["a", "b", "c", "undo_b", "undo_a", "complete"]
            kinds = await hosted.kinds(run_id)
            assert len(kinds) == len(set(kinds)) + len(["step_completed", "step_compensated"])


async def test_a_start_whose_answer_was_lost_is_driven_all_the_same() -> None:
    """P6: whoever asked was told to come back; the run is there, and must not be one that nobody drives."""
    calls = Calls()
    async with hosting(saga(calls)) as hosted:
        hosted.store.fail_writes(1, after_commit=True)
        with pytest.raises(StoreUnavailable):
            await hosted.start(key="order-1")
        await hosted.telemetry.heard(names.STORE_BACK)
        run_id = await hosted.start(key="order-1")
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED
        assert calls.made == ["pack", "ship"]
        assert len((await hosted.service.list(ALL)).items) == 1


async def test_a_start_whose_caller_goes_away_is_driven_all_the_same() -> None:
    """The run is durable: it has an owner, so it needs a driver."""
    calls = Calls()
    async with hosting(saga(calls)) as hosted, within():
        hosted.store.close_gate()
        starting = asyncio.create_task(hosted.start())
        await hosted.store.reached()
        starting.cancel()
        hosted.store.open_gate()
        await calls.until("ship")
        (run,) = (await hosted.service.list(ALL)).items
        assert (await hosted.settled(run.run_id)).status is WorkflowStatus.COMPLETED
