"""`why` over a real store: whether anybody drives the run is what the store says of its owner (semantics §10)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import WorkflowStatus
from tests.integration.host.support import Calls, desk, hosting, saga


class Blocked:
    """A step that goes on when the test says."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.calls = Calls(pack=[self._wait])

    async def _wait(self, _: WorkflowRun) -> object:
        await self.open.wait()
        return StepOutcome.Continue()


async def test_a_step_runs_only_if_a_live_host_holds_the_run(tmp_path: Path) -> None:
    path, blocked = tmp_path / "bext.db", Blocked()
    async with desk(saga(blocked.calls), path) as outside:
        run_id = await outside.start()
        before = (await outside.service.why(run_id)).text
        assert before.startswith("No host is there to drive it")
        assert "Step pack comes first." in before
        async with hosting(saga(blocked.calls), path) as hosted:
            await blocked.calls.until("pack")
            for asked in (outside, hosted):
                assert (await asked.service.why(run_id)).text.startswith("Step pack runs, or is about to, since")
            hosted.dies()
        after = (await outside.service.why(run_id)).text
        assert after.startswith("No host is there to drive it")
        assert "Step pack is due since" in after


async def test_a_command_that_drives_one_run_is_a_host_of_that_run(tmp_path: Path) -> None:
    """`runs start --wait`: it serves nobody else, so that no host is there for the others."""
    path, blocked = tmp_path / "bext.db", Blocked()
    async with desk(saga(blocked.calls), path) as outside:
        mine, other = await outside.start(), await outside.start()
        async with hosting(saga(blocked.calls), path, only=mine) as hosted:
            await blocked.calls.until("pack")
            assert (await outside.service.why(mine)).text.startswith("Step pack runs, or is about to, since")
            assert (await outside.service.why(other)).text.startswith("No host is there to drive it")
            blocked.open.set()
            await hosted.reaches(mine, WorkflowStatus.COMPLETED)
