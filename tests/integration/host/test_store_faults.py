"""What the store does wrong, and what the host makes of it (P2, P6, P7, P33, P39, P40)."""

from __future__ import annotations

import asyncio
import sqlite3
from functools import partial
from pathlib import Path

import pytest

from bext_workflow.errors import StoreUnavailable
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import Action, IncidentKind, WorkflowStatus
from bext_workflow.ports import telemetry as names
from bext_workflow.ports.store import Append, Create, LeaseLost, Member, Refused, Result
from bext_workflow.service.protocols import RunQuery
from bext_workflow.testing.clock import FakeClock
from tests.integration.host.rigged import TROUBLE, RiggedStore
from tests.integration.host.support import (
    Calls,
    Hosted,
    desk,
    hosting,
    jumping,
    opened,
    plugin,
    registry,
    saga,
    step,
    workflow,
)
from tests.unit.host.support import within

FULL = "the disk is full"
ALL = RunQuery()


async def _inside(store: RiggedStore, statement: str) -> None:
    """Runs a statement on the store's own writing connection."""
    await store._write(lambda connection: connection.execute(statement).fetchall())


async def _pages(hosted: Hosted) -> int:
    def count(connection: sqlite3.Connection) -> int:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        return int(pages)

    return await hosted.store._write(count)


# P2: nothing is acknowledged before its commit


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


# The store is gone for a while


async def test_while_the_store_is_gone_runs_wait_and_go_on_by_themselves() -> None:
    """Semantics §6: nothing is judged; readiness says why; it is said once when it begins and once when it is over."""
    calls = Calls()
    async with hosting(saga(calls, workflow("a", "b", "c"))) as hosted:
        hosted.store.close_gate()
        starting = asyncio.create_task(hosted.start())
        await hosted.store.reached()
        hosted.store.let_one_through()
        run_id = await starting
        await hosted.store.reached()
        hosted.store.fail_writes(3)
        hosted.store.open_gate()
        assert hosted.host.readiness().ready
        await hosted.telemetry.heard(names.STORE_UNAVAILABLE)
        assert not hosted.host.readiness().ready
        assert hosted.host.readiness().reasons == [TROUBLE]
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED
        assert calls.made == ["a", "b", "c"]
        assert hosted.host.readiness().ready
        assert hosted.telemetry.all(names.STORE_UNAVAILABLE) == [{"error": TROUBLE}]
        assert len(hosted.telemetry.all(names.STORE_BACK)) == 1
        assert hosted.telemetry.all(names.DRIVER_CRASHED) == []


async def test_a_store_that_answers_nothing_at_all_stops_nothing_for_good() -> None:
    """Not even claims and looks at the inbox get an answer."""
    gate = asyncio.Event()

    async def waits(_: WorkflowRun) -> object:
        await gate.wait()
        return StepOutcome.Continue()

    calls = Calls(pack=[waits])
    async with hosting(saga(calls)) as hosted:
        run_id = await hosted.start()
        await calls.until("pack")
        hosted.store.down = True
        gate.set()
        await hosted.telemetry.heard(names.STORE_UNAVAILABLE)
        assert hosted.host.readiness().reasons == [TROUBLE]
        with pytest.raises(StoreUnavailable):
            await hosted.start()
        hosted.store.down = False
        await hosted.telemetry.heard(names.STORE_BACK)
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED
        assert calls.made == ["pack", "ship"]
        assert len(hosted.telemetry.all(names.STORE_UNAVAILABLE)) == 1


async def test_an_idle_host_says_that_its_store_is_gone_and_when_it_is_back() -> None:
    calls = Calls()
    async with hosting(saga(calls)) as hosted:
        hosted.store.down = True
        await hosted.telemetry.heard(names.STORE_UNAVAILABLE)
        assert not hosted.host.readiness().ready
        hosted.store.down = False
        await hosted.telemetry.heard(names.STORE_BACK)
        assert hosted.host.readiness().ready


async def test_a_start_that_was_turned_away_leaves_nothing_and_readiness_recovers() -> None:
    calls = Calls()
    async with hosting(saga(calls)) as hosted:
        hosted.store.fail_writes(1)
        with pytest.raises(StoreUnavailable, match="somebody pulled the plug"):
            await hosted.start()
        await hosted.telemetry.heard(names.STORE_BACK)
        assert hosted.host.readiness().ready
        await hosted.quiet()
        assert (calls.made, (await hosted.service.list(ALL)).items) == ([], [])
        assert hosted.host._dispatcher._reserved == 0


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


