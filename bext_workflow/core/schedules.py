"""What is to be done about a schedule now: which planned instants (slots) are due, and what becomes of each (P23, P24).

All of it is a function of the definition, of what is kept (`ScheduleRow`), and of the time that is handed in. A slot is
dealt with once `handled` has reached it; that it starts one run at most is the start key's work, so that nothing here
has to be remembered for it.
"""

from __future__ import annotations

from typing import assert_never

import msgspec
from msgspec.structs import replace

from bext_workflow.model.schedule import CatchUp, Overlap, ScheduleDefinition, SlotResult
from bext_workflow.ports.store import ScheduleRow

ON_TIME_MS = 60_000
"""A slot that is not a minute old has not been missed, whatever kept it waiting."""

MAX_CAUGHT_UP = 100
"""The most slots that `catch_up = "all"` makes up for; the latest ones."""


class Due(msgspec.Struct, frozen=True):
    """The slots to start, in order, and those before them that are given up (of very many the latest only)."""

    slots: tuple[int, ...] = ()
    missed: tuple[int, ...] = ()


def in_force(schedule: ScheduleDefinition, row: ScheduleRow, now: int) -> ScheduleRow:
    """The row from `now` on: a schedule that is new, switched on or planned by another rule has missed nothing yet.

    After the clock was set back the slots that come again are planned again; their start keys know them.
    """
    rule = schedule.rule if schedule.enabled else ""
    if row.rule != rule:
        return replace(row, rule=rule, handled=now)
    return row if row.handled is None or row.handled <= now else replace(row, handled=now)


def due(schedule: ScheduleDefinition, row: ScheduleRow, now: int) -> Due:
    """What has come round since `handled`, by the catch-up policy."""
    since = now if row.handled is None else row.handled
    found = schedule.times.last(since, now, most=MAX_CAUGHT_UP + 1)
    match schedule.catch_up:
        case CatchUp.ALL:
            first = max(0, len(found) - MAX_CAUGHT_UP)
        case CatchUp.LATEST:
            first = max(0, len(found) - 1)
        case CatchUp.SKIP:
            first = sum(slot <= now - ON_TIME_MS for slot in found)
        case _:
            assert_never(schedule.catch_up)
    return Due(slots=found[first:], missed=found[:first])


def fate(schedule: ScheduleDefinition, row: ScheduleRow, *, live: bool) -> SlotResult:
    """What the next slot's is: STARTED, or, while the run before is live, SKIPPED or BUFFERED by the overlap policy."""
    if not live or schedule.overlap is Overlap.ALLOW:
        return SlotResult.STARTED
    if schedule.overlap is Overlap.BUFFER_ONE and row.buffered is None:
        return SlotResult.BUFFERED
    return SlotResult.SKIPPED


def settled(row: ScheduleRow, slot: int, result: SlotResult, *, run_id: str | None = None) -> ScheduleRow:
    """The row once that has become of the slot; as it is, if another host has dealt with the slot meanwhile."""
    waited = row.buffered == slot
    if not waited and row.handled is not None and row.handled >= slot:
        return row
    buffered = None if waited else row.buffered
    return replace(
        row,
        handled=row.handled if waited else slot,
        buffered=slot if result is SlotResult.BUFFERED else buffered,
        last_slot=slot,
        last_result=result,
        last_run_id=run_id or row.last_run_id,
    )
