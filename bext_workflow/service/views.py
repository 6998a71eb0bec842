"""From rows, events and states to what faces show."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bext_workflow.core.state import State
from bext_workflow.core.work import left_in_place
from bext_workflow.model.json import loads
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.model.view import (
    PAUSED,
    EventView,
    IncidentView,
    Resolution,
    RunView,
    instant,
    instant_or_none,
)
from bext_workflow.ports.store import EventRow, InboxRow, IncidentRow, RunRow
from bext_workflow.service.starting import NewRun
from bext_workflow.service.steps import Journal, steps_of
from bext_workflow.service.waits import signals_of, waits_of


def summary(row: RunRow) -> RunView:
    """A run as lists show it."""
    return RunView(
        run_id=row.run_id,
        workflow=row.workflow,
        version=row.version,
        status=row.status,
        step=row.step,
        failure=row.failure,
        key=row.key,
        tags=row.tags,
        created_at=instant(row.created_at),
        started_at=instant_or_none(row.started_at),
        updated_at=instant(row.updated_at),
        ended_at=instant_or_none(row.ended_at),
    )


def just_created(new: NewRun) -> RunView:
    """A run as it is written by its start."""
    created = new.created
    at = instant(new.at)
    return RunView(
        run_id=created.run_id,
        workflow=created.workflow,
        version=created.version,
        status=WorkflowStatus.RUNNING if created.begun else WorkflowStatus.PENDING,
        step=new.first_step,
        steps=[],
        context=created.context.value,
        left_in_place=[],
        holds=[],
        waits=[],
        signals=[],
        parent=None,
        forked_from=created.forked_from,
        key=created.key,
        tags=created.tags,
        created_at=at,
        started_at=at if created.begun else None,
        updated_at=at,
    )


def whole(row: RunRow, state: State, journal: Journal, inbox: Sequence[InboxRow]) -> RunView:
    """A run with its steps and its context; `inbox` are the acts that no host has taken up yet."""
    return msgspec.structs.replace(
        summary(row),
        steps=steps_of(state, journal),
        context=state.context.to_dict(),
        left_in_place=list(left_in_place(state)),
        holds=[*(incident.id for incident in state.incidents), *([PAUSED] if state.paused else [])],
        waits=waits_of(state, journal),
        signals=signals_of(journal, inbox),
        parent=None if state.parent is None else state.parent.run_id,
        forked_from=state.forked_from,
    )


def event_view(row: EventRow) -> EventView:
    """A row of the journal, as it is kept."""
    return EventView(seq=row.seq, at=instant(row.at), kind=row.kind, data=loads(row.data))


def incident_view(row: IncidentRow) -> IncidentView:
    """An incident, with its answer if it has one."""
    return IncidentView(
        id=row.id,
        run_id=row.run_id,
        workflow=row.workflow,
        kind=row.kind,
        call=row.call,
        step=row.step,
        visit=row.visit,
        attempt=row.attempt,
        idempotency_key=row.key,
        reason=row.reason,
        actions=list(row.actions),
        evidence=row.evidence,
        traceback=row.traceback,
        opened_at=instant(row.opened_at),
        resolved_at=instant_or_none(row.resolved_at),
        resolution=msgspec.convert(row.resolution, Resolution | None),
    )
