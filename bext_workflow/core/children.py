"""Sub-workflows: a step that is a run of its own, the child; its end, its stop and its undo (semantics §5, §7).

A child is found by its start key, that of the visit. It tells its parent of each of its ends through the inbox, at
least once, and the parent counts them.
"""

from __future__ import annotations

from bext_workflow.core import backward, ending, visits
from bext_workflow.core.draft import Draft
from bext_workflow.core.forks import is_loser, undo_target
from bext_workflow.core.input import ChildCalled, ChildEnd, ChildStopped, ChildUndoing, Continued, Failed, ParentUndo
from bext_workflow.core.lineage import child_key, undone_child
from bext_workflow.core.state import Branch, Phase, State
from bext_workflow.core.work import left_in_place
from bext_workflow.errors import Conflict
from bext_workflow.model.event import (
    ActIgnored,
    ChildEnded,
    ChildStarted,
    ChildStopAsked,
    ChildUndoAsked,
    UndoRequested,
)
from bext_workflow.model.json import Document, JsonObject, dumps
from bext_workflow.model.status import IncidentKind, WorkflowStatus


def called(draft: Draft, given: ChildCalled) -> None:
    """The child is there, and may even have ended meanwhile."""
    branch = _by_key(draft.state, given.key)
    if branch is not None and branch.phase is Phase.READY:
        _start(draft, branch, given.run_id)


def stopped(draft: Draft, given: ChildStopped) -> None:
    """The child knows that it is to stop; its end settles the branch."""
    for branch in draft.state.branches:
        if branch.id == given.branch and branch.child == given.run_id:
            draft.add(
                ChildStopAsked(branch=branch.id, step=branch.step, visit=branch.visit, run_id=given.run_id),
            )


def undoing(draft: Draft, given: ChildUndoing) -> None:
    """The child knows that it is to be undone, or has nothing to undo, or will not."""
    entry, undo = undo_target(draft.state), draft.state.undo
    if entry is None or undo is None or undone_child(draft.state) != given.run_id or undo.phase is not Phase.READY:
        return  # the child has told its end before this was known here
    if given.undone:
        backward.off_the_list(draft, entry, attempt=undo.attempt)
    elif given.refused is not None:
        backward.undone(draft, Failed(reason=given.refused, compensate=True))
    else:
        draft.add(ChildUndoAsked(branch=entry.branch, step=entry.step, visit=entry.visit, run_id=given.run_id))


def ended(draft: Draft, given: ChildEnd) -> None:
    """A child has ended: its branch goes on, or fails, or settles; or the walk back goes on."""
    state = draft.state
    if given.ending <= state.child_endings.get(given.run_id, 0):
        draft.add(ActIgnored(act=given.act, kind="child", reason="this end of the child is known already"))
        return
    draft.add(ChildEnded(act=given.act, run_id=given.run_id, ending=given.ending, status=given.status))
    branch = _by_key(state, given.key)
    if branch is not None:
        if branch.phase is Phase.READY:
            _start(draft, branch, given.run_id)
        _go_on(draft, draft.state.branch(branch.id), given)
    elif not state.status.terminal and undone_child(state) == given.run_id:
        _walk_on(draft, given)


def undo_for_parent(draft: Draft, given: ParentUndo) -> None:
    """The parent walks back over this run. Raises `Conflict` where there is no way back (semantics §7)."""
    state = draft.state
    if being_undone(state):
        draft.add(ActIgnored(act=given.act, kind="undo", reason="it is being undone already"))
        return
    refuse_undo(state)
    draft.add(UndoRequested(act=given.act, by=given.by, reason=given.reason))
    ending.compensate(draft, state.failure or given.reason)


def refuse_undo(state: State) -> None:
    """Raises `Conflict` if this run cannot be undone by its parent."""
    if not state.status.terminal:
        raise Conflict(f"the child is {state.status}: it has not ended")
    if state.pivoted:
        raise Conflict(f"the child is {state.status} and a pivot step of it has completed: it cannot be undone")
    for incident in state.incidents:
        if incident.kind is IncidentKind.COMPENSATION_FAILED:
            raise Conflict(
                f"an undo of the child has failed: incident {incident.id}", mend="resolve the child's incident first"
            )
    if state.undo is not None:
        raise Conflict("the child is FAILED and a person has closed its undo", mend="undo the rest by hand")


def being_undone(state: State) -> bool:
    """Whether this run walks back already; its end will be told."""
    return state.compensating and not state.status.terminal


def nothing_left(state: State) -> bool:
    """Whether this run has ended with nothing that its parent could have undone."""
    match state.status:
        case WorkflowStatus.COMPENSATED:
            return True
        case WorkflowStatus.FAILED | WorkflowStatus.CANCELLED:
            return not left_in_place(state)
        case _:
            return False


def _start(draft: Draft, branch: Branch, run_id: str) -> None:
    draft.add(ChildStarted(branch=branch.id, step=branch.step, visit=branch.visit, run_id=run_id))


def _go_on(draft: Draft, branch: Branch, given: ChildEnd) -> None:
    stopping = draft.state.stop is not None or is_loser(draft.state, branch)
    if given.status is WorkflowStatus.COMPLETED:
        value: JsonObject = {branch.step: given.result.value}
        end = Continued(updates=Document(dumps(value), value))
        fault = visits.next_fault(draft, branch, None, value)
        if fault is None:
            visits.complete_visit(draft, branch, end)
        else:
            visits.fail_visit(draft, branch, fault, own=True)
    elif stopping and given.status is not WorkflowStatus.FAILED:
        visits.settle(draft, branch, reason=_end_of(given), own=given.left)
    else:
        visits.fail_visit(draft, branch, _end_of(given), own=given.left)


def _walk_on(draft: Draft, given: ChildEnd) -> None:
    entry, undo = backward.current(draft)
    if undo.phase is Phase.HELD:
        return  # a person is asked, and a retry looks at the child again
    if given.left or given.status is WorkflowStatus.COMPLETED:
        if undo.phase is Phase.READY:
            return  # nobody has told the child to undo anything yet: it is told now, and its answer counts
        backward.compensation_failed(draft, f"it could not be undone: {_end_of(given)}")
    else:
        backward.off_the_list(draft, entry, attempt=undo.attempt)


def _end_of(given: ChildEnd) -> str:
    told = f"the child {given.run_id} ended {given.status}"
    return told if given.failure is None else f"{told}: {given.failure}"


def _by_key(state: State, key: str) -> Branch | None:
    """The branch whose child has that start key, be it that it does not know of it yet."""
    for branch in state.branches:
        if state.plan.step(branch.step).workflow is None or child_key(state, branch) != key:
            continue
        if branch.phase is Phase.READY or branch.child is not None:
            return branch
    return None
