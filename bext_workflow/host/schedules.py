"""Starts runs when their planned instants come round. What is due, and what becomes of it, `core.schedules` decides.

Crash-only: a slot is started first and dealt with in the schedule's row afterwards. Whatever happens in between, it is
due again, and its start key answers that it has been started (P23).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio
from anyio.abc import TaskGroup

from bext_workflow.core.schedules import due, fate, in_force, settled
from bext_workflow.errors import BextError, StoreUnavailable, Unavailable
from bext_workflow.host.shop import Shop
from bext_workflow.host.text import plain
from bext_workflow.model.schedule import ScheduleDefinition, SlotResult
from bext_workflow.model.view import instant
from bext_workflow.plugin.registry import Registry
from bext_workflow.ports import telemetry as names
from bext_workflow.ports.store import Committed, Existing, Refused, Result, ScheduleRow
from bext_workflow.service.schedules import live_run, run_of_slot
from bext_workflow.service.starting import NewRun

Start: TypeAlias = Callable[[NewRun], Awaitable[tuple[NewRun, Result]]]
"""The host's `create`."""

LOOK_MS = 1_000
"""How often the rows are read, and so how late a jump of the wall clock, a resume or an ended run is noticed."""

PATIENCE_MS = 30_000
"""What dealing with one schedule may take before it is given up until the next look."""


