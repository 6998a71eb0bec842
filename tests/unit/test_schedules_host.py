"""The host starts runs when their planned instants come round, each at most once (P22–P25)."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from bext_workflow.host.schedules import LOOK_MS, PATIENCE_MS
from bext_workflow.model.schedule import SlotResult
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.model.view import instant
from bext_workflow.ports import telemetry as names
from bext_workflow.ports.store import RunFilter
from bext_workflow.service.protocols import StartRequest
from bext_workflow.testing.clock import FakeClock
from tests.unit.schedules_support import DAY, HOUR, MINUTE, NOON, Work, hosting, opened, schedule


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOON + 1)


async def test_slot_starts_a_run_of_the_highest_version_with_its_tags(clock: FakeClock) -> None:
    night = schedule("nightly", "30 2 * * *", timezone="Europe/Madrid", context={"n": 2**60}, tags={"team": "ops"})
    async with hosting(night, clock=clock) as at:
        await at.passes(13 * HOUR + 30 * MINUTE - 2)
        assert await at.started() == []
        await at.passes(1)
        assert await at.started() == [13 * HOUR + 30 * MINUTE]

        (run,) = await at.store.runs(RunFilter(), limit=9)
        slot = NOON + 13 * HOUR + 30 * MINUTE
        assert (run.workflow, run.version, run.key) == ("report", 2, instant(slot))
        assert run.tags == {"team": "ops", "schedule": "nightly", "scheduled_at": "2027-03-02T01:30:00.000Z"}
        assert [dict(made.context) for made in at.work.made] == [{"n": 2**60}]
        row = await at.row("nightly")
        assert (row.handled, row.last_slot, row.last_result) == (slot, slot, SlotResult.STARTED)
        assert row.last_run_id == run.run_id
        assert at.telemetry.all(names.SCHEDULE_STARTED) == [
            {"schedule": "nightly", "scheduled_at": instant(slot), "run_id": run.run_id}
        ]
        assert at.telemetry.value(names.SCHEDULE_SLOTS, schedule="nightly", result="started") == 1

        await at.passes(DAY)
        assert await at.started() == [13 * HOUR + 30 * MINUTE, 37 * HOUR + 30 * MINUTE]


async def test_version_that_is_stated_is_the_one_that_is_started(clock: FakeClock) -> None:
    async with hosting(schedule(version=1), clock=clock) as at:
        await at.passes(HOUR)
        assert [made.version for made in at.work.made] == [1]


async def test_slot_starts_a_run_with_sub_workflows_whose_versions_are_fixed_by_then(clock: FakeClock) -> None:
    async with hosting(schedule(workflow="bundle"), clock=clock) as at:
        await at.passes(HOUR)
        (made,) = at.work.made
        assert (made.workflow, made.version) == ("report", 2)
        runs = {run.workflow: run for run in await at.store.runs(RunFilter(), limit=9)}
        assert runs["report"].key == f"{runs['bundle'].run_id}:inner"
        assert {run.status for run in runs.values()} == {WorkflowStatus.COMPLETED}


async def test_several_slots_follow_one_another(clock: FakeClock) -> None:
    async with hosting(schedule(cron="*/10 * * * *"), clock=clock) as at:
        for _ in range(35):
            await at.passes(MINUTE)
        assert await at.started() == [10 * MINUTE, 20 * MINUTE, 30 * MINUTE]


async def test_host_of_one_run_starts_nothing(clock: FakeClock) -> None:
    async with hosting(schedule(), clock=clock, only="r-1") as at:
        await at.passes(HOUR)
        assert await at.started() == []


# Catch-up and overlap

LATE = 3 * HOUR + 30 * MINUTE
H1, H2, H3 = HOUR, 2 * HOUR, 3 * HOUR


@pytest.mark.parametrize(
    ("catch_up", "overlap", "live", "started", "after_its_end", "results"),
    [
        ("latest", "skip", False, [H3], [H3], {"missed": 2, "started": 1}),
        ("latest", "allow", False, [H3], [H3], {"missed": 2, "started": 1}),
        ("latest", "buffer_one", False, [H3], [H3], {"missed": 2, "started": 1}),
        ("all", "skip", False, [H1], [H1], {"started": 1, "skipped": 2}),
        ("all", "allow", False, [H1, H2, H3], [H1, H2, H3], {"started": 3}),
        ("all", "buffer_one", False, [H1], [H1, H2], {"started": 2, "buffered": 1, "skipped": 1}),
        ("skip", "skip", False, [], [], {"missed": 3}),
        ("skip", "allow", False, [], [], {"missed": 3}),
        ("skip", "buffer_one", False, [], [], {"missed": 3}),
        ("latest", "skip", True, [0], [0], {"missed": 2, "skipped": 1}),
        ("latest", "allow", True, [0, H3], [0, H3], {"missed": 2, "started": 1}),
        ("latest", "buffer_one", True, [0], [0, H3], {"missed": 2, "buffered": 1, "started": 1}),
        ("all", "skip", True, [0], [0], {"skipped": 3}),
        ("all", "allow", True, [0, H1, H2, H3], [0, H1, H2, H3], {"started": 3}),
        ("all", "buffer_one", True, [0], [0, H1], {"buffered": 1, "skipped": 2, "started": 1}),
        ("skip", "skip", True, [0], [0], {"missed": 3}),
        ("skip", "buffer_one", True, [0], [0], {"missed": 3}),
    ],
)
async def test_p24_catch_up_and_overlap_after_a_downtime(
    catch_up: str,
    overlap: str,
    live: bool,
    started: list[int],
    after_its_end: list[int],
    results: dict[str, int],
) -> None:
    """The host is away from before 13:00 until 15:30; `live`: the run of 12:00 has not ended then."""
    clock, work = FakeClock(NOON - MINUTE if live else NOON + 1), Work()
    planned = schedule(catch_up=catch_up, overlap=overlap)
    work.hold()
    async with opened() as store:
        async with hosting(planned, clock=clock, store=store, work=work) as at:
            if live:
                await at.passes(MINUTE)
        clock.advance(LATE)
        async with hosting(planned, clock=clock, store=store, work=work) as at:
            assert await at.started() == started
            work.let_go()
            await at.passes(LOOK_MS)
            await at.passes(LOOK_MS)
            assert await at.started() == after_its_end
            told = {name[2]: count for name, count in at.telemetry.counts.items() if name[0] == names.SCHEDULE_SLOTS}
            assert told == results
            assert (await at.row()).buffered is None


async def test_run_before_that_is_live_lets_a_slot_pass_and_that_is_recorded(clock: FakeClock) -> None:
    async with hosting(schedule(overlap="skip"), clock=clock) as at:
        at.work.hold()
        await at.passes(HOUR)
        before = await at.row()
        await at.passes(HOUR)

        row = await at.row()
        assert await at.started() == [H1]
        assert (row.last_slot, row.last_result) == (NOON + H2, SlotResult.SKIPPED)
        assert row.last_run_id == before.last_run_id
        assert at.telemetry.all(names.SCHEDULE_PASSED) == [
            {"schedule": "hourly", "scheduled_at": instant(NOON + H2), "result": "skipped", "slots": 1}
        ]
        at.work.let_go()
        await at.passes(HOUR)
        assert await at.started() == [H1, H3]


async def test_one_slot_waits_for_the_end_of_the_run_before_and_outlives_a_restart(clock: FakeClock) -> None:
    planned, work = schedule(overlap="buffer_one"), Work()
    work.hold()
    async with opened() as store:
        async with hosting(planned, clock=clock, store=store, work=work) as at:
            for _ in range(3):
                await at.passes(HOUR)
            row = await at.row()
            assert (row.buffered, row.last_slot, row.last_result) == (NOON + H2, NOON + H3, SlotResult.SKIPPED)
        async with hosting(planned, clock=clock, store=store, work=work) as at:
            await at.passes(5 * MINUTE)
            assert await at.started() == [H1]
            work.let_go()
            await at.passes(LOOK_MS)
            await at.passes(LOOK_MS)
            assert await at.started() == [H1, H2]
            row = await at.row()
            assert (row.buffered, row.handled, row.last_result) == (None, NOON + H3, SlotResult.STARTED)


async def test_pause_holds_what_comes_round_and_a_resume_makes_up_for_it(clock: FakeClock) -> None:
    """A due time that passed in a pause means now, by the catch-up policy (semantics §8)."""
    async with hosting(schedule(), clock=clock) as at:
        await at.amend(paused=True)
        for _ in range(3):
            await at.passes(HOUR)
        assert await at.started() == []
        await at.amend(paused=False)
        await at.passes(LOOK_MS)
        assert await at.started() == [H3]


async def test_paused_schedule_starts_nothing_after_an_edit_either(clock: FakeClock) -> None:
    async with opened() as store:
        async with hosting(schedule(overlap="buffer_one"), clock=clock, store=store) as at:
            await at.amend(paused=True, buffered=NOON)
        async with hosting(schedule(cron="*/5 * * * *"), clock=clock, store=store) as at:
            await at.passes(HOUR)
            assert await at.started() == []


# Once, whatever happens


MOMENTS = 24
"""More calls of the store than the host makes around one slot."""


@pytest.mark.parametrize("after_commit", [False, True], ids=["before", "after"])
async def test_p23_slot_starts_one_run_wherever_the_host_dies_around_it(tmp_path: Path, after_commit: bool) -> None:
    """Each call of the store is the last one of a process once, from the start of the host to the end of the run."""
    planned = schedule()
    deaths = 0
    for moment in range(1, MOMENTS):
        path, clock, work = tmp_path / f"{moment}.db", FakeClock(NOON + H1 - MINUTE), Work()
        async with opened(path) as store:
            async with hosting(planned, clock=clock, store=store, work=work) as at:
                store.dies_at, store.after_commit = store.calls + moment, after_commit
                for _ in range(3):
                    await at.passes(MINUTE)
            deaths += store.dead
        async with opened(path) as store, hosting(planned, clock=clock, store=store, work=work) as at:
            await at.passes(MINUTE)
            assert await at.started() == [H1], f"it died at its call {moment}"
            row = await at.row()
            assert (row.handled, row.last_result) == (NOON + H1, SlotResult.STARTED)
            assert {made.run_id for made in work.made} == {row.last_run_id}
    assert 10 < deaths < MOMENTS - 1


async def test_p23_slot_is_its_schedule_and_its_instant_whatever_else_has_been_edited(clock: FakeClock) -> None:
    """As after a crash between the start and what is kept of it; meanwhile everything but the cron line is edited."""
    work = Work()
    async with opened() as store:
        async with hosting(schedule(), clock=clock, store=store, work=work) as at:
            await at.passes(HOUR)
            started = await at.row()
            await at.amend(handled=NOON + 1, last_run_id=None)
        edited = schedule(workflow="other", context={"x": 1}, tags={"y": "z"}, overlap="allow", catch_up="all")
        async with hosting(edited, clock=clock, store=store, work=work) as at:
            assert await at.started() == [H1]
            assert [made.workflow for made in work.made] == ["report"]
            assert await at.row() == replace(started, updated_at=clock.now())


async def test_p23_another_schedule_or_a_caller_may_have_the_same_instant_as_key(clock: FakeClock) -> None:
    async with hosting(schedule("a"), schedule("b"), clock=clock) as at:
        key = instant(NOON + H1)
        await at.service.start(StartRequest(workflow="report", key=key))
        await at.passes(HOUR)
        assert await at.started() == [H1, H1]
        assert [run.key for run in await at.store.runs(RunFilter(), limit=9)] == [key] * 3


# Edits


async def test_new_cron_line_counts_from_the_restart_and_fires_no_slot_twice(clock: FakeClock) -> None:
    work = Work()
    async with opened() as store:
        async with hosting(schedule(), clock=clock, store=store, work=work) as at:
            await at.passes(HOUR + 30 * MINUTE)
            assert await at.started() == [H1]
        clock.advance(HOUR)
        async with hosting(schedule(cron="*/20 * * * *", catch_up="all"), clock=clock, store=store, work=work) as at:
            assert await at.started() == [H1]
            await at.passes(10 * MINUTE)
            assert await at.started() == [H1, H2 + 40 * MINUTE]
        # Back again, within the minute: the slots that both lines have are known.
        async with hosting(schedule(catch_up="all"), clock=clock, store=store, work=work) as at:
            await at.amend(handled=NOON)
            await at.passes(LOOK_MS)
            assert await at.started() == [H1, H2 + 40 * MINUTE, H2]


async def test_schedule_that_is_switched_off_starts_nothing_and_has_missed_nothing(clock: FakeClock) -> None:
    async with opened() as store:
        for enabled, expected in ((True, [H1]), (False, [H1]), (True, [H1, H3])):
            async with hosting(schedule(enabled=enabled, catch_up="all"), clock=clock, store=store) as at:
                await at.passes(HOUR)
                assert await at.started() == expected


async def test_new_schedule_makes_up_for_nothing(clock: FakeClock) -> None:
    clock.advance(30 * DAY)
    async with hosting(schedule(catch_up="all"), clock=clock) as at:
        assert await at.started() == []


# Clocks that are set (P22)


@pytest.mark.parametrize("back", [HOUR, 400 * DAY])
async def test_p22_clock_that_is_set_back_starts_no_slot_twice_and_silences_none(clock: FakeClock, back: int) -> None:
    async with hosting(schedule(), clock=clock) as at:
        await at.passes(HOUR)
        at.clock.jump_wall(-back)
        for _ in range(4):
            await at.passes(30 * MINUTE)
        again = [] if back == HOUR else [H1 - back + HOUR]
        expected = [H1, H2] if back == HOUR else [H1, *again, H1 - back + 2 * HOUR]
        assert await at.started() == expected


async def test_p22_clock_that_is_set_forward_is_noticed_and_what_it_jumped_over_is_made_up_for_once(
    clock: FakeClock,
) -> None:
    async with hosting(schedule(), clock=clock) as at:
        await at.passes(10 * MINUTE)
        at.clock.jump_wall(400 * DAY)
        await at.passes(LOOK_MS)
        assert await at.started() == [400 * DAY]
        await at.passes(LOOK_MS)
        assert await at.started() == [400 * DAY]


# Alone in its trouble (P25)


async def test_p25_schedule_that_hangs_or_raises_delays_no_other(clock: FakeClock) -> None:
    """What is asked about the run before never answers, or raises."""
    async with hosting(schedule("hangs"), schedule("raises"), schedule("well"), clock=clock) as at:
        await at.passes(HOUR)
        hung, broken = (await at.row("hangs")).last_run_id, (await at.row("raises")).last_run_id
        assert hung is not None
        assert broken is not None
        at.store.hides = {hung: None, broken: RuntimeError("a bug")}

        await at.passes(HOUR)
        assert await at.started() == [H1, H1, H1, H2]
        assert (await at.row("well")).last_slot == NOON + H2
        (said,) = at.telemetry.all(names.SCHEDULE_FAILED)
        assert (said["schedule"], said["error"]) == ("raises", "a bug")

        await at.passes(PATIENCE_MS)
        told = {(told["schedule"], told["error"]) for told in at.telemetry.all(names.SCHEDULE_FAILED)}
        assert told == {("raises", "a bug"), ("hangs", "not done within 30 s")}

        at.store.hides = {}
        await at.passes(PATIENCE_MS)
        await at.passes(LOOK_MS)
        assert sorted(await at.started()) == [H1, H1, H1, H2, H2, H2]


async def test_start_that_can_never_be_made_is_said_and_the_next_slot_gets_its_turn(clock: FakeClock) -> None:
    big = schedule("big", context={"text": "x" * 2_000_000})
    async with hosting(big, schedule("well"), clock=clock) as at:
        for _ in range(2):
            await at.passes(HOUR)
        assert await at.started() == [H1, H2]
        row = await at.row("big")
        assert (row.last_slot, row.last_result, row.last_run_id) == (NOON + H2, SlotResult.FAILED, None)
        assert len(at.telemetry.all(names.SCHEDULE_FAILED)) == 2
        assert "over the limit" in str(at.telemetry.all(names.SCHEDULE_FAILED)[0]["error"])


async def test_store_that_is_away_when_a_slot_comes_delays_it_and_loses_nothing(clock: FakeClock) -> None:
    async with hosting(schedule(), clock=clock) as at:
        at.store.dead = True
        await at.passes(HOUR)
        await at.passes(LOOK_MS)
        assert at.telemetry.all(names.STORE_UNAVAILABLE)
        at.store.dead = False
        await at.passes(LOOK_MS)
        assert await at.started() == [H1]
        assert (await at.row()).last_result is SlotResult.STARTED
