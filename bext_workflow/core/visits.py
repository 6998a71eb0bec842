"""How a visit of a step ends: completed, failed or stopped; and what that means for its branch (semantics §3, §5)."""

from __future__ import annotations

from msgspec.structs import replace

from bext_workflow.core import ending, joins
from bext_workflow.core.draft import Draft
from bext_workflow.core.forks import is_loser
from bext_workflow.core.incidents import open_for_branch, open_for_join, void_of_branches, void_under_a_stop
from bext_workflow.core.input import Continued, Next
from bext_workflow.core.state import Branch, Group, Phase
from bext_workflow.model.event import BranchSettled, StepCompleted, StepFailed, StopRequested, WaitEnded
from bext_workflow.model.fork import Fork
from bext_workflow.model.json import JsonObject
from bext_workflow.model.names import END
from bext_workflow.model.status import IncidentKind, StopKind, WaitEnd


def next_fault(draft: Draft, branch: Branch, chosen: Next, updates: JsonObject) -> str | None:
    """Why an outcome may not choose this `next`, or why its map has nothing to go over; None if all is well."""
    definition = draft.state.plan.definition
    step = definition.by_name[branch.step]
    if chosen is None:
        return None if step.map is None else joins.items_fault(draft, branch, step.map, updates)
    names = (chosen,) if isinstance(chosen, str) else chosen
    declared = list(definition.targets(branch.step))
    if step.map is not None:
        return f"step {branch.step!r} is a map: it chooses no next"
    if not names or len(set(names)) < len(names) or (len(names) > 1 and END in names):
        return f"step {branch.step!r} may not fork into {list(names)}"
    wrong = [name for name in names if name not in declared]
    return f"step {branch.step!r} may not go to {wrong[0]!r}; it declares {declared}" if wrong else None


def where_to(draft: Draft, branch: Branch, chosen: Next, updates: JsonObject) -> tuple[str, Fork | None]:
    """Where the branch goes after its step: on to a step or `END`, or apart, to meet there."""
    definition = draft.state.plan.definition
    step = definition.by_name[branch.step]
    if step.map is not None:
        items = joins.items_of(draft, branch, step.map, updates)
        return step.map.join, Fork(items=len(items))
    next_ = definition.default_next(branch.step) if chosen is None else chosen
    if isinstance(next_, str):
        return next_, None
    if len(next_) == 1:
        return next_[0], None
    return (END if step.join is None else step.join.at), Fork(into=tuple(next_))


def complete_visit(draft: Draft, branch: Branch, end: Continued) -> None:
    """The checkpoint: the visit is done, and the branch goes on, or apart, or ends."""
    next_, fork = where_to(draft, branch, end.next, end.updates.value)
    draft.add(
        StepCompleted(
            branch=branch.id,
            step=branch.step,
            visit=branch.visit,
            attempt=branch.attempt,
            updates=end.updates,
            next=next_,
            fork=fork,
            undo_data=end.undo_data,
        )
    )
    went_on(draft, branch.id)


def went_on(draft: Draft, branch_id: int) -> None:
    """A branch has moved, arrived, or ended: what that means for joins and for the run."""
    for line in (branch_id, *_opened_joins(draft), *_new_branches(draft)):
        _check_entered(draft, line)
    state = draft.state
    over = state.status.terminal or state.compensating
    if over or any(branch.live for branch in state.branches) or joins.undoes_losers(state):
        return
    if state.stop is not None:
        ending.conclude_stop(draft)
    elif not state.branches:
        ending.complete(draft)


def _new_branches(draft: Draft) -> list[int]:
    if len(draft.state.branches) <= 1:
        return []  # a fork leaves its own line beside its branches
    known = {branch.id for branch in draft.before.branches}
    return [branch.id for branch in draft.state.branches if branch.id not in known]


def merged_by_hand(draft: Draft, group: Group, updates: JsonObject) -> None:
    """A person says what counts where the branches could not be merged: the join opens."""
    joins.open_join(draft, group, updates)
    went_on(draft, group.parent)


def _opened_joins(draft: Draft) -> list[int]:
    """Opens every join that can be opened now; the lines that went on by it."""
    lines: list[int] = []
    while draft.state.groups and draft.state.stop is None and not draft.state.compensating:
        group = joins.next_to_open(draft)
        if group is None:
            break
        fault = joins.merge_fault(draft.state, group)
        if fault is None:
            joins.open_join(draft, group)
            lines.append(group.parent)
        elif draft.state.pivoted:
            open_for_join(draft, draft.state.branch(group.parent), fault)
        else:
            stop_all(draft, fault, compensate=True)
    return lines


