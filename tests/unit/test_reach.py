"""How a command waits for the host at a URL."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import httpx
import pytest

from bext_workflow.app.reach import Remote
from bext_workflow.client import HttpClient
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.model.view import RunView
from tests.unit.http_support import URL, MemoryService, app_over, run_view


@pytest.fixture
def service() -> MemoryService:
    service = MemoryService()
    service.add(run_view("r-1"))
    return service


@pytest.fixture
async def remote(service: MemoryService) -> AsyncIterator[Remote]:
    async with HttpClient(URL, transport=httpx.ASGITransport(app_over(service))) as client:
        yield Remote(URL, client)


async def test_a_bounded_wait_is_over_when_it_is_over(service: MemoryService, remote: Remote) -> None:
    run = await remote.drive("r-1", wait_ms=20)

    assert run.status is WorkflowStatus.RUNNING
    assert service.asked[0] == ("result", ("r-1", 20))


@pytest.mark.parametrize("status", [WorkflowStatus.COMPLETED, WorkflowStatus.SUSPENDED])
async def test_a_wait_without_a_bound_goes_on_until_the_run_stands_still(
    service: MemoryService, remote: Remote, monkeypatch: pytest.MonkeyPatch, status: WorkflowStatus
) -> None:
    monkeypatch.setattr("bext_workflow.app.reach._SLICE_MS", 5)
    seen: list[RunView] = []

    async def drive() -> None:
        seen.append(await remote.drive("r-1", wait_ms=None))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drive)
            while [asked for asked, _ in service.asked].count("result") < 3:
                await anyio.sleep(0)
            assert not seen
            service.settle("r-1", status)

    assert [run.status for run in seen] == [status]
