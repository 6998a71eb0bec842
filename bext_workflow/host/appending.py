"""From a decision to the store's append: the text of its events, the index that follows from the state."""

from __future__ import annotations

from msgspec.structs import replace

from bext_workflow.core.decide import Decision
from bext_workflow.core.state import State, undo_key, visit_key
from bext_workflow.host import approvals
from bext_workflow.model.event import (
    Event,
    EvidenceAttached,
    IncidentOpened,
    IncidentResolved,
)
from bext_workflow.model.journal import rows
from bext_workflow.model.json import Json
from bext_workflow.model.status import Call
from bext_workflow.ports.store import Append, IncidentRow, Index


def index_of(state: State, *, wake_at: int | None, release: bool = False) -> Index:
    """What the run's row says of the state."""
    return Index(
        status=state.status,
        step=_step_of(state),
        wake_at=wake_at,
        failure=state.failure,
        started_at=state.started_at,
        ended_at=state.ended_at,
        release=release,
    )


def append_of(
    before: State, decision: Decision, *, rid: int, fence: int, inbox: int, at: int, index: Index, previous: Index
) -> Append:
    """The append that makes `decision` durable. `inbox`: the number of acts that it knew."""
    after = decision.state
    append = Append(
        rid=rid,
        fence=fence,
        seq=before.seq,
        inbox=inbox,
        at=at,
        events=rows(decision.events),
        index=index,
        previous=previous,
        taken=after.inbox,
    )
    if after.plan.definition.approvals:
        asked, decided = approvals.changes_of(before, decision, at)
        append = replace(append, asked=asked, decided=decided)
    if before.incidents == after.incidents and after.inbox == before.inbox:
        return append
    return _with_incidents(append, after, decision.events, at)


def _with_incidents(append: Append, after: State, events: list[Event], at: int) -> Append:
    opened: list[IncidentRow] = []
    resolved: list[tuple[str, Json]] = []
    evidence: list[tuple[str, Json]] = []
    for event in events:
        match event:
            case IncidentOpened():
                opened.append(_incident_row(after, event, at))
            case IncidentResolved():
                resolved.append((event.id, {"action": event.action, "note": event.note, "by": event.by}))
            case EvidenceAttached():
                evidence.append((event.id, event.evidence))
            case _:
                pass
    return replace(append, opened=tuple(opened), resolved=tuple(resolved), evidence=tuple(evidence))


def _incident_row(state: State, event: IncidentOpened, at: int) -> IncidentRow:
    return IncidentRow(
        id=event.id,
        run_id=state.run_id,
        workflow=state.workflow,
        kind=event.kind,
        call=event.call,
        step=event.step,
        visit=event.visit,
        attempt=event.attempt,
        reason=event.reason,
        actions=event.actions,
        evidence=event.evidence,
        traceback=event.traceback,
        key=_key_of(state, event),
        opened_at=at,
    )


def _key_of(state: State, event: IncidentOpened) -> str | None:
    if not event.step:
        return None
    place: str = state.places.get(str(event.branch), "")
    return (undo_key if event.call is Call.UNDO else visit_key)(state.run_id, event.step, event.visit, place)


def _step_of(state: State) -> str | None:
    """Where the run stands: the step that runs or is being undone; None once it has ended well."""
    if state.compensating and state.pending is not None:
        return state.pending.step
    return state.branches[0].step if state.branches else None
