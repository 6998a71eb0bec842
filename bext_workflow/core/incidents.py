"""Opening incidents: what a person must decide, and the answers that each kind takes (the table of semantics §5)."""

from __future__ import annotations

from collections.abc import Collection

from bext_workflow.core.draft import Draft
from bext_workflow.core.forks import undo_target
from bext_workflow.core.state import Branch, Incident, Undo
from bext_workflow.model.event import IncidentOpened, IncidentResolved
from bext_workflow.model.run import Completed
from bext_workflow.model.status import Action, Call, IncidentKind

_IN_DOUBT = (Action.DONE, Action.NOT_DONE, Action.FAIL, Action.FAIL_UNDO)
_IN_DOUBT_UNDO = (Action.DONE, Action.NOT_DONE, Action.FAIL)
_COMPENSATION_FAILED = (Action.RETRY, Action.UNDONE, Action.SKIP, Action.CLOSE)
_EXHAUSTED = (Action.RETRY, Action.DONE, Action.FAIL, Action.CLOSE)
_STUCK = (Action.RETRY, Action.DONE, Action.CLOSE)
_STUCK_AT_JOIN = (Action.DONE, Action.CLOSE)
_POISON = (Action.RETRY, Action.CANCEL)
_POISON_NO_WAY_BACK = (Action.RETRY, Action.CLOSE)
_COMPLETION_FAILED = (Action.RETRY, Action.CLOSE)


def void_under_a_stop(draft: Draft, by: str) -> None:
    """Questions that a stop answers: whether to try again what now is not to be done at all."""
    for incident in draft.state.incidents:
        if incident.kind in (IncidentKind.EXHAUSTED, IncidentKind.POISON):
            _void(draft, incident, by, "the run was stopped")


def void_of_branches(draft: Draft, branches: Collection[int], note: str) -> None:
    """The same, for some branches only, and for those that are stuck past a pivot too."""
    for incident in draft.state.incidents:
        asks = incident.kind in (IncidentKind.EXHAUSTED, IncidentKind.STUCK_AFTER_PIVOT)
        if asks and incident.branch in branches:
            _void(draft, incident, "host", note)


def _void(draft: Draft, incident: Incident, by: str, note: str) -> None:
    draft.add(IncidentResolved(id=incident.id, kind=incident.kind, action=Action.CANCEL, note=note, by=by))


def open_for_branch(
    draft: Draft,
    branch: Branch,
    kind: IncidentKind,
    *,
    reason: str = "",
    traceback: str | None = None,
    unknown: bool = False,
) -> None:
    """`in_doubt`, `exhausted` or `stuck_after_pivot`. In doubt, reason and evidence are those of the lost attempt."""
    lost = branch.lost
    actions = {IncidentKind.IN_DOUBT: _IN_DOUBT, IncidentKind.EXHAUSTED: _EXHAUSTED}.get(kind, _STUCK)
    draft.add(
        IncidentOpened(
            id=draft.incident_id(),
            kind=kind,
            actions=actions,
            branch=branch.id,
            step=branch.step,
            visit=branch.visit,
            attempt=branch.attempt,
            reason=reason or (lost.reason if lost else ""),
            evidence=lost.evidence if lost else None,
            traceback=traceback or (lost.traceback if lost else None),
            unknown=unknown,
        )
    )


def open_for_join(draft: Draft, parent: Branch, reason: str) -> None:
    """Past a pivot, branches that cannot be merged: a person says what counts. To try again would change nothing."""
    draft.add(
        IncidentOpened(
            id=draft.incident_id(),
            kind=IncidentKind.STUCK_AFTER_PIVOT,
            actions=_STUCK_AT_JOIN,
            branch=parent.id,
            step=parent.step,
            visit=parent.visit,
            attempt=parent.attempt,
            reason=reason,
        )
    )


def open_for_undo(
    draft: Draft, entry: Completed, undo: Undo, kind: IncidentKind, *, reason: str = "", traceback: str | None = None
) -> None:
    """`in_doubt` of an undo, or `compensation_failed`."""
    lost = undo.lost
    draft.add(
        IncidentOpened(
            id=draft.incident_id(),
            kind=kind,
            actions=_IN_DOUBT_UNDO if kind is IncidentKind.IN_DOUBT else _COMPENSATION_FAILED,
            call=Call.UNDO,
            branch=entry.branch,
            step=entry.step,
            visit=entry.visit,
            attempt=undo.attempt,
            reason=reason or (lost.reason if lost else ""),
            evidence=lost.evidence if lost else None,
            traceback=traceback or (lost.traceback if lost else None),
        )
    )


def open_poison(draft: Draft) -> None:
    """The run has taken its hosts down too often."""
    state = draft.state
    undoes = state.undo is not None and undo_target(state) is not None
    at = undo_target(state) if undoes else next(iter(state.live), None)
    way_back = not undoes and not state.pivoted
    draft.add(
        IncidentOpened(
            id=draft.incident_id(),
            kind=IncidentKind.POISON,
            actions=_POISON if way_back else _POISON_NO_WAY_BACK,
            call=Call.UNDO if undoes else Call.STEP,
            step=at.step if at else "",
            visit=at.visit if at else 0,
            reason=f"{state.recoveries} hosts in a row died while they drove this run",
        )
    )


def open_completion_failed(draft: Draft, reason: str) -> None:
    """`on_workflow_complete` cannot be brought to return."""
    draft.add(
        IncidentOpened(
            id=draft.incident_id(),
            kind=IncidentKind.COMPLETION_FAILED,
            actions=_COMPLETION_FAILED,
            call=Call.COMPLETE,
            attempt=draft.state.notices[0].attempt,
            reason=reason,
        )
    )
