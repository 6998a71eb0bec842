"""What is old goes by itself, and what a person may still need stays (semantics §2, §6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bext_workflow.errors import Gone, NotFound
from bext_workflow.model.json import loads
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.status import Action, WorkflowStatus
from bext_workflow.model.view import RunView
from bext_workflow.ports import telemetry as names
from bext_workflow.ports.retention import DAY_MS, RetentionDays
from bext_workflow.service.protocols import RunQuery
from bext_workflow.service.retention import prune_store
from bext_workflow.testing.clock import FakeClock
from tests.integration.host.support import (
    Calls,
    Desk,
    Hosted,
    hosting,
    jumping,
    opened,
    saga,
    step,
    workflow,
)

DAYS = RetentionDays()
FAIL = StepOutcome.Fail("no", compensate=False)


async def left(desk: Desk) -> set[str]:
    return {run.run_id for run in (await desk.service.list(RunQuery())).items}


async def test_a_host_removes_what_is_older_than_its_days(tmp_path: Path) -> None:
    clock, path = FakeClock(), tmp_path / "bext.db"
    served = saga(Calls(pack=[StepOutcome.Continue(), FAIL]))
    async with jumping(served, clock, path) as hosted:
        done = await hosted.start(key="order-7")
        await hosted.settled(done)
        failed = await hosted.start()
        assert (await hosted.settled(failed)).status is WorkflowStatus.FAILED

    clock.advance(31 * DAY_MS)
    async with jumping(served, clock, path) as hosted:
        assert await hosted.telemetry.heard(names.RUNS_REMOVED) == {"runs": 1, "start_keys": 0}
        assert await left(hosted) == {failed}
        with pytest.raises(NotFound):
            await hosted.get(done)
        with pytest.raises(Gone, match="order-7"):
            await hosted.start(key="order-7")
        assert hosted.telemetry.value(names.REMOVED, status="COMPLETED") == 1

    clock.advance(401 * DAY_MS)
    async with jumping(served, clock, path) as hosted:
        await hosted.telemetry.heard(names.RUNS_REMOVED)
        again = await hosted.start(key="order-7")
        assert again != done
        assert (await hosted.settled(again)).status is WorkflowStatus.COMPLETED


async def test_a_run_is_kept_for_its_completion_call_and_for_its_incident(tmp_path: Path) -> None:
    """Semantics §2: never one whose call is pending; nor one that a person has to decide."""
    clock, path = FakeClock(), tmp_path / "bext.db"
    calls = Calls(complete=[ValueError("away")] * 3)
    served = saga(calls, notifies=True)
    async with hosting(served, path, clock=clock) as hosted:
        run_id = await hosted.start()
        await calls.until("complete")
        await hosted.settled(run_id)

    clock.advance(100 * DAY_MS)  # the retry of the call is long due, and no host is there to make it
    async with opened(path) as store:
        assert not await prune_store(store, DAYS, clock, by="ann", dry_run=False)

    async with jumping(served, clock, path) as hosted:
        await hosted.until_kind(run_id, "incident_opened")
        clock.advance(100 * DAY_MS)
        assert not await prune_store(hosted.store, DAYS, clock, by="ann", dry_run=True)
        await hosted.resolve(run_id, Action.CLOSE)
        await hosted.until_kind(run_id, "incident_resolved")

    async with opened(path) as store:
        gone = await prune_store(store, DAYS, clock, by="ann", dry_run=False)
        assert gone.runs[WorkflowStatus.COMPLETED] == 1
        (entry,) = [row for row in await store.audit(limit=10) if row.name == "store.prune"]
        assert (entry.by, loads(entry.data)["ended_before"]["FAILED"]) == ("ann", clock.now() - 90 * DAY_MS)


async def test_children_stay_as_long_as_the_run_that_they_belong_to(tmp_path: Path) -> None:
    """A child that ended long ago may still have to be undone."""
    clock, path = FakeClock(), tmp_path / "bext.db"
    nested = (
        workflow(step("ship", workflow="shipping"), "thank"),
        workflow(step("pick", workflow="picking"), id_="shipping"),
        workflow("take", id_="picking"),
    )
    calls = Calls(thank=[StepOutcome.Wait(signal="paid"), StepOutcome.Continue()])
    served = saga(calls, *nested)
    async with jumping(served, clock, path) as hosted:
        top = await hosted.start()
        await hosted.reaches(top, WorkflowStatus.WAITING)
        family = await left(hosted)
        assert len(family) == 3
        await hosted.store.until(lambda: _still(hosted))

    clock.advance(31 * DAY_MS)
    async with jumping(served, clock, path) as hosted:
        assert not await prune_store(hosted.store, DAYS, clock, by="ann", dry_run=False)
        await hosted.cancel(top)
        ended: RunView = await hosted.settled(top)
        assert ended.status is WorkflowStatus.COMPENSATED
        assert calls.made[-1] == "undo_take"
        assert await left(hosted) == family

    clock.advance(91 * DAY_MS)
    async with opened(path) as store:
        gone = await prune_store(store, DAYS, clock, by="ann", dry_run=False)
        assert gone.runs[WorkflowStatus.COMPENSATED] == 3


async def _still(hosted: Hosted) -> bool:
    """Whether every run has been given back."""
    return not await hosted.store.owned(hosted.host.host_id)


async def test_days_of_zero_keep_for_good(tmp_path: Path) -> None:
    clock, path = FakeClock(), tmp_path / "bext.db"
    async with hosting(saga(Calls()), path, clock=clock) as hosted:
        await hosted.settled(await hosted.start())

    clock.advance(10_000 * DAY_MS)
    async with opened(path) as store:
        assert not await prune_store(store, RetentionDays(completed=0), clock, by="ann", dry_run=True)