# P7: one member is refused


def refuses_once(kind: str, reason: str = "too large") -> partial[Result | None]:
    """Refuses the first append with an event of that kind."""
    left = [True]

    def verdict(member: Member) -> Result | None:
        if left and isinstance(member, Append) and any(name == kind for name, _ in member.events):
            left.clear()
            return Refused(reason)
        return None

    return partial(verdict)


async def test_a_refused_member_is_an_unknown_end_of_that_attempt_and_harms_no_other() -> None:
    """P7: of a step that may be repeated it is a permanent failure, of one that may not it is in doubt."""
    calls = Calls()
    served = saga(calls, workflow("pack", "ship"), workflow(step("pay", idempotent=False), id_="once"))
    async with hosting(served) as hosted, within():
        hosted.store.refuse = refuses_once("step_completed")
        hosted.store.close_gate()
        starting = [asyncio.create_task(hosted.start()) for _ in range(3)]
        await hosted.store.reached()
        hosted.store.open_gate()
        ended = [await hosted.settled(await task) for task in starting]
        assert sorted(run.status for run in ended) == [
            WorkflowStatus.COMPENSATED,
            WorkflowStatus.COMPLETED,
            WorkflowStatus.COMPLETED,
        ]
        (failed,) = [run for run in ended if run.status is WorkflowStatus.COMPENSATED]
        assert failed.failure == "the store refused the result: too large"
        assert failed.context == {}

        hosted.store.refuse = refuses_once("step_completed")
        doubtful = await hosted.settled(await hosted.start("once"))
        assert doubtful.status is WorkflowStatus.SUSPENDED
        incident = await hosted.incident(doubtful.run_id)
        assert (incident.kind, incident.reason) == (IncidentKind.IN_DOUBT, "the store refused the result: too large")
        assert hosted.telemetry.all(names.DRIVER_CRASHED) == []


async def test_what_breaks_in_a_driver_is_said_and_the_run_is_taken_up_again() -> None:
    """DESIGN §5: never silent, never for good. Here the store refuses an intent, which it has no reason to do."""
    calls = Calls()
    async with jumping(saga(calls, workflow(step("pay", idempotent=False))), FakeClock()) as hosted:
        hosted.store.refuse = refuses_once("attempt_started")
        run_id = await hosted.start()
        crash = await hosted.telemetry.heard(names.DRIVER_CRASHED)
        assert crash["run_id"] == run_id
        assert "refused the intent" in str(crash["error"])
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED
        assert calls.made == ["pay"]


async def test_a_driver_that_breaks_while_acts_wait_in_the_inbox_lets_go_of_its_run() -> None:
    """Else it would be owned by a host that lives and driven by nobody."""
    calls = Calls()
    async with jumping(saga(calls, workflow(step("pay", idempotent=False))), FakeClock()) as hosted, within():
        hosted.store.close_gate()
        starting = asyncio.create_task(hosted.start())
        await hosted.store.reached()
        hosted.store.let_one_through()
        run_id = await starting
        await hosted.store.reached()
        hosted.store.refuse = refuses_once("attempt_started")
        await hosted.cancel(run_id)
        hosted.store.open_gate()
        await hosted.telemetry.heard(names.DRIVER_CRASHED)
        assert (await hosted.settled(run_id)).status is WorkflowStatus.CANCELLED
        assert calls.made == []


async def test_a_run_that_cannot_be_read_harms_nobody_else(tmp_path: Path) -> None:
    """DESIGN §5: it is said, and tried again; the host goes on."""
    calls = Calls()
    served = saga(calls)
    async with desk(served, tmp_path / "bext.db") as alone:
        broken = await alone.start()
        await _inside(alone.store, "UPDATE journal SET kind = 'of_a_newer_version'")
    async with jumping(served, FakeClock(), tmp_path / "bext.db") as hosted:
        crash = await hosted.telemetry.heard(names.DRIVER_CRASHED)
        assert crash["run_id"] == broken
        run = await hosted.settled(await hosted.start())
        assert run.status is WorkflowStatus.COMPLETED
        await _inside(hosted.store, "UPDATE journal SET kind = 'run_created' WHERE kind = 'of_a_newer_version'")
        assert (await hosted.reaches(broken, WorkflowStatus.COMPLETED)).status is WorkflowStatus.COMPLETED


