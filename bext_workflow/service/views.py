"""From rows, events and states to what faces show."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bext_workflow.core.state import Branch, Phase, State, undo_key, visit_key
from bext_workflow.core.work import left_in_place
from bext_workflow.model import event as events
from bext_workflow.model.event import Event
from bext_workflow.model.json import loads
from bext_workflow.model.run import newest_first
from bext_workflow.model.status import Call, IncidentKind, WorkflowStatus
from bext_workflow.model.view import (
    EventView,
    IncidentView,
    Resolution,
    RunView,
    StepView,
    instant,
    instant_or_none,
)
from bext_workflow.ports.store import EventRow, IncidentRow, RunRow
from bext_workflow.service.starting import NewRun

Journal = Sequence[tuple[Event, int]]


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
        key=created.key,
        tags=created.tags,
        created_at=at,
        started_at=at if created.begun else None,
        updated_at=at,
    )


def whole(row: RunRow, state: State, journal: Journal) -> RunView:
    """A run with its steps and its context."""
    return msgspec.structs.replace(
        summary(row),
        steps=steps_of(state, journal),
        context=state.context.to_dict(),
        left_in_place=list(left_in_place(state)),
        holds=[incident.id for incident in state.incidents],
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
        idempotency_key=_key_in_question(row),
        reason=row.reason,
        actions=list(row.actions),
        evidence=row.evidence,
        traceback=row.traceback,
        opened_at=instant(row.opened_at),
        resolved_at=instant_or_none(row.resolved_at),
        resolution=msgspec.convert(row.resolution, Resolution | None),
    )


def _key_in_question(row: IncidentRow) -> str | None:
    if not row.step:
        return None
    return (undo_key if row.call is Call.UNDO else visit_key)(row.run_id, row.step, row.visit)


def steps_of(state: State, journal: Journal) -> list[StepView]:
    """Every visit in the order in which it was entered or first acted, as the journal tells its story."""
    steps = _Steps(state.run_id)
    for event, at in journal:
        steps.tell(event, at)
    for branch in state.branches:
        steps.stand(branch, state)
    if left_in_place(state):
        for entry in newest_first(state.pending):
            steps.change(entry.step, entry.visit, status="left_in_place")
    return steps.views()


class _Steps:
    """Collects the visits; each event changes one of them."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._views: dict[tuple[str, int], StepView] = {}

    def views(self) -> list[StepView]:
        return list(self._views.values())

    def change(self, step: str, visit: int, **changes: object) -> None:
        known = self._views.get((step, visit)) or StepView(
            step=step, visit=visit, status="running", attempts=0, idempotency_key=visit_key(self._run_id, step, visit)
        )
        self._views[step, visit] = msgspec.structs.replace(known, **changes)

    def tell(self, event: Event, at: int) -> None:
        match event:
            case events.AttemptStarted(call=Call.STEP):
                self.change(event.step, event.visit, status="running", attempts=event.attempt)
            case events.AttemptFailed(call=Call.STEP):
                retry_at = instant(event.retry_at)
                self.change(
                    event.step,
                    event.visit,
                    status="retrying",
                    attempts=event.attempt,
                    reason=event.reason,
                    retry_at=retry_at,
                )
            case events.AttemptLost(call=Call.STEP):
                self.change(event.step, event.visit, status="in_doubt", attempts=event.attempt, reason=event.reason)
            case events.StepCompleted():
                self.change(
                    event.step,
                    event.visit,
                    status="completed",
                    attempts=event.attempt,
                    retry_at=None,
                    ended_at=instant(at),
                )
            case events.StepFailed():
                self.change(
                    event.step,
                    event.visit,
                    status="failed",
                    attempts=event.attempt,
                    reason=event.reason,
                    retry_at=None,
                    ended_at=instant(at),
                )
            case events.BranchSettled():
                self.change(
                    event.step, event.visit, status="stopped", reason=event.reason, retry_at=None, ended_at=instant(at)
                )
            case _:
                self._tell_undo(event, at)

    def _tell_undo(self, event: Event, at: int) -> None:
        match event:
            case events.AttemptStarted(call=Call.UNDO):
                self.change(event.step, event.visit, status="undoing")
            case events.AttemptFailed(call=Call.UNDO) | events.AttemptLost(call=Call.UNDO):
                self.change(event.step, event.visit, status="undoing", reason=event.reason)
            case events.StepCompensated():
                self.change(event.step, event.visit, status="compensated", undone_at=instant(at))
            case events.UndoSkipped():
                self.change(event.step, event.visit, status="left_in_place")
            case events.IncidentOpened(kind=IncidentKind.EXHAUSTED | IncidentKind.STUCK_AFTER_PIVOT):
                self.change(event.step, event.visit, status="held", attempts=event.attempt, reason=event.reason)
            case events.IncidentOpened(kind=IncidentKind.COMPENSATION_FAILED):
                self.change(event.step, event.visit, status="undoing", reason=event.reason)
            case _:
                return

    def stand(self, branch: Branch, state: State) -> None:
        """The visit at which a live branch stands, of which the journal may say nothing yet."""
        if branch.phase is Phase.READY and state.started_at is not None:
            known = self._views.get((branch.step, branch.visit))
            waiting = known is not None and known.status == "retrying"
            status = "retrying" if waiting and branch.ready_at > state.updated_at else "running"
            self.change(branch.step, branch.visit, status=status)
