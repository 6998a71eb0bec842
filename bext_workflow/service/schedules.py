"""Schedules as people and programs see them, and the runs that they start."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from itertools import islice

from msgspec.structs import replace

from bext_workflow.errors import Conflict, NotFound, UsageError
from bext_workflow.model.definition import WorkflowDefinition
from bext_workflow.model.event import RunCreated
from bext_workflow.model.json import EMPTY, detach, dumps
from bext_workflow.model.schedule import SCHEDULE_TAG, SCHEDULED_AT_TAG, Overlap, ScheduleDefinition
from bext_workflow.model.view import FireView, ScheduleView, instant, instant_or_none
from bext_workflow.plugin.registry import Registry, Scheduled
from bext_workflow.ports.audit import AuditEntry
from bext_workflow.ports.clock import Clock
from bext_workflow.ports.store import RunRow, ScheduleRow, Store
from bext_workflow.service.caller import Who
from bext_workflow.service.protocols import DEFAULT_FIRES, MAX_LIMIT, Started, StartRequest, TriggerRequest
from bext_workflow.service.service import Service
from bext_workflow.service.starting import NewRun, fingerprint_of


def run_of_slot(
    schedule: ScheduleDefinition,
    definition: WorkflowDefinition,
    slot: int,
    *,
    run_id: str,
    at: int,
    context_bytes: int,
    children: dict[str, tuple[int, str]],
) -> NewRun:
    """The run of a planned instant. Raises `InvalidJson`.

    Its start key is the instant, in a space of the schedule's own: the slot starts one run, whatever else of the
    schedule has been edited since (P23).
    """
    context = detach(schedule.context, max_bytes=context_bytes, what="the context")
    tags = {**schedule.tags, SCHEDULE_TAG: schedule.id, SCHEDULED_AT_TAG: instant(slot)}
    created = RunCreated(
        run_id=run_id,
        workflow=definition.id,
        version=definition.version,
        digest=definition.digest,
        context=context if context.value else EMPTY,
        tags=tags,
        key=instant(slot),
        by=f"schedule:{schedule.id}",
        children=children,
        policy=definition.policy,
    )
    return NewRun(
        created=created,
        first_step=definition.first,
        at=at,
        fingerprint=fingerprint_of(context.value, tags),
        key_space=f"schedule:{schedule.id}",
    )


async def live_run(store: Store, row: ScheduleRow) -> RunRow | None:
    """The last run of the schedule, if it has not ended."""
    found = await store.find(row.last_run_id, limit=1) if row.last_run_id is not None else ()
    return found[0] if found and not found[0].status.terminal else None


class ScheduleService:
    """`service.protocols.Schedules` over the config's schedules and a store, with or without a host in this process."""

    def __init__(self, *, registry: Registry, store: Store, service: Service, clock: Clock, who: Who) -> None:
        self._registry = registry
        self._store = store
        self._service = service
        self._clock = clock
        self._who = who

    async def schedules(self) -> Sequence[ScheduleView]:
        rows = {row.id: row for row in await self._store.schedules()}
        return [
            _view(one, rows.get(id_, ScheduleRow(id=id_)), self._clock.now())
            for id_, one in sorted(self._registry.schedules.items())
        ]

    async def schedule(self, schedule_id: str) -> ScheduleView:
        one = self._find(schedule_id)
        return _view(one, await self._row(schedule_id), self._clock.now())

    async def fires(self, schedule_id: str, *, limit: int = DEFAULT_FIRES) -> Sequence[FireView]:
        times = self._find(schedule_id).definition.times
        if not 1 <= limit <= MAX_LIMIT:
            raise UsageError(f"the limit is {limit}", mend=f"use 1 to {MAX_LIMIT}")
        found = islice(times.after(self._clock.now()), limit)
        return [FireView(at=instant(slot), local=times.local(slot)) for slot in found]

    async def pause_schedule(self, schedule_id: str, reason: str) -> ScheduleView:
        return await self._set_paused(schedule_id, reason, paused=True)

    async def resume_schedule(self, schedule_id: str, reason: str) -> ScheduleView:
        return await self._set_paused(schedule_id, reason, paused=False)

    async def trigger_schedule(self, schedule_id: str, request: TriggerRequest) -> Started:
        schedule = self._find(schedule_id).definition
        live = await live_run(self._store, await self._row(schedule_id))
        if live is not None and schedule.overlap is not Overlap.ALLOW and not _repeated(request, live):
            raise _overlapping(schedule, live)
        started = await self._service.start_in(
            f"trigger:{schedule_id}",
            StartRequest(
                workflow=schedule.workflow,
                version=schedule.version,
                context=schedule.context,
                tags={**schedule.tags, SCHEDULE_TAG: schedule_id},
                key=request.key,
            ),
            audit=AuditEntry(
                name="schedule.trigger", by=self._who().by, reason=request.reason, about=f"schedule:{schedule_id}"
            ),
        )
        if started.created:
            run_id = started.run.run_id
            await self._store.amend_schedule(
                schedule_id, lambda row: replace(row, last_run_id=run_id), at=self._clock.now()
            )
        return started

    async def _set_paused(self, schedule_id: str, reason: str, *, paused: bool) -> ScheduleView:
        one = self._find(schedule_id)

        def amend(row: ScheduleRow) -> ScheduleRow:
            if row.paused is paused:
                raise Conflict(f"the schedule {schedule_id!r} is {'paused already' if paused else 'not paused'}")
            return replace(row, paused=paused)

        name = "schedule.pause" if paused else "schedule.resume"
        data = dumps({"before": {"paused": not paused}, "after": {"paused": paused}})
        audit = AuditEntry(name=name, by=self._who().by, reason=reason, about=f"schedule:{schedule_id}", data=data)
        now = self._clock.now()
        return _view(one, await self._store.amend_schedule(schedule_id, amend, at=now, audit=audit), now)

    async def _row(self, schedule_id: str) -> ScheduleRow:
        rows = {row.id: row for row in await self._store.schedules()}
        return rows.get(schedule_id, ScheduleRow(id=schedule_id))

    def _find(self, schedule_id: str) -> Scheduled:
        known = self._registry.schedules
        if schedule_id in known:
            return known[schedule_id]
        near = get_close_matches(schedule_id, known, n=1)
        there = f"there are: {', '.join(sorted(known)) or 'none'}"
        raise NotFound(f"no schedule {schedule_id!r}", mend=f"did you mean {near[0]!r}?" if near else there)