async def test_an_act_of_an_unknown_kind_ends_neither_host_nor_dispatcher() -> None:
    gate = asyncio.Event()

    async def waits(_: WorkflowRun) -> object:
        await gate.wait()
        return StepOutcome.Continue()

    calls = Calls(pack=[waits])
    async with hosting(saga(calls)) as hosted, within():
        run_id = await hosted.start()
        await calls.until("pack")
        (row,) = await hosted.store.find(run_id)
        act = f"INSERT INTO inbox (rid, n, at, kind, by, data) VALUES ({row.rid}, 1, 0, 'of_a_newer_version', 'x', '')"
        await _inside(hosted.store, act)
        await _inside(hosted.store, f"UPDATE runs SET inbox = 1 WHERE rid = {row.rid}")
        await hosted.passed_on(run_id)
        assert (await hosted.settled(await hosted.start())).status is WorkflowStatus.COMPLETED
        gate.set()
        crash = await hosted.telemetry.heard(names.DRIVER_CRASHED)
        assert crash["run_id"] == run_id


# P33: the lease is lost


async def test_a_run_that_was_taken_over_is_let_go_and_its_result_counts_for_nothing() -> None:
    """P33, P8: nothing is written; it is counted, and said."""
    gate = asyncio.Event()

    async def waits(_: WorkflowRun) -> object:
        await gate.wait()
        return StepOutcome.Continue({"late": True})

    calls = Calls(pack=[waits])
    async with hosting(saga(calls)) as hosted:
        run_id = await hosted.start()
        await calls.until("pack")
        await _inside(hosted.store, "UPDATE runs SET fence = fence + 1, owner = 'zz-another-host'")
        gate.set()
        lost = await hosted.telemetry.heard(names.LEASE_LOST)
        assert lost["run_id"] == run_id
        assert hosted.telemetry.value(names.RESULTS_DISCARDED) == 1
        assert await hosted.kinds(run_id) == ["run_created"]
        assert (await hosted.get(run_id)).context == {}
        assert calls.made == ["pack"]


async def test_a_lost_lease_ends_one_driver_only() -> None:
    calls = Calls()
    async with hosting(saga(calls)) as hosted:
        left = [True]

        def lost_once(member: Member) -> Result | None:
            if left and isinstance(member, Append):
                left.clear()
                return LeaseLost()
            return None

        hosted.store.refuse = lost_once
        await hosted.start()
        await hosted.telemetry.heard(names.LEASE_LOST)
        assert (await hosted.settled(await hosted.start())).status is WorkflowStatus.COMPLETED


# P39, P40: SQLite's own troubles


async def test_on_a_full_disk_runs_pause_with_a_named_cause_and_go_on_when_there_is_space(tmp_path: Path) -> None:
    """P39"""
    gate = asyncio.Event()

    async def brings_much(run: WorkflowRun, step_name: str) -> object:
        await gate.wait()
        return StepOutcome.Continue({step_name: "x" * 20_000})

    served = registry(plugin(brings_much, workflow("a", "b", "c")))
    async with hosting(served, tmp_path / "bext.db") as hosted:
        started = [await hosted.start() for _ in range(4)]
        await _inside(hosted.store, f"PRAGMA max_page_count = {await _pages(hosted)}")
        gate.set()
        trouble = await hosted.telemetry.heard(names.STORE_UNAVAILABLE)
        assert FULL in str(trouble["error"])
        assert FULL in hosted.host.readiness().reasons[0]
        with pytest.raises(StoreUnavailable, match=FULL) as caught:
            await hosted.start()
        assert caught.value.mend == "free some space: work goes on by itself"
        for run_id in started:
            assert (await hosted.get(run_id)).status is WorkflowStatus.RUNNING
        await _inside(hosted.store, "PRAGMA max_page_count = 1000000")
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
    """DESIGN §4: create + 3 steps = 4; the last step's append also ends the run and gives it back."""
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
