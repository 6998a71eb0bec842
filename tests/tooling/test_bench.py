"""The rows that the benchmarks write past the store are rows that a host takes for its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import raw
from bench.saga import WAITING, hosting
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.service.protocols import RunQuery, SignalRequest
from bext_workflow.stores import SqliteStore


async def test_ended_sagas_are_listed(tmp_path: Path) -> None:
    raw.fill(tmp_path / "ended.db", 3)
    async with hosting(SqliteStore(tmp_path / "ended.db")) as (_, service):
        page = await service.list(RunQuery())
    assert [run.status for run in page.items] == [WorkflowStatus.COMPLETED] * 3


@pytest.mark.timeout(30)
async def test_waiting_runs_take_their_signal(tmp_path: Path) -> None:
    raw.fill_waiting(tmp_path / "waiting.db", 3, WAITING)
    async with hosting(SqliteStore(tmp_path / "waiting.db")) as (host, service):
        (waiting,) = (await service.list(raw.waiting_query())).items
        ended = host.settlements.next(waiting.run_id)
        await service.signal(waiting.run_id, SignalRequest(name="go"))
        await ended
        assert (await service.get(waiting.run_id)).status == WorkflowStatus.COMPLETED
