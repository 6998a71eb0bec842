"""What follows the death of a host, and a result that comes too late (semantics §2, §6)."""

from __future__ import annotations

from bext_workflow.core import backward, forward
from bext_workflow.core.draft import Draft
from bext_workflow.core.forks import undo_target
from bext_workflow.core.incidents import open_completion_failed, open_for_branch, open_for_undo, open_poison
from bext_workflow.core.input import Late, Lost, Recovered
from bext_workflow.core.state import POISON_AFTER, Phase, State
from bext_workflow.model import event
from bext_workflow.model.event import ActIgnored, EvidenceAttached
from bext_workflow.model.status import Call, IncidentKind

_DIED = Lost(reason="the host died during the attempt")


def recovered(draft: Draft, given: Recovered) -> None:
    """A host took the run over: what may be repeated is due again, what may not is in doubt."""
    before = draft.state
    draft.add(event.Recovered(host=given.host, fence=given.fence))
    poison = draft.state.recoveries >= POISON_AFTER
    if not before.status.terminal:
        _cut_off_step(draft, before)
        _cut_off_undo(draft, before)
        if poison and _at_work(before) and not _person_asked(draft.state):
            open_poison(draft)
    if poison and any(notice.phase is Phase.STARTED for notice in before.notices):
        open_completion_failed(draft, "the host died each time that on_workflow_complete was called")


def _cut_off_step(draft: Draft, before: State) -> None:
    for branch in draft.state.branches:
        if branch.phase is Phase.STARTED:
            forward.lost_in_doubt(draft, branch, _DIED, crashed=True)
        elif branch.phase is Phase.IN_DOUBT and before.suspect and draft.state.incident_of(branch) is None:
            # `verify_step` itself may be what kills the hosts: a person is asked instead.
            open_for_branch(draft, branch, IncidentKind.IN_DOUBT)


def _cut_off_undo(draft: Draft, before: State) -> None:
    undo, entry = draft.state.undo, undo_target(draft.state)
    if undo is None or entry is None:
        return
    if undo.phase is Phase.STARTED:
        backward.lost_in_doubt(draft, _DIED, crashed=True)
    elif undo.phase is Phase.IN_DOUBT and before.suspect and not _person_asked(draft.state):
        open_for_undo(draft, entry, undo, IncidentKind.IN_DOUBT)


def _at_work(state: State) -> bool:
    """Whether a recorded attempt was running that would be made again. Under a stop no step is."""
    if state.undo is not None:
        return state.undo.phase is Phase.STARTED
    return state.stop is None and any(branch.phase is Phase.STARTED for branch in state.branches)


def _person_asked(state: State) -> bool:
    return any(incident.call is not Call.COMPLETE for incident in state.incidents)


def late(draft: Draft, given: Late) -> None:
    """A result of an attempt that was given up: evidence for the incident that waits, if it still does."""
    wanted = (given.call, given.place, given.step, given.visit, given.attempt)
    for incident in draft.state.incidents:
        place = draft.state.places.get(str(incident.branch), "")
        subject = (incident.call, place, incident.step, incident.visit, incident.attempt)
        if incident.kind is IncidentKind.IN_DOUBT and subject == wanted:
            draft.add(EvidenceAttached(act=given.act, id=incident.id, evidence=given.evidence))
            return
    draft.add(ActIgnored(act=given.act, kind="late", reason="nobody waits for this result any more"))