def _repeated(request: TriggerRequest, live: RunRow) -> bool:
    """Whether the live run is that of this very trigger, whose answer was lost."""
    return request.key is not None and request.key == live.key


def _overlapping(schedule: ScheduleDefinition, live: RunRow) -> Conflict:
    return Conflict(
        f"run {live.run_id} of the schedule {schedule.id!r} is {live.status}, and its overlap is {schedule.overlap}",
        mend="wait for its end, or start the workflow itself with `runs start`",
    )


def _view(one: Scheduled, row: ScheduleRow, now: int) -> ScheduleView:
    schedule = one.definition
    asleep = row.paused or not schedule.enabled
    return ScheduleView(
        id=schedule.id,
        plugin=one.plugin,
        workflow=schedule.workflow,
        version=schedule.version,
        cron=schedule.cron,
        timezone=schedule.timezone,
        overlap=schedule.overlap,
        catch_up=schedule.catch_up,
        context=schedule.context,
        tags=schedule.tags,
        enabled=schedule.enabled,
        paused=row.paused,
        next_at=None if asleep else instant_or_none(next(schedule.times.after(now), None)),
        last_slot=instant_or_none(row.last_slot),
        last_result=row.last_result,
        last_run_id=row.last_run_id,
        buffered_slot=instant_or_none(row.buffered),
    )
