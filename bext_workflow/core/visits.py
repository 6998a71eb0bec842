"""How a visit of a step ends: completed, failed or stopped; and what that means for its branch (semantics §3, §5)."""

from __future__ import annotations

from msgspec.structs import replace

from bext_workflow.core import ending
from bext_workflow.core.draft import Draft
from bext_workflow.core.incidents import open_for_branch
from bext_workflow.core.input import Continued
from bext_workflow.core.state import Branch, Phase
from bext_workflow.model.event import BranchSettled, StepCompleted, StepFailed, WaitEnded
from bext_workflow.model.names import END
from bext_workflow.model.status import IncidentKind, WaitEnd


def next_fault(draft: Draft, branch: Branch, chosen: str | None) -> str | None:
    """Why an outcome may not choose this `next`; None if it may."""
    definition = draft.state.plan.definition
    if chosen is None or chosen in definition.targets(branch.step):
        return None
    return f"step {branch.step!r} may not go to {chosen!r}; it declares {list(definition.targets(branch.step))}"


def complete_visit(draft: Draft, branch: Branch, end: Continued) -> None:
    """The checkpoint: the visit is done, and the branch goes on, or ends."""
    draft.add(
        StepCompleted(
            branch=branch.id,
            step=branch.step,
            visit=branch.visit,
            attempt=branch.attempt,
            updates=end.updates,
            next=end.next or draft.state.plan.definition.default_next(branch.step),
            undo_data=end.undo_data,
        )
    )
    went_on(draft, branch.id)


def went_on(draft: Draft, branch_id: int) -> None:
    """A branch has moved, or ended: what that means for the run."""
    if not draft.state.branches:
        if draft.state.stop is None:
            ending.complete(draft)
        else:
            ending.conclude_stop(draft)
        return
    entered = draft.state.branch(branch_id)
    if entered.wait is None:
        entered = replace(entered, attempt=0)  # what is opened here precedes the first attempt
    if draft.state.stop is not None:
        reason = f"{draft.state.stop.reason}: it came too late, a pivot step has completed"
        open_for_branch(draft, entered, IncidentKind.STUCK_AFTER_PIVOT, reason=reason)
    elif entered.visit > (bound := draft.state.plan.step(entered.step).max_visits):
        fail_visit(draft, entered, f"step {entered.step!r} was entered more than max_visits = {bound} times")


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
    if draft.state.stop is not None:
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
    if compensate:
        ending.compensate(draft, reason)
    else:
        ending.fail(draft, reason)


def settle(draft: Draft, branch: Branch, *, reason: str, own: bool | None = None, traceback: str | None = None) -> None:
    """Under a stop: the branch ends without completing its visit."""
    if branch.phase is Phase.WAITING:
        _stop_waiting(draft, branch)
        return
    own_undo = owns_undo(draft, branch, unknown=False) if own is None else own
    draft.add(
        BranchSettled(
            branch=branch.id, step=branch.step, visit=branch.visit, reason=reason, own=own_undo, traceback=traceback
        )
    )
    ending.conclude_stop(draft)


def owns_undo(draft: Draft, branch: Branch, unknown: bool) -> bool:
    """Whether the visit's own undo is to run first: the step says so, and an attempt may have acted."""
    step = draft.state.plan.step(branch.step)
    return step.compensate_on_failure and not step.hosted and (branch.acted or unknown)


def _stop_waiting(draft: Draft, branch: Branch) -> None:
    """Under a stop a wait ends at once; what its step has done before it waited is undone with the rest."""
    draft.add(
        WaitEnded(
            branch=branch.id,
            step=branch.step,
            visit=branch.visit,
            how=WaitEnd.STOP,
            next=branch.wait.next if branch.wait else END,
        )
    )
    ending.conclude_stop(draft)
