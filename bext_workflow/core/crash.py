"""What follows the death of a host, and a result that comes too late (semantics §2, §6)."""

from __future__ import annotations

from bext_workflow.core import backward, forward
from bext_workflow.core.draft import Draft
from bext_workflow.core.incidents import open_completion_failed, open_for_branch, open_for_undo, open_poison
from bext_workflow.core.input import Late, Lost, Recovered
from bext_workflow.core.state import POISON_AFTER, Phase
from bext_workflow.model import event
from bext_workflow.model.event import ActIgnored, EvidenceAttached
from bext_workflow.model.status import IncidentKind

_DIED = Lost(reason="the host died during the attempt")


def recovered(draft: Draft, given: Recovered) -> None:
    """A host took the run over: what may be repeated is due again, what may not is in doubt."""
    suspect = draft.state.suspect
    draft.add(event.Recovered(host=given.host, fence=given.fence))
    if draft.state.recoveries >= POISON_AFTER and not draft.state.incidents:
        if not draft.state.status.terminal:
            open_poison(draft)
        elif draft.state.notices:
            open_completion_failed(draft, "the host died each time that on_workflow_complete was called")
        return
    for branch in draft.state.branches:
        if branch.phase is Phase.STARTED:
            forward.lost_in_doubt(draft, branch, _DIED, crashed=True)
        elif branch.phase is Phase.IN_DOUBT and suspect and not draft.state.incidents:
            # `verify_step` itself may be what kills the hosts: a person is asked instead.
            open_for_branch(draft, branch, IncidentKind.IN_DOUBT)
    undo, entry = draft.state.undo, draft.state.pending
    if undo is None or entry is None:
        return
    if undo.phase is Phase.STARTED:
        backward.lost_in_doubt(draft, _DIED, crashed=True)
    elif undo.phase is Phase.IN_DOUBT and suspect and not draft.state.incidents:
        open_for_undo(draft, entry, undo, IncidentKind.IN_DOUBT)


def late(draft: Draft, given: Late) -> None:
    """A result of an attempt that was given up: evidence for the incident that waits, if it still does."""
    for incident in draft.state.incidents:
        subject = (incident.call, incident.step, incident.visit, incident.attempt)
        if incident.kind is IncidentKind.IN_DOUBT and subject == (
            given.call,
            given.step,
            given.visit,
            given.attempt,
        ):
            draft.add(EvidenceAttached(act=given.act, id=incident.id, evidence=given.evidence))
            return
    draft.add(ActIgnored(act=given.act, kind="late", reason="nobody waits for this result any more"))