def fail_visit(
    draft: Draft,
    branch: Branch,
    reason: str,
    *,
    compensate: bool = True,
    unknown: bool = False,
    own: bool | None = None,
    traceback: str | None = None,
) -> None:
    """The visit failed for good. `own` of None: its own undo runs first if the step says so and it may have acted."""
    own_undo = owns_undo(draft, branch, unknown) if own is None else own
    lost = is_loser(draft.state, branch)
    if draft.state.stop is not None or lost:
        if not lost:  # what a loser comes to fails nobody, and so has no say in what becomes of the run
            _any_undo_wins(draft, compensate)
        settle(draft, branch, reason=reason, own=own_undo, traceback=traceback)
        return
    if draft.state.pivoted:
        kind = IncidentKind.STUCK_AFTER_PIVOT
        open_for_branch(draft, branch, kind, reason=reason, traceback=traceback, unknown=unknown)
        return
    draft.add(
        StepFailed(
            branch=branch.id,
            step=branch.step,
            visit=branch.visit,
            attempt=branch.attempt,
            reason=reason,
            compensate=compensate,
            own=own_undo,
            traceback=traceback,
        )
    )
    stop_all(draft, reason, compensate=compensate)


def stop_all(draft: Draft, reason: str, *, compensate: bool) -> None:
    """The run has failed: at once if nothing else is under way, else once its other branches have settled."""
    if draft.state.live or joins.undoes_losers(draft.state):
        draft.add(StopRequested(kind=StopKind.FAILURE, by="host", reason=reason, compensate=compensate))
        void_under_a_stop(draft, "host")
    elif compensate:
        ending.compensate(draft, reason)
    else:
        ending.fail(draft, reason)


def close(draft: Draft, branch: Branch, reason: str) -> None:
    """A person gives the branch up and leaves in place what was done; what is stuck beside it is given up with it."""
    others = {other.id for other in draft.state.live if other.id != branch.id}
    if others:
        void_of_branches(draft, others, "the run was closed")
        attempt = branch.attempt
        draft.add(
            StepFailed(
                branch=branch.id, step=branch.step, visit=branch.visit, attempt=attempt, reason=reason, compensate=False
            )
        )
        stop_all(draft, reason, compensate=False)
    else:
        ending.fail(draft, reason)


def settle(draft: Draft, branch: Branch, *, reason: str, own: bool | None = None, traceback: str | None = None) -> None:
    """Under a stop, or as a loser: the branch ends without completing its visit, of which `branch.attempt` was last."""
    if branch.phase is Phase.WAITING and branch.child is None:
        draft.add(WaitEnded(branch=branch.id, step=branch.step, visit=branch.visit, how=WaitEnd.STOP))
    else:
        own_undo = owns_undo(draft, branch, unknown=False) if own is None else own
        draft.add(
            BranchSettled(
                branch=branch.id,
                step=branch.step,
                visit=branch.visit,
                attempt=branch.attempt,
                reason=reason,
                own=own_undo,
                traceback=traceback,
            )
        )
    went_on(draft, branch.id)


def owns_undo(draft: Draft, branch: Branch, unknown: bool) -> bool:
    """Whether the visit's own undo is to run first: the step says so, and an attempt may have acted."""
    step = draft.state.plan.step(branch.step)
    return step.compensate_on_failure and not step.hosted and (branch.acted or unknown)


def _check_entered(draft: Draft, branch_id: int) -> None:
    """A branch that stands before a visit that it may not make."""
    branch = next((one for one in draft.state.branches if one.id == branch_id), None)
    if branch is None or branch.phase not in (Phase.READY, Phase.WAITING):
        return
    if draft.state.stop is not None and draft.state.pivoted:
        reason = f"{draft.state.stop.reason}: it came too late, a pivot step has completed"
        open_for_branch(draft, _unbegun(branch), IncidentKind.STUCK_AFTER_PIVOT, reason=reason)
    elif draft.state.stop is None and branch.visit > (bound := draft.state.plan.step(branch.step).max_visits):
        fail_visit(draft, _unbegun(branch), f"step {branch.step!r} was entered more than max_visits = {bound} times")


def _unbegun(branch: Branch) -> Branch:
    """What is opened where a branch enters a visit precedes the first attempt."""
    return branch if branch.wait is not None else replace(branch, attempt=0)


def _any_undo_wins(draft: Draft, compensate: bool) -> None:
    """Of several branches that fail, one that wants the undo has it (semantics §5)."""
    stop = draft.state.stop
    leaves = stop is not None and stop.kind is StopKind.FAILURE and not stop.compensate
    if stop is not None and leaves and compensate and not draft.state.pivoted:
        draft.add(StopRequested(kind=StopKind.FAILURE, by=stop.by, reason=stop.reason, compensate=True))
