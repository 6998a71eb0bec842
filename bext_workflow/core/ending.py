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
    """Every branch has ended."""
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
    while (entry := draft.state.pending) is not None and _nothing_to_undo(draft, entry):
        draft.add(StepCompensated(branch=entry.branch, step=entry.step, visit=entry.visit, no_undo=True))
    if draft.state.pending is not None:
        return
    if draft.state.skipped:
        draft.add(RunFailed(reason=draft.state.failure or "an undo was skipped", notify=notify))
    else:
        draft.add(RunCompensated(notify=notify))


def _nothing_to_undo(draft: Draft, entry: Completed) -> bool:
    """Steps of a plugin without undo, and the host's own waits."""
    return not draft.state.plan.undoes or draft.state.plan.step(entry.step).hosted


def conclude_stop(draft: Draft) -> None:
    """Under a stop: once every branch has settled, the walk back begins, or the run is CANCELLED.

    What a last step has done that is a pivot cannot be undone: it is left in place, with all before it. If nobody but
    the clock wanted the stop, the run has come to its end all the same.
    """
    state = draft.state
    if state.stop is None or state.branches:
        return
    if state.pivoted and state.stop.kind is StopKind.TIMEOUT:
        complete(draft)
        return
    nothing_done = state.pending is None and not state.own and state.stop.kind is StopKind.CANCEL
    if state.stop.compensate and not state.pivoted and not nothing_done:
        compensate(draft, state.stop.reason)
    else:
        draft.add(RunCancelled(notify=state.plan.notifies))
