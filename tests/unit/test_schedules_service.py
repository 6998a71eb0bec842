"""What a person sees of schedules and may do to them, with a host and straight on the store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bext_workflow.errors import Conflict, NotFound, StartKeyReused, UsageError
from bext_workflow.model.json import loads
from bext_workflow.model.schedule import SlotResult
from bext_workflow.model.view import FireView, instant
from bext_workflow.ports.audit import AuditRow
from bext_workflow.ports.store import RunFilter
from bext_workflow.service.engine import StoreEngine
from bext_workflow.service.protocols import StartRequest, TriggerRequest
from bext_workflow.service.schedules import ScheduleService
from bext_workflow.testing.clock import FakeClock
from tests.unit.schedules_support import (
    HOUR,
    NOON,
    Scene,
    StrungStore,
    Work,
    hosting,
    opened,
    registry,
    schedule,
    services,
)

HOURLY = schedule(context={"n": 1}, tags={"team": "ops"})
NIGHTLY = schedule("nightly", "30 2 * * *", timezone="Europe/Madrid", enabled=False, version=1)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOON + 1)


@pytest.fixture
async def store() -> AsyncIterator[StrungStore]:
    async with opened() as store:
        yield store


@pytest.fixture
def schedules(store: StrungStore, clock: FakeClock) -> ScheduleService:
    """Straight on the store: no host is there."""
    return services(store, registry(Work(), HOURLY, NIGHTLY), StoreEngine(store, clock), clock)[1]


async def audit(store: StrungStore) -> list[AuditRow]:
    return list(await store.audit(limit=9))


async def test_schedules_are_listed_by_id_as_they_stand(schedules: ScheduleService) -> None:
    hourly, nightly = await schedules.schedules()

    assert (hourly.id, hourly.plugin, hourly.workflow, hourly.version) == ("hourly", "shop", "report", None)
    assert (hourly.cron, hourly.timezone, hourly.overlap, hourly.catch_up) == ("0 * * * *", "UTC", "skip", "latest")
    assert (hourly.context, hourly.tags, hourly.enabled, hourly.paused) == ({"n": 1}, {"team": "ops"}, True, False)
    assert (hourly.next_at, hourly.last_slot, hourly.last_result) == ("2027-03-01T13:00:00.000Z", None, None)
    assert (nightly.id, nightly.version, nightly.enabled, nightly.next_at) == ("nightly", 1, False, None)
    assert await schedules.schedule("hourly") == hourly


async def test_what_became_of_a_schedule_is_shown(clock: FakeClock) -> None:
    async with hosting(HOURLY, clock=clock) as at:
        at.work.hold()
        await at.passes(HOUR)
        (run,) = await at.store.runs(RunFilter(), limit=9)
        shown = await at.schedules.schedule("hourly")
        assert (shown.last_slot, shown.last_result) == (instant(NOON + HOUR), SlotResult.STARTED)
        assert (shown.last_run_id, shown.buffered_slot) == (run.run_id, None)
        assert shown.next_at == instant(NOON + 2 * HOUR)


async def test_next_instants_are_given_in_both_clocks(schedules: ScheduleService) -> None:
    assert await schedules.fires("nightly", limit=2) == [
        FireView(at="2027-03-02T01:30:00.000Z", local="2027-03-02T02:30:00+01:00"),
        FireView(at="2027-03-03T01:30:00.000Z", local="2027-03-03T02:30:00+01:00"),
    ]
    assert len(await schedules.fires("hourly")) == 5
    for limit in (0, 501):
        with pytest.raises(UsageError, match=f"the limit is {limit}"):
            await schedules.fires("hourly", limit=limit)


async def test_schedule_that_is_not_there(schedules: ScheduleService) -> None:
    with pytest.raises(NotFound) as near:
        await schedules.pause_schedule("nightley", "")
    assert near.value.mend == "did you mean 'nightly'?"
    with pytest.raises(NotFound) as far:
        await schedules.trigger_schedule("x", TriggerRequest())
    assert far.value.mend == "there are: hourly, nightly"


async def test_pause_and_resume_are_remembered_with_who_and_why(
    schedules: ScheduleService, store: StrungStore, clock: FakeClock
) -> None:
    paused = await schedules.pause_schedule("hourly", "the ledger moves")
    assert (paused.paused, paused.next_at) == (True, None)
    assert await schedules.schedule("hourly") == paused
    with pytest.raises(Conflict, match="'hourly' is paused already"):
        await schedules.pause_schedule("hourly", "again")

    clock.advance(5)
    resumed = await schedules.resume_schedule("hourly", "it has moved")
    assert (resumed.paused, resumed.next_at) == (False, instant(NOON + HOUR))
    with pytest.raises(Conflict, match="'hourly' is not paused"):
        await schedules.resume_schedule("hourly", "again")

    after, before = await audit(store)
    assert (before.at, before.by, before.name, before.about, before.run_id, before.reason) == (
        *(NOON + 1, "ada", "schedule.pause"),
        *("schedule:hourly", "", "the ledger moves"),
    )
    assert loads(before.data) == {"before": {"paused": False}, "after": {"paused": True}}
    assert (after.at, after.name, after.reason) == (NOON + 6, "schedule.resume", "it has moved")


async def test_pause_straight_on_the_store_reaches_the_host(clock: FakeClock) -> None:
    async with hosting(HOURLY, clock=clock) as at:
        outside = services(at.store, registry(Work(), HOURLY), StoreEngine(at.store, clock), clock)[1]
        await outside.pause_schedule("hourly", "")
        await at.passes(HOUR)
        assert await at.started() == []


# Trigger


async def runs(at: Scene) -> int:
    return len(await at.store.runs(RunFilter(), limit=99))


async def test_trigger_without_a_host_leaves_a_run_for_the_next_one(
    schedules: ScheduleService, store: StrungStore
) -> None:
    started = await schedules.trigger_schedule("hourly", TriggerRequest(reason="month end"))

    run = started.run
    assert (started.created, started.driven, run.status) == (True, False, "PENDING")
    assert (run.workflow, run.version, run.context) == ("report", 2, {"n": 1})
    assert (run.tags, run.key) == ({"team": "ops", "schedule": "hourly"}, None)
    assert (await schedules.schedule("hourly")).last_run_id == run.run_id
    (act,) = await audit(store)
    assert (act.name, act.by, act.reason) == ("schedule.trigger", "ada", "month end")
    assert (act.about, act.run_id, act.at) == ("schedule:hourly", run.run_id, NOON + 1)


async def test_trigger_starts_a_run_at_once_paused_or_not_and_moves_no_slot(clock: FakeClock) -> None:
    async with hosting(HOURLY, clock=clock) as at:
        await at.schedules.pause_schedule("hourly", "")
        started = await at.schedules.trigger_schedule("hourly", TriggerRequest())
        await at.store.quiet()
        assert started.driven
        assert [made.run_id for made in at.work.made] == [started.run.run_id]
        assert (await at.row()).last_slot is None

        await at.schedules.resume_schedule("hourly", "")
        await at.passes(HOUR)
        assert await at.started() == [HOUR]


@pytest.mark.parametrize("overlap", ["skip", "buffer_one"])
async def test_trigger_is_refused_while_a_run_of_the_schedule_is_live(clock: FakeClock, overlap: str) -> None:
    async with hosting(schedule(overlap=overlap), clock=clock) as at:
        at.work.hold()
        await at.passes(HOUR)
        (run,) = await at.store.runs(RunFilter(), limit=9)
        with pytest.raises(Conflict, match=f"run {run.run_id} .* is RUNNING, and its overlap is {overlap}"):
            await at.schedules.trigger_schedule("hourly", TriggerRequest())
        assert (await runs(at), await audit(at.store)) == (1, [])

        at.work.let_go()
        await at.store.quiet()
        await at.schedules.trigger_schedule("hourly", TriggerRequest())
        assert await runs(at) == 2


async def test_trigger_beside_a_live_run_where_overlap_allows_it(clock: FakeClock) -> None:
    async with hosting(schedule(overlap="allow"), clock=clock) as at:
        at.work.hold()
        for _ in range(2):
            await at.schedules.trigger_schedule("hourly", TriggerRequest())
        assert await runs(at) == 2


async def test_run_that_was_triggered_counts_as_the_run_before(clock: FakeClock) -> None:
    async with hosting(HOURLY, clock=clock) as at:
        at.work.hold()
        await at.schedules.trigger_schedule("hourly", TriggerRequest())
        await at.passes(HOUR)
        assert await at.started() == []
        assert (await at.row()).last_result is SlotResult.SKIPPED


async def test_trigger_with_a_key_is_safe_to_repeat_while_its_run_is_live(clock: FakeClock) -> None:
    async with hosting(HOURLY, schedule("other"), clock=clock) as at:
        at.work.hold()
        request = TriggerRequest(reason="once", key="k")
        first = await at.schedules.trigger_schedule("hourly", request)
        again = await at.schedules.trigger_schedule("hourly", request)

        assert (first.created, again.created) == (True, False)
        assert again.run.run_id == first.run.run_id
        assert len(await audit(at.store)) == 1
        # The keys of other schedules and of callers are elsewhere.
        assert (await at.schedules.trigger_schedule("other", request)).created
        assert (await at.service.start(StartRequest(workflow="report", key="k"))).created


async def test_key_of_a_trigger_is_not_for_a_schedule_that_has_been_edited(clock: FakeClock) -> None:
    request = TriggerRequest(key="k")
    async with opened() as store:
        async with hosting(schedule(context={"n": 1}), clock=clock, store=store) as at:
            await at.schedules.trigger_schedule("hourly", request)
            await store.quiet()
        async with hosting(schedule(context={"n": 2}), clock=clock, store=store) as at:
            with pytest.raises(StartKeyReused):
                await at.schedules.trigger_schedule("hourly", request)
