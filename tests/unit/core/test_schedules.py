"""What is due of a schedule, and what becomes of it: tables over the policies (P23, P24)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bext_workflow.core.schedules import MAX_CAUGHT_UP, ON_TIME_MS, Due, due, fate, in_force, settled
from bext_workflow.model.json import Json
from bext_workflow.model.schedule import CatchUp, Overlap, ScheduleDefinition, SlotResult
from bext_workflow.ports.store import ScheduleRow

HOUR = 3_600_000
T = 500_000 * HOUR
"""A full hour."""


def hourly(**fields: Json) -> ScheduleDefinition:
    return ScheduleDefinition(id="hourly", workflow="report", cron="0 * * * *", **fields)


def standing(**fields: Json) -> ScheduleRow:
    return ScheduleRow(id="hourly", rule=hourly().rule, **fields)


# Which slots are due


@pytest.mark.parametrize(
    ("catch_up", "late", "expected"),
    [
        ("latest", -1, Due()),
        ("latest", 0, Due(slots=(T,))),
        ("latest", 10 * ON_TIME_MS, Due(slots=(T,))),
        ("latest", 3 * HOUR + 5, Due(slots=(T + 3 * HOUR,), missed=(T, T + HOUR, T + 2 * HOUR))),
        ("all", -1, Due()),
        ("all", 0, Due(slots=(T,))),
        ("all", 3 * HOUR + 5, Due(slots=(T, T + HOUR, T + 2 * HOUR, T + 3 * HOUR))),
        ("skip", -1, Due()),
        ("skip", 0, Due(slots=(T,))),
        ("skip", ON_TIME_MS - 1, Due(slots=(T,))),
        ("skip", ON_TIME_MS, Due(missed=(T,))),
        ("skip", 2 * HOUR + 5, Due(slots=(T + 2 * HOUR,), missed=(T, T + HOUR))),
        ("skip", 2 * HOUR + ON_TIME_MS, Due(missed=(T, T + HOUR, T + 2 * HOUR))),
    ],
)
def test_p24_what_passed_unnoticed_is_made_up_for_by_the_catch_up_policy(
    catch_up: str, late: int, expected: Due
) -> None:
    assert due(hourly(catch_up=catch_up), standing(handled=T - HOUR), T + late) == expected


def test_all_that_is_made_up_for_has_a_bound() -> None:
    """The latest ones; a year that nobody served does not become 8,760 runs."""
    found = due(hourly(catch_up="all"), standing(handled=T - 10_000 * HOUR), T)
    assert found.slots == tuple(T - n * HOUR for n in reversed(range(MAX_CAUGHT_UP)))
    assert found.missed == (T - MAX_CAUGHT_UP * HOUR,)


def test_slot_that_has_been_dealt_with_is_not_due_again() -> None:
    for catch_up in CatchUp:
        assert due(hourly(catch_up=catch_up), standing(handled=T), T) == Due()
        assert due(hourly(catch_up=catch_up), standing(handled=T), T + HOUR) == Due(slots=(T + HOUR,))


# What becomes of a slot

B = SlotResult.BUFFERED


@pytest.mark.parametrize(
    ("overlap", "live", "buffered", "expected"),
    [
        (Overlap.SKIP, False, None, SlotResult.STARTED),
        (Overlap.SKIP, True, None, SlotResult.SKIPPED),
        (Overlap.ALLOW, False, None, SlotResult.STARTED),
        (Overlap.ALLOW, True, None, SlotResult.STARTED),
        (Overlap.BUFFER_ONE, False, None, SlotResult.STARTED),
        (Overlap.BUFFER_ONE, True, None, SlotResult.BUFFERED),
        (Overlap.BUFFER_ONE, True, T - HOUR, SlotResult.SKIPPED),
        (Overlap.BUFFER_ONE, False, T - HOUR, SlotResult.STARTED),
        # The policy has been edited while a slot waits: it waits on, or goes at once.
        (Overlap.SKIP, True, T - HOUR, SlotResult.SKIPPED),
        (Overlap.ALLOW, True, T - HOUR, SlotResult.STARTED),
    ],
)
def test_fate_of_a_slot(overlap: Overlap, live: bool, buffered: int | None, expected: SlotResult) -> None:
    assert fate(hourly(overlap=overlap), standing(handled=T - HOUR, buffered=buffered), live=live) is expected


def test_slot_that_is_settled_is_dealt_with() -> None:
    row = standing(handled=T - HOUR, last_run_id="r-1")

    for result in (SlotResult.SKIPPED, SlotResult.MISSED, SlotResult.FAILED):
        assert settled(row, T, result) == replace(row, handled=T, last_slot=T, last_result=result)
    assert settled(row, T, SlotResult.BUFFERED) == replace(row, handled=T, last_slot=T, last_result=B, buffered=T)
    started = settled(row, T, SlotResult.STARTED, run_id="r-2")
    assert started == replace(row, handled=T, last_slot=T, last_result=SlotResult.STARTED, last_run_id="r-2")


def test_slot_that_waited_leaves_what_was_dealt_with_since_alone() -> None:
    row = standing(handled=T + HOUR, buffered=T, last_slot=T + HOUR, last_result=SlotResult.SKIPPED, last_run_id="r-1")

    started = settled(row, T, SlotResult.STARTED, run_id="r-2")

    assert (started.handled, started.buffered) == (T + HOUR, None)
    assert (started.last_slot, started.last_run_id) == (T, "r-2")


def test_slot_that_passes_while_another_waits_does_not_take_its_place() -> None:
    row = standing(handled=T, buffered=T)
    assert settled(row, T + HOUR, SlotResult.SKIPPED).buffered == T


def test_slot_that_another_host_has_dealt_with_stays_as_it_is() -> None:
    row = standing(handled=T, last_slot=T, last_result=SlotResult.STARTED, last_run_id="r-1")
    assert settled(row, T, SlotResult.SKIPPED) == row
    assert settled(row, T - HOUR, SlotResult.STARTED, run_id="r-0") == row


# Edits, and clocks that are set


def test_new_schedule_has_missed_nothing() -> None:
    row = in_force(hourly(catch_up="all"), ScheduleRow(id="hourly"), T + 5)
    assert row == standing(handled=T + 5)
    assert due(hourly(catch_up="all"), row, T + 5) == Due()


def test_restart_with_the_same_rule_keeps_what_was_dealt_with() -> None:
    row = standing(handled=T - 9 * HOUR, paused=True)
    edited = hourly(overlap="allow", catch_up="all", context={"a": 1}, tags={"b": "c"}, version=2)
    assert in_force(edited, row, T) == row


@pytest.mark.parametrize(
    "edited",
    [
        ScheduleDefinition(id="hourly", workflow="report", cron="*/5 * * * *"),
        ScheduleDefinition(id="hourly", workflow="report", cron="0 * * * *", timezone="Asia/Kolkata"),
    ],
)
def test_p23_another_cron_or_zone_counts_from_now(edited: ScheduleDefinition) -> None:
    row = in_force(edited, standing(handled=T - 9 * HOUR, last_slot=T - 9 * HOUR, buffered=T - 9 * HOUR), T + 5)
    assert row == replace(standing(), rule=edited.rule, handled=T + 5, last_slot=T - 9 * HOUR, buffered=T - 9 * HOUR)


def test_schedule_that_was_switched_off_has_missed_nothing_when_it_is_switched_on() -> None:
    off = in_force(hourly(enabled=False), standing(handled=T), T + 5)
    assert in_force(hourly(enabled=False), off, T + HOUR) == off
    assert in_force(hourly(), off, T + 9 * HOUR).handled == T + 9 * HOUR


def test_clock_that_was_set_back_plans_again_what_comes_again() -> None:
    """The start key knows whether a slot has been started; without this a jump of 400 days would silence it (P22)."""
    row = in_force(hourly(), standing(handled=T + 9_600 * HOUR), T + 5)
    assert row.handled == T + 5
    assert due(hourly(), row, T + HOUR) == Due(slots=(T + HOUR,))