class Schedules:
    """One task that looks, and a short-lived one for each schedule that has something due: none waits for another."""

    def __init__(self, shop: Shop, registry: Registry, start: Start) -> None:
        self._shop = shop
        self._registry = registry
        self._start = start
        self._definitions = [one.definition for one in registry.schedules.values()]
        self._busy: set[str] = set()
        self._coming: dict[str, tuple[int | None, int | None]] = {}

    async def run(self) -> None:
        """Looks until it is cancelled. While the host drains nothing is started."""
        async with anyio.create_task_group() as tasks:
            while True:
                await self._shop.clock.sleep(await self._look(tasks))

    async def _look(self, tasks: TaskGroup) -> float:
        """Sees to what is due; returns how long nothing will be, in ms."""
        if self._shop.draining.is_set():
            return self._look_ms
        try:
            rows = {row.id: row for row in await self._shop.store.schedules()}
        except StoreUnavailable as error:
            self._shop.trouble.met("schedules", error)
            return self._look_ms
        self._shop.trouble.over("schedules")
        now = self._shop.clock.now()
        idle_ms = self._look_ms
        for schedule in self._definitions:
            row = rows.get(schedule.id, ScheduleRow(id=schedule.id))
            coming = self._next(schedule, row)
            if coming is not None and coming > now:
                idle_ms = min(idle_ms, coming - now)
            if schedule.id not in self._busy and _calls(schedule, row, coming, now):
                self._busy.add(schedule.id)
                tasks.start_soon(self._look_after, schedule, row, name=f"schedule {schedule.id}")
        return idle_ms

    @property
    def _look_ms(self) -> int:
        """As seldom as the store wants to be asked."""
        return max(LOOK_MS, self._shop.store.profile.poll_ms)

    def _next(self, schedule: ScheduleDefinition, row: ScheduleRow) -> int | None:
        """The first slot that has not been dealt with; worked out once for each `handled`."""
        handled, coming = self._coming.get(schedule.id, (None, None))
        if handled != row.handled and row.handled is not None:
            coming = next(schedule.times.after(row.handled), None)
            self._coming[schedule.id] = row.handled, coming
        return coming

    async def _look_after(self, schedule: ScheduleDefinition, row: ScheduleRow) -> None:
        """Deals with one schedule. Whatever breaks or hangs in it is said, and is tried again."""
        try:
            with anyio.CancelScope() as scope:
                deadline = self._shop.deadlines.arm(PATIENCE_MS, scope.cancel)
                try:
                    await self._deal_with(schedule, row)
                finally:
                    deadline.cancel()
            if scope.cancelled_caught:
                self._failed(schedule, f"not done within {PATIENCE_MS // 1000} s")
        except Unavailable:
            pass  # the next look meets the same trouble and says so
        except Exception as error:
            self._failed(schedule, plain(error), error)
            await self._shop.clock.sleep(PATIENCE_MS)
        finally:
            self._busy.discard(schedule.id)

    async def _deal_with(self, schedule: ScheduleDefinition, row: ScheduleRow) -> None:
        now = self._shop.clock.now()
        if in_force(schedule, row, now) != row:
            row = await self._amend(schedule, lambda stands: in_force(schedule, stands, now))
        if row.paused or not schedule.enabled:
            return
        if row.buffered is not None and await self._fate(schedule, row) is SlotResult.STARTED:
            row = await self._begin(schedule, row.buffered)
        found = due(schedule, row, now)
        if found.missed:
            row = await self._settle(schedule, found.missed[-1], SlotResult.MISSED, count=len(found.missed))
        for slot in found.slots:
            if self._shop.draining.is_set():
                return
            result = await self._fate(schedule, row)
            if result is SlotResult.STARTED:
                row = await self._begin(schedule, slot)
            else:
                row = await self._settle(schedule, slot, result)

    async def _fate(self, schedule: ScheduleDefinition, row: ScheduleRow) -> SlotResult:
        return fate(schedule, row, live=await live_run(self._shop.store, row) is not None)

    async def _begin(self, schedule: ScheduleDefinition, slot: int) -> ScheduleRow:
        """Starts the slot's run; what cannot be started at all is a result too, so that the next slot gets its turn."""
        try:
            run_id = await self._started(schedule, slot)
        except Unavailable:
            raise
        except BextError as error:
            self._failed(schedule, error.message)
            return await self._settle(schedule, slot, SlotResult.FAILED)
        return await self._settle(schedule, slot, SlotResult.STARTED, run_id=run_id)

    async def _started(self, schedule: ScheduleDefinition, slot: int) -> str | None:
        """The id of the slot's run, begun now or earlier; None of one that has been removed since."""
        served = self._registry.to_start(schedule)
        if served is None:
            raise BextError(f"the workflow {schedule.workflow!r} is not served here")
        new = run_of_slot(
            schedule,
            served.definition,
            slot,
            run_id=self._shop.chance.new_id(),
            at=self._shop.clock.now(),
            context_bytes=self._shop.context_bytes,
            children=await self._shop.definitions.children_of(served.definition),
        )
        _, result = await self._start(new)
        match result:
            case Committed():
                return new.created.run_id
            case Existing(run_id=run_id):
                return run_id
            case Refused(reason=reason):
                raise BextError(f"the store refused the start: {reason}")
            case _:
                raise RuntimeError(f"the store answered a start with {type(result).__name__}")

    async def _settle(
        self, schedule: ScheduleDefinition, slot: int, result: SlotResult, *, run_id: str | None = None, count: int = 1
    ) -> ScheduleRow:
        row = await self._amend(schedule, lambda stands: settled(stands, slot, result, run_id=run_id))
        self._shop.telemetry.add(names.SCHEDULE_SLOTS, count, schedule=schedule.id, result=result)
        if result is SlotResult.STARTED:
            self._shop.telemetry.log(
                names.SCHEDULE_STARTED, schedule=schedule.id, scheduled_at=instant(slot), run_id=run_id
            )
        elif result is not SlotResult.FAILED:
            self._shop.telemetry.log(
                names.SCHEDULE_PASSED, schedule=schedule.id, scheduled_at=instant(slot), result=str(result), slots=count
            )
        return row

    async def _amend(self, schedule: ScheduleDefinition, change: Callable[[ScheduleRow], ScheduleRow]) -> ScheduleRow:
        return await self._shop.store.amend_schedule(schedule.id, change, at=self._shop.clock.now())

    def _failed(self, schedule: ScheduleDefinition, error: str, cause: Exception | None = None) -> None:
        self._shop.telemetry.log(names.SCHEDULE_FAILED, schedule=schedule.id, error=error, exc_info=cause)


def _calls(schedule: ScheduleDefinition, row: ScheduleRow, coming: int | None, now: int) -> bool:
    """Whether there is something to see to."""
    if in_force(schedule, row, now) != row:
        return True
    if row.paused or not schedule.enabled:
        return False
    return row.buffered is not None or (coming is not None and coming <= now)
