"""SQLite's own troubles, and what a saga costs it (P39, P40)."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from bext_workflow.errors import StoreUnavailable
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import Action, WorkflowStatus
from bext_workflow.ports import telemetry as names
from bext_workflow.ports.store import Append, Create
from tests.integration.host.support import (
    Calls,
    desk,
    hosting,
    opened,
    plugin,
    registry,
    saga,
    step,
    workflow,
)
from tests.unit.host.support import within

FULL = "the disk is full"


async def test_on_a_full_disk_runs_pause_with_a_named_cause_and_go_on_when_there_is_space(tmp_path: Path) -> None:
    """P39"""
    gate = asyncio.Event()

    async def brings_much(run: WorkflowRun, step_name: str) -> object:
        await gate.wait()
        return StepOutcome.Continue({step_name: "x" * 20_000})

    served = registry(plugin(brings_much, workflow("a", "b", "c")))
    async with hosting(served, tmp_path / "bext.db") as hosted:
        started = [await hosted.start() for _ in range(4)]
        ((pages,),) = await hosted.store.inside("PRAGMA page_count")
        await hosted.store.inside(f"PRAGMA max_page_count = {pages}")
        gate.set()
        trouble = await hosted.telemetry.heard(names.STORE_UNAVAILABLE)
        assert FULL in str(trouble["error"])
        assert FULL in hosted.host.readiness().reasons[0]
        with pytest.raises(StoreUnavailable, match=FULL) as caught:
            await hosted.start()
        assert caught.value.mend == "free some space: work goes on by itself"
        for run_id in started:
            assert (await hosted.get(run_id)).status is WorkflowStatus.RUNNING
        await hosted.store.inside("PRAGMA max_page_count = 1000000")
        for run_id in started:
            run = await hosted.settled(run_id)
            assert run.status is WorkflowStatus.COMPLETED
            assert sorted(run.context or {}) == ["a", "b", "c"]
        assert hosted.host.readiness().ready
        assert hosted.telemetry.all(names.DRIVER_CRASHED) == []


async def test_another_writer_in_the_way_for_a_moment_is_not_the_user_s_business(tmp_path: Path) -> None:
    """P40: neither the host's commits nor a start meet "database is locked"."""
    calls = Calls()
    path = tmp_path / "bext.db"
    async with hosting(saga(calls), path) as hosted, within():
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        hosted.store.writing.clear()
        starting = asyncio.create_task(hosted.start())
        await hosted.store.writing.wait()
        other.execute("ROLLBACK")
        other.close()
        assert (await hosted.settled(await starting)).status is WorkflowStatus.COMPLETED
        assert hosted.telemetry.all(names.STORE_UNAVAILABLE) == []


async def test_many_commands_beside_a_busy_host_all_succeed(tmp_path: Path) -> None:
    """P40, P41"""
    calls = Calls()
    served = saga(calls)
    path = tmp_path / "bext.db"
    async with hosting(served, path) as hosted, within(30):

        async def command() -> str:
            async with desk(served, path) as alone:
                return await alone.start()

        commanded = await asyncio.gather(*(command() for _ in range(8)), *(hosted.start() for _ in range(30)))
        for run_id in commanded:
            await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
        assert hosted.telemetry.all(names.STORE_UNAVAILABLE) == []


async def test_a_saga_without_a_completion_hook_takes_one_commit_a_step() -> None:
    """Architecture "Commit path": create + 3 steps = 4; the last step's append also ends the run and gives it back."""
    calls = Calls()
    async with hosting(saga(calls, workflow("a", "b", "c"))) as hosted:
        run_id = await hosted.start()
        await hosted.settled(run_id)
        await hosted.quiet()
        (row,) = await hosted.store.find(run_id)
        assert hosted.store.commits_of(run_id, row.rid) == 4
        assert (row.owner, row.wake_at) == (None, None)
        assert [type(member) for member in hosted.store.written] == [Create, Append, Append, Append]


async def test_what_a_person_answers_while_the_store_is_away_is_not_lost() -> None:
    """An act is durable when it is acknowledged, or it is an error."""
    calls = Calls(pay=[KeyError("?")])
    async with hosting(saga(calls, workflow(step("pay", idempotent=False)))) as hosted:
        run = await hosted.settled(await hosted.start())
        incident = await hosted.incident(run.run_id)
        hosted.store.down = True
        with pytest.raises(StoreUnavailable):
            await hosted.resolve(run.run_id, Action.DONE)
        hosted.store.down = False
        await hosted.resolve(run.run_id, Action.DONE)
        assert (await hosted.reaches(run.run_id, WorkflowStatus.COMPLETED)).status is WorkflowStatus.COMPLETED
        assert (await hosted.service.incident(incident.id)).resolved_at is not None


async def test_a_second_host_over_the_same_store_object_changes_nothing(tmp_path: Path) -> None:
    """The store outlives its hosts: what one of them left, the next one finds."""
    calls = Calls()
    async with opened(tmp_path / "bext.db") as store:
        async with hosting(saga(calls), store=store) as first:
            run_id = await first.start()
            await first.settled(run_id)
        async with hosting(saga(calls), store=store) as second:
            assert (await second.get(run_id)).status is WorkflowStatus.COMPLETED
            assert (await second.settled(await second.start())).status is WorkflowStatus.COMPLETED
