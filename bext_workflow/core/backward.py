"""What follows the end of an undo, and of `on_workflow_complete` (semantics §2, §5)."""

from __future__ import annotations

from typing import assert_never

from bext_workflow.core import ending, joins, visits
from bext_workflow.core.draft import Draft
from bext_workflow.core.forks import undo_target
from bext_workflow.core.incidents import open_completion_failed, open_for_undo
from bext_workflow.core.input import Answer, Continued, Failed, Lost, Parked, Retried
from bext_workflow.core.state import ROOT, Undo
from bext_workflow.errors import Conflict
from bext_workflow.model.event import (
    AttemptCleared,
    AttemptFailed,
    AttemptLost,
    CompletionSettled,
    StepCompensated,
)
from bext_workflow.model.outcome import NotDone, Unknown
from bext_workflow.model.policy import RetryPolicy
from bext_workflow.model.run import Completed
from bext_workflow.model.status import Call, IncidentKind

COMPLETION_RETRIES = RetryPolicy()
"""How `on_workflow_complete` is retried: the default policy."""


def undone(draft: Draft, end: Retried | Failed | Lost | None) -> None:
    """An undo ended; None: it returned."""
    entry, undo = current(draft)
    match end:
        case None:
            off_the_list(draft, entry, attempt=undo.attempt)
        case Retried():
            _retry(draft, entry, undo, end.reason, after_ms=end.after_ms)
        case Failed():
            compensation_failed(draft, end.reason, traceback=end.traceback)
        case Lost():
            _lose(draft, entry, undo, end)
        case _:
            assert_never(end)


def verified(draft: Draft, answer: Answer) -> None:
    """`verify_step` answered for the undo in doubt."""
    entry, undo = current(draft)
    match answer:
        case Continued() | Parked():
            off_the_list(draft, entry, attempt=undo.attempt)
        case Retried():
            _retry(draft, entry, undo, answer.reason, after_ms=answer.after_ms)
        case Failed():
            compensation_failed(draft, answer.reason)
        case NotDone() if undo.lost is not None and undo.lost.crashed:
            again(draft)
        case NotDone():
            _retry(draft, entry, undo, "verified: not done")
        case Unknown():
            open_for_undo(draft, entry, undo, IncidentKind.IN_DOUBT)
        case _:
            assert_never(answer)


def notified(draft: Draft, n: int, error: str | None) -> None:
    """`on_workflow_complete` of ending `n` ended. Its errors never change the run's status."""
    notice = draft.state.notices[0]
    if error is None:
        draft.add(CompletionSettled(ending=n))
    elif notice.spent + 1 >= COMPLETION_RETRIES.max_attempts:
        open_completion_failed(draft, error)
    else:
        wait = COMPLETION_RETRIES.delay_ms(notice.spent + 2, draft.jitter)
        draft.add(AttemptFailed(call=Call.COMPLETE, attempt=notice.attempt, reason=error, retry_at=draft.now + wait))


def current(draft: Draft) -> tuple[Completed, Undo]:
    """The entry that is being undone, and where its undo stands."""
    entry, undo = undo_target(draft.state), draft.state.undo
    if entry is None or undo is None:
        raise Conflict(f"the run is {draft.state.status} and nothing of it is being undone")
    return entry, undo


def off_the_list(draft: Draft, entry: Completed, *, attempt: int, by: str | None = None) -> None:
    """The entry is undone, by the plugin or by a person."""
    draft.add(StepCompensated(branch=entry.branch, step=entry.step, visit=entry.visit, attempt=attempt, by=by))
    go_on(draft)


def go_on(draft: Draft) -> None:
    """After an entry is off the list: on to the next one, or to what comes after the undo."""
    if draft.state.compensating:
        ending.walk_on(draft)
    else:
        joins.losers_walk_on(draft)
        visits.went_on(draft, ROOT)


def again(draft: Draft) -> None:
    """The undo in doubt did not act: the same attempt is made again."""
    entry, undo = current(draft)
    draft.add(
        AttemptCleared(call=Call.UNDO, branch=entry.branch, step=entry.step, visit=entry.visit, attempt=undo.attempt)
    )


def compensation_failed(draft: Draft, reason: str, traceback: str | None = None) -> None:
    """The walk stops here and a person decides: the run is FAILED, or, if these were losers, SUSPENDED."""
    entry, undo = current(draft)
    open_for_undo(draft, entry, undo, IncidentKind.COMPENSATION_FAILED, reason=reason, traceback=traceback)
    if draft.state.compensating:
        ending.fail(draft, draft.state.failure or reason)


def lost_in_doubt(draft: Draft, lost: Lost, *, crashed: bool) -> None:
    """An undo that is not safe to repeat ended unknown."""
    entry, undo = current(draft)
    draft.add(
        AttemptLost(
            call=Call.UNDO,
            branch=entry.branch,
            step=entry.step,
            visit=entry.visit,
            attempt=undo.attempt,
            reason=lost.reason,
            crashed=crashed,
            evidence=lost.evidence,
            traceback=lost.traceback,
        )
    )
    if not draft.state.plan.verifies:
        entry, undo = current(draft)
        open_for_undo(draft, entry, undo, IncidentKind.IN_DOUBT)


def _lose(draft: Draft, entry: Completed, undo: Undo, lost: Lost) -> None:
    step = draft.state.plan.step(entry.step)
    if not step.undo_idempotent:
        lost_in_doubt(draft, lost, crashed=False)
    elif lost.transient or step.is_transient(lost.errors):
        _retry(draft, entry, undo, lost.reason, unknown=True, traceback=lost.traceback)
    else:
        compensation_failed(draft, lost.reason, lost.traceback)


def _retry(
    draft: Draft,
    entry: Completed,
    undo: Undo,
    reason: str,
    *,
    after_ms: int | None = None,
    unknown: bool = False,
    traceback: str | None = None,
) -> None:
    policy = draft.state.plan.step(entry.step).compensation_retries
    if undo.spent + 1 >= policy.max_attempts:
        compensation_failed(draft, f"retries exhausted: {reason}", traceback)
        return
    wait = policy.delay_ms(undo.spent + 2, draft.jitter) if after_ms is None else after_ms
    draft.add(
        AttemptFailed(
            call=Call.UNDO,
            branch=entry.branch,
            step=entry.step,
            visit=entry.visit,
            attempt=undo.attempt,
            reason=reason,
            retry_at=draft.now + wait,
            unknown=unknown,
            traceback=traceback,
        )
    )
