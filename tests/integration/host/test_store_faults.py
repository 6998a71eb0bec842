"""What the store does wrong, and what the host makes of it (P7, P33)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from bext_workflow.errors import StoreUnavailable
from bext_workflow.host.clock import SystemChance
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import IncidentKind, WorkflowStatus
from bext_workflow.ports import telemetry as names
from bext_workflow.ports.store import Append, Create, LeaseLost, Loaded, Member, Refused, Result
from bext_workflow.service.protocols import RunQuery
from bext_workflow.testing.clock import FakeClock
from tests.integration.host.rigged import TROUBLE, RiggedStore
from tests.integration.host.support import (
    Calls,
    desk,
    hosting,
    jumping,
    saga,
    step,
    workflow,
)
from tests.unit.host.support import within

ALL = RunQuery()


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
        assert hosted.host._dispatcher._starting == set()


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
    """Never silent, never for good. Here the store refuses an intent, which it has no reason to do."""
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
    """It is said, and tried again; the host goes on."""
    calls = Calls()
    served = saga(calls)
    async with desk(served, tmp_path / "bext.db") as alone:
        broken = await alone.start()
        await alone.store.inside("UPDATE journal SET kind = 'of_a_newer_version'")
    async with jumping(served, FakeClock(), tmp_path / "bext.db") as hosted:
        crash = await hosted.telemetry.heard(names.DRIVER_CRASHED)
        assert crash["run_id"] == broken
        run = await hosted.settled(await hosted.start())
        assert run.status is WorkflowStatus.COMPLETED
        await hosted.store.inside("UPDATE journal SET kind = 'run_created' WHERE kind = 'of_a_newer_version'")
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
        await hosted.store.inside(act)
        await hosted.store.inside(f"UPDATE runs SET inbox = 1 WHERE rid = {row.rid}")
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
        await hosted.store.inside("UPDATE runs SET fence = fence + 1")
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


async def test_a_start_that_comes_through_when_it_has_been_given_up_is_driven() -> None:
    """P6: it is the host's own, nobody else takes it, and no answer ever tells of it."""
    calls, clock = Calls(), FakeClock()
    async with jumping(saga(calls), clock) as hosted:
        first = await hosted.start()
        await hosted.settled(first)
        (create,) = [member for member in hosted.store.written if isinstance(member, Create)]
        late = SystemChance().new_id()
        events = tuple((kind, data.replace(first.encode(), late.encode())) for kind, data in create.events)

        await hosted.store.write([replace(create, run_id=late, events=events)])

        assert (await hosted.settled(late)).status is WorkflowStatus.COMPLETED
        assert [run.run_id for run in calls.runs] == [first, first, late, late]
        assert "recovered" not in await hosted.kinds(late)


class SlowReader(RiggedStore):
    """What it reads of a run while it is `slow` is old when it arrives. `asked`: it has said what a host owns."""

    def __init__(self) -> None:
        super().__init__(None)
        self.slow = False
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def owned(self, owner: str) -> Sequence[tuple[int, str]]:
        owned = await super().owned(owner)
        self.asked.set()
        return owned

    async def load(self, rid: int, *, after: int = 0) -> Loaded:
        slow, loaded = self.slow, await super().load(rid, after=after)
        if slow:
            await self.may_answer.wait()
        return loaded


async def test_a_run_whose_start_is_about_to_be_answered_gets_one_driver() -> None:
    """P1: the host looks at what it owns just when it is durable; what it reads then is old when the run has ended."""
    calls, store = Calls(), SlowReader()
    await store.open(migrate=True)
    async with hosting(saga(calls), store=store) as hosted:

        async def look(write: int, after: bool) -> None:
            if (write, after) == (1, True):
                store.asked.clear()
                store.slow = True
                hosted.host._dispatcher._sweep_at = 0.0
                hosted.host.wake()
                await store.asked.wait()
                await hosted.quiet()
                store.slow = False

        store.around = look
        run_id = await hosted.start()
        await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
        store.may_answer.set()
        await hosted.quiet()
    await store.close()

    assert calls.made == ["pack", "ship"]
