"""How a run comes to its end, and how it walks back (semantics §5)."""

from __future__ import annotations

from bext_workflow.core.draft import Draft
from bext_workflow.model.event import (
    CompensationStarted,
    RunCancelled,
    RunCompensated,
    RunCompleted,
    RunFailed,
    StepCompensated,
)
from bext_workflow.model.run import Completed
from bext_workflow.model.status import StopKind


def complete(draft: Draft) -> None:
    """Every branch has ended. A loser's undo that a person let be keeps the run from having ended well."""
    if draft.state.skipped:
        fail(draft, "an undo was skipped")
    else:
        draft.add(RunCompleted(notify=draft.state.plan.notifies))


def fail(draft: Draft, reason: str) -> None:
    """The run ends; what it has done stays in place."""
    draft.add(RunFailed(reason=reason, notify=draft.state.plan.notifies))


def compensate(draft: Draft, reason: str) -> None:
    """Begins the walk back; ends it at once if there is nothing to undo."""
    draft.add(CompensationStarted(reason=reason))
    walk_on(draft)


def walk_on(draft: Draft) -> None:
    """After an entry is off the list: ends the run if it was the last one. A step without an undo counts as undone."""
    notify = draft.state.plan.notifies
    while (entry := draft.state.pending) is not None and nothing_to_undo(draft, entry):
        draft.add(StepCompensated(branch=entry.branch, step=entry.step, visit=entry.visit, no_undo=True))
    if draft.state.pending is not None:
        return
    if draft.state.skipped:
        draft.add(RunFailed(reason=draft.state.failure or "an undo was skipped", notify=notify))
    else:
        draft.add(RunCompensated(notify=notify))


def nothing_to_undo(draft: Draft, entry: Completed) -> bool:
    """Steps of a plugin without undo, the host's own waits, and a child that there never was."""
    step = draft.state.plan.step(entry.step)
    if step.workflow is not None:
        return entry.child is None
    return not draft.state.plan.undoes or step.waits


def conclude_stop(draft: Draft) -> None:
    """Under a stop, once every branch has settled: the walk back begins, or the run ends as it is.

    What a last step has done that is a pivot cannot be undone: it is left in place, with all before it. If nobody but
    the clock wanted the stop, the run has come to its end all the same.
    """
    state = draft.state
    stop = state.stop
    if stop is None or state.live:
        return
    nothing_done = state.pending is None and not state.own
    if state.pivoted and stop.kind is StopKind.TIMEOUT:
        complete(draft)
    elif stop.kind is StopKind.FAILURE and not stop.compensate:
        fail(draft, stop.reason)
    elif stop.compensate and not state.pivoted and not (nothing_done and stop.kind is StopKind.CANCEL):
        compensate(draft, stop.reason)
    else:
        draft.add(RunCancelled(notify=state.plan.notifies))
