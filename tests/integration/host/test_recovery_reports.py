"""What the host says of a run that it has taken over from a dead one is what the journal says."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.ports import telemetry as names
from tests.integration.host.support import Calls, hosting, saga, step, workflow


async def hangs(_: WorkflowRun) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_recovery_is_counted_whether_or_not_it_opens_an_incident(tmp_path: Path, idempotent: bool) -> None:
    """The incident sets the count of recoveries without progress back, in the same commit."""
    calls, path = Calls(pack=[hangs]), tmp_path / "bext.db"
    served = saga(calls, workflow(step("pack", idempotent=idempotent)))
    async with hosting(served, path) as first:
        run_id = await first.start()
        await calls.until("pack")
        first.dies()

    async with hosting(served, path) as second:
        told = await second.telemetry.heard(names.RUN_RECOVERED)
        view = await second.settled(run_id)

    assert told == {"run_id": run_id, "workflow": "order", "recoveries": 1}
    assert view.status is (WorkflowStatus.COMPLETED if idempotent else WorkflowStatus.SUSPENDED)
