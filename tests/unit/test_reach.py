"""How a command waits for the host at a URL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from bext_workflow.app.reach import Remote
from bext_workflow.client import HttpClient
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.model.view import RunView
from tests.unit.http_support import URL, MemoryService, app_over, run_view


class SlowService(MemoryService):
    """Its run stands still at the third time that somebody waits for it."""

    def __init__(self, ending: WorkflowStatus) -> None:
        super().__init__()
        self.add(run_view("r-1"))
        self.waits: list[int] = []
        self._ending = ending

    async def result(self, run_id: str, *, wait_ms: int = 0) -> RunView:
        self.waits.append(wait_ms)
        if len(self.waits) == 3:
            self.settle(run_id, self._ending)
        return await self.get(run_id)


@asynccontextmanager
async def remote(service: MemoryService) -> AsyncIterator[Remote]:
    async with HttpClient(URL, transport=httpx.ASGITransport(app_over(service))) as client:
        yield Remote(URL, client)


async def test_a_bounded_wait_is_over_when_it_is_over() -> None:
    service = MemoryService()
    service.add(run_view("r-1"))
    async with remote(service) as reached:
        run = await reached.drive("r-1", wait_ms=20)

    assert run.status is WorkflowStatus.RUNNING
    assert service.asked[0] == ("result", ("r-1", 20))


@pytest.mark.parametrize("status", [WorkflowStatus.COMPLETED, WorkflowStatus.SUSPENDED])
async def test_a_wait_without_a_bound_goes_on_until_the_run_stands_still(
    monkeypatch: pytest.MonkeyPatch, status: WorkflowStatus
) -> None:
    monkeypatch.setattr("bext_workflow.app.reach._SLICE_MS", 0)
    service = SlowService(status)
    async with remote(service) as reached:
        run = await reached.drive("r-1", wait_ms=None)

    assert (run.status, service.waits) == (status, [0, 0, 0])
