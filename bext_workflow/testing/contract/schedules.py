"""What is kept of schedules, and who amends it."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from bext_workflow.errors import Conflict
from bext_workflow.model.schedule import SlotResult
from bext_workflow.ports.audit import AuditEntry, AuditRow
from bext_workflow.ports.store import ScheduleRow, Store
from bext_workflow.testing.contract.base import StoreCase, run_id

PAUSE = AuditEntry(
    name="schedule.pause",
    by="ada@example",
    reason="the “ledger” moves",
    about="schedule:nightly",
    data=b'{"paused":true}',
)


def paused(row: ScheduleRow) -> ScheduleRow:
    return replace(row, paused=True)


class SchedulesContract(StoreCase):
    async def test_every_field_of_a_schedule_is_kept(self, store: Store, other: Store) -> None:
        row = ScheduleRow(
            id="nightly",
            paused=True,
            rule="30 2 * * * Europe/Madrid",
            handled=3_000,
            buffered=2_000,
            last_slot=3_000,
            last_result=SlotResult.SKIPPED,
            last_run_id=run_id(1),
        )

        stands = await store.amend_schedule("nightly", lambda _: row, at=3_500)

        assert stands == replace(row, updated_at=3_500)
        assert list(await other.schedules()) == [stands]

    async def test_schedule_without_a_row_is_amended_from_an_empty_one(self, store: Store) -> None:
        seen = []

        def look(row: ScheduleRow) -> ScheduleRow:
            seen.append(row)
            return paused(row)

        for _ in range(2):
            await store.amend_schedule("nightly", look, at=1_000)

        assert seen == [ScheduleRow(id="nightly"), ScheduleRow(id="nightly", paused=True, updated_at=1_000)]

    async def test_schedules_are_listed_by_id(self, store: Store) -> None:
        assert list(await store.schedules()) == []

        for name in ("b", "a", "A", "c"):
            await store.amend_schedule(name, paused, at=1_000)

        assert [row.id for row in await store.schedules()] == ["A", "a", "b", "c"]

    async def test_amendment_and_its_audit_row_come_together(self, store: Store) -> None:
        await store.amend_schedule("nightly", paused, at=1_500, audit=PAUSE)

        (audit,) = await store.audit(limit=9)
        assert audit == AuditRow(
            id=audit.id,
            at=1_500,
            by="ada@example",
            name="schedule.pause",
            run_id="",
            about="schedule:nightly",
            reason="the “ledger” moves",
            data=b'{"paused":true}',
        )

    async def test_amendment_that_is_refused_leaves_nothing(self, store: Store) -> None:
        def refuse(row: ScheduleRow) -> ScheduleRow:
            raise Conflict(f"{row.id} is paused already")

        with pytest.raises(Conflict, match="nightly is paused"):
            await store.amend_schedule("nightly", refuse, at=1_000, audit=PAUSE)

        assert list(await store.schedules()) == []
        assert list(await store.audit(limit=9)) == []

    async def test_amendment_that_changes_nothing_writes_nothing(self, store: Store) -> None:
        await store.amend_schedule("nightly", paused, at=1_000)

        stands = await store.amend_schedule("nightly", paused, at=2_000, audit=PAUSE)

        assert stands == ScheduleRow(id="nightly", paused=True, updated_at=1_000)
        assert list(await store.schedules()) == [stands]
        assert list(await store.audit(limit=9)) == []

    async def test_amendments_of_several_processes_do_not_undo_one_another(self, store: Store, other: Store) -> None:
        def count(row: ScheduleRow) -> ScheduleRow:
            return replace(row, handled=(row.handled or 0) + 1)

        await asyncio.gather(
            *((store if number % 2 else other).amend_schedule("nightly", count, at=1_000) for number in range(20)),
            other.amend_schedule("nightly", paused, at=1_000),
        )

        (row,) = await store.schedules()
        assert (row.handled, row.paused) == (20, True)

    async def test_amendment_outlives_a_crash(self, store: Store) -> None:
        stands = await store.amend_schedule("nightly", lambda row: replace(row, handled=7), at=1_000)

        survivor = await self.crash(store)
        try:
            assert list(await survivor.schedules()) == [stands]
        finally:
            await survivor.close()
