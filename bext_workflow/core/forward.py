"""What follows the end of a step's attempt (semantics §2, §3)."""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from bext_workflow.core import ending
from bext_workflow.core.draft import Draft
from bext_workflow.core.incidents import open_for_branch
from bext_workflow.core.input import Answer, Continued, End, Failed, Lost, Retried
from bext_workflow.core.state import Branch
from bext_workflow.model.event import (
    AttemptCleared,
    AttemptFailed,
    AttemptLost,
    BranchSettled,
    StepCompleted,
    StepFailed,
)
from bext_workflow.model.outcome import NotDone, Unknown
from bext_workflow.model.policy import OnExhausted
from bext_workflow.model.status import IncidentKind


def finish(draft: Draft, branch: Branch, end: End) -> None:
    """An attempt ended."""
    match end:
        case Continued():
            fault = next_fault(draft, branch, end.next)
            if fault is None:
                complete_visit(draft, branch, end)
            else:
                returned = {"context_updates": end.updates.value, "next": end.next, "undo_data": end.undo_data}
                _lose(draft, branch, Lost(reason=fault, evidence=returned))
        case Retried():
            _retry(draft, branch, end.reason, after_ms=end.after_ms, unknown=False, traceback=None)
        case Failed():
            fail_visit(draft, branch, end.reason, compensate=end.compensate, traceback=end.traceback)
        case Lost():
            _lose(draft, branch, end)
        case _:
            assert_never(end)


def verified(draft: Draft, branch: Branch, answer: Answer) -> None:
    """`verify_step` answered for the attempt in doubt. What it cannot tell, a person must."""
    match answer:
        case Continued() if next_fault(draft, branch, answer.next) is None:
            complete_visit(draft, branch, answer)
        case Retried():
            _retry(draft, branch, answer.reason, after_ms=answer.after_ms, unknown=False, traceback=None)
        case Failed():
            fail_visit(draft, branch, answer.reason, compensate=answer.compensate, traceback=None)
        case NotDone():
            not_done(draft, branch, repeat=branch.lost is not None and branch.lost.crashed)
        case Unknown() | Continued():
            open_for_branch(draft, branch, IncidentKind.IN_DOUBT)
        case _:
            assert_never(answer)


def not_done(draft: Draft, branch: Branch, *, repeat: bool) -> None:
    """The attempt in doubt did not act: it is made again (`repeat`), or counts as a Retry."""
    if draft.state.stop is not None:
        settle(draft, branch, reason="the attempt in doubt did not act", own=False)
    elif repeat:
        draft.add(AttemptCleared(branch=branch.id, step=branch.step, visit=branch.visit, attempt=branch.attempt))
    else:
        _retry(draft, branch, "verified: not done", after_ms=None, unknown=False, traceback=None)


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
    if not draft.state.branches:
        if draft.state.stop is None:
            ending.complete(draft)
        else:
            ending.conclude_stop(draft)
        return
    entered = replace(draft.state.branch(branch.id), attempt=0)  # what is opened here precedes the first attempt
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
    own_undo = _own(draft, branch, unknown) if own is None else own
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
    own_undo = _own(draft, branch, unknown=False) if own is None else own
    draft.add(
        BranchSettled(
            branch=branch.id, step=branch.step, visit=branch.visit, reason=reason, own=own_undo, traceback=traceback
        )
    )
    ending.conclude_stop(draft)


def lost_in_doubt(draft: Draft, branch: Branch, lost: Lost, *, crashed: bool) -> None:
    """The attempt may have acted and must not be repeated: `verify_step` is asked, else a person."""
    draft.add(
        AttemptLost(
            branch=branch.id,
            step=branch.step,
            visit=branch.visit,
            attempt=branch.attempt,
            reason=lost.reason,
            crashed=crashed,
            evidence=lost.evidence,
            traceback=lost.traceback,
        )
    )
    if not draft.state.plan.verifies:
        open_for_branch(draft, draft.state.branch(branch.id), IncidentKind.IN_DOUBT)


def _lose(draft: Draft, branch: Branch, lost: Lost) -> None:
    """An attempt ended unknown: the table of semantics §2."""
    step = draft.state.plan.step(branch.step)
    if not step.idempotent:
        lost_in_doubt(draft, branch, lost, crashed=False)
    elif lost.transient or step.is_transient(lost.errors):
        _retry(draft, branch, lost.reason, after_ms=None, unknown=True, traceback=lost.traceback)
    else:
        fail_visit(draft, branch, lost.reason, unknown=True, traceback=lost.traceback)


def _retry(
    draft: Draft, branch: Branch, reason: str, *, after_ms: int | None, unknown: bool, traceback: str | None
) -> None:
    if draft.state.stop is not None:
        settle(draft, branch, reason=reason, own=_own(draft, branch, unknown), traceback=traceback)
        return
    policy = draft.state.plan.step(branch.step).retries
    if branch.spent + 1 >= policy.max_attempts:
        _exhausted(draft, branch, reason, unknown=unknown, traceback=traceback)
        return
    wait = policy.delay_ms(branch.spent + 2, draft.jitter) if after_ms is None else after_ms
    draft.add(
        AttemptFailed(
            branch=branch.id,
            step=branch.step,
            visit=branch.visit,
            attempt=branch.attempt,
            reason=reason,
            retry_at=draft.now + wait,
            unknown=unknown,
            traceback=traceback,
        )
    )


def _exhausted(draft: Draft, branch: Branch, reason: str, *, unknown: bool, traceback: str | None) -> None:
    policy = draft.state.plan.step(branch.step).retries
    told = f"retries exhausted: {reason}"
    if policy.on_exhausted is OnExhausted.INCIDENT and not draft.state.pivoted:
        open_for_branch(draft, branch, IncidentKind.EXHAUSTED, reason=told, traceback=traceback, unknown=unknown)
        return
    compensate = policy.on_exhausted is not OnExhausted.FAIL
    fail_visit(draft, branch, told, compensate=compensate, unknown=unknown, traceback=traceback)


def _own(draft: Draft, branch: Branch, unknown: bool) -> bool:
    step = draft.state.plan.step(branch.step)
    return step.compensate_on_failure and (branch.acted or unknown)
