"""The visits of a run, as its journal tells them: what the `steps` of a run show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import msgspec

from bext_workflow.core.state import Branch, Phase, State, visit_key
from bext_workflow.core.work import left_in_place
from bext_workflow.model import event as events
from bext_workflow.model.event import Event
from bext_workflow.model.run import newest_first
from bext_workflow.model.status import Call, IncidentKind, WaitEnd
from bext_workflow.model.view import StepView, instant

Journal: TypeAlias = Sequence[tuple[Event, int]]
"""A run's events, each with its instant in ms."""


def steps_of(state: State, journal: Journal) -> list[StepView]:
    """Every visit in the order in which it was entered or first acted, as the journal tells its story."""
    steps = _Steps(state)
    for event, at in journal:
        steps.tell(event, at)
    for branch in state.branches:
        steps.stand(branch)
    if left_in_place(state):
        for entry in newest_first(state.pending):
            if not state.plan.step(entry.step).waits:
                steps.change(entry.branch, entry.step, entry.visit, status="left_in_place")
    return steps.views()


class _OfVisit(Protocol):
    """An event of one visit."""

    @property
    def branch(self) -> int: ...
    @property
    def step(self) -> str: ...
    @property
    def visit(self) -> int: ...


class _Steps:
    """Collects the visits; each event changes one of them."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._views: dict[tuple[str, int], StepView] = {}

    def views(self) -> list[StepView]:
        return list(self._views.values())

    def change(self, branch: int, step: str, visit: int, **changes: object) -> None:
        place: str = self._state.places.get(str(branch), "")
        key = visit_key(self._state.run_id, step, visit, place)
        known = self._views.get((step + place, visit)) or StepView(
            step=step, visit=visit, branch=branch, status="running", attempts=0, idempotency_key=key
        )
        if self._state.plan.step(step).hosted:
            changes["attempts"] = 0  # no code is called there
        self._views[step + place, visit] = msgspec.structs.replace(known, **changes)

    def _told(self, event: _OfVisit, **changes: object) -> None:
        self.change(event.branch, event.step, event.visit, **changes)

    def tell(self, event: Event, at: int) -> None:
        match event:
            case events.AttemptStarted(call=Call.STEP):
                self._told(event, status="running", attempts=event.attempt)
            case events.AttemptFailed(call=Call.STEP):
                self._told(
                    event,
                    status="retrying",
                    attempts=event.attempt,
                    reason=event.reason,
                    retry_at=instant(event.retry_at),
                )
            case events.AttemptLost(call=Call.STEP):
                self._told(event, status="in_doubt", attempts=event.attempt, reason=event.reason)
            case events.StepCompleted():
                self._told(event, status="completed", attempts=event.attempt, retry_at=None, ended_at=instant(at))
            case events.StepFailed():
                self._told(
                    event,
                    status="failed",
                    attempts=event.attempt,
                    reason=event.reason,
                    retry_at=None,
                    ended_at=instant(at),
                )
            case events.BranchSettled():
                self._told(event, status="stopped", reason=event.reason, retry_at=None, ended_at=instant(at))
            case _:
                self._tell_wait(event, at)
                self._tell_child(event)
                self._tell_undo(event, at)

    def _tell_wait(self, event: Event, at: int) -> None:
        """Of a step of the host's own; another one is completed before it waits, and stays so."""
        match event:
            case events.WaitOpened():
                self._told(event, status="waiting")
            case events.WaitEnded(completes=True):
                self._told(event, status="completed", ended_at=instant(at))
            case events.WaitEnded(how=WaitEnd.STOP) if self._state.plan.step(event.step).hosted:
                self._told(event, status="stopped", ended_at=instant(at))
            case _:
                return

    def _tell_child(self, event: Event) -> None:
        match event:
            case events.ChildStarted():
                self._told(event, status="running", child=event.run_id)
            case events.ChildUndoAsked():
                self._told(event, status="undoing")
            case _:
                return

    def _tell_undo(self, event: Event, at: int) -> None:
        match event:
            case events.AttemptStarted(call=Call.UNDO):
                self._told(event, status="undoing")
            case events.AttemptFailed(call=Call.UNDO) | events.AttemptLost(call=Call.UNDO):
                self._told(event, status="undoing", reason=event.reason)
            case events.StepCompensated():
                self._told(event, status="compensated", undone_at=instant(at))
            case events.UndoSkipped():
                self._told(event, status="left_in_place")
            case events.IncidentOpened(kind=IncidentKind.EXHAUSTED | IncidentKind.STUCK_AFTER_PIVOT):
                self._told(event, status="held", attempts=event.attempt, reason=event.reason)
            case events.IncidentOpened(kind=IncidentKind.COMPENSATION_FAILED):
                self._told(event, status="undoing", reason=event.reason)
            case _:
                return

    def stand(self, branch: Branch) -> None:
        """The visit at which a live branch stands, of which the journal may say nothing yet."""
        state = self._state
        if branch.phase is Phase.WAITING and branch.child is None:
            self.change(branch.id, branch.step, branch.visit, status="waiting")
        elif branch.phase is Phase.READY and state.started_at is not None:
            known = self._views.get((branch.step + branch.place, branch.visit))
            retrying = known is not None and known.status == "retrying"
            status = "retrying" if retrying and branch.ready_at > state.updated_at else "running"
            self.change(branch.id, branch.step, branch.visit, status=status)
