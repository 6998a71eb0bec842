"""What follows the end of a step's attempt (semantics §2, §3)."""

from __future__ import annotations

from typing import assert_never

from bext_workflow.core import visits, waiting
from bext_workflow.core.draft import Draft
from bext_workflow.core.forks import is_loser
from bext_workflow.core.incidents import open_for_branch
from bext_workflow.core.input import Answer, Beaten, Continued, End, Failed, Lost, Parked, Retried
from bext_workflow.core.state import Branch, Phase
from bext_workflow.model.event import (
    AttemptCleared,
    AttemptFailed,
    AttemptLost,
    HeartbeatRecorded,
)
from bext_workflow.model.json import Json, same_json
from bext_workflow.model.outcome import NotDone, Unknown
from bext_workflow.model.policy import OnExhausted
from bext_workflow.model.status import IncidentKind


def finish(draft: Draft, branch: Branch, end: End, detail: Json) -> None:
    """An attempt ended. What it said last is for the next one, if there may be one."""
    if not isinstance(end, Continued | Parked):
        branch = _said(draft, branch, detail)
    match end:
        case Continued():
            fault = visits.next_fault(draft, branch, end.next, end.updates.value)
            if fault is None:
                visits.complete_visit(draft, branch, end)
            else:
                returned = {"context_updates": end.updates.value, "next": end.next, "undo_data": end.undo_data}
                _lose(draft, branch, Lost(reason=fault, evidence=returned))
        case Parked():
            fault = waiting.park_fault(draft, branch, end)
            if fault is None:
                waiting.park(draft, branch, end)
            else:
                _lose(draft, branch, Lost(reason=fault, evidence={"context_updates": end.updates.value}))
        case Retried():
            _retry(draft, branch, end.reason, after_ms=end.after_ms, unknown=False, traceback=None)
        case Failed():
            visits.fail_visit(draft, branch, end.reason, compensate=end.compensate, traceback=end.traceback)
        case Lost():
            _lose(draft, branch, end)
        case _:
            assert_never(end)


def beaten(draft: Draft, given: Beaten) -> None:
    """The attempt that is under way said how far it has come; one that is not any more says nothing."""
    for branch in draft.state.branches:
        at_it = (branch.id, branch.step, branch.visit) == (given.branch, given.step, given.visit)
        if at_it and branch.phase in (Phase.READY, Phase.STARTED):
            _said(draft, branch, given.detail)


def _said(draft: Draft, branch: Branch, detail: Json) -> Branch:
    """The branch that knows how far its attempt has come. What is known already is not written again."""
    if detail is None or same_json(detail, branch.detail):
        return branch
    draft.add(
        HeartbeatRecorded(branch=branch.id, step=branch.step, visit=branch.visit, attempt=branch.attempt, detail=detail)
    )
    return draft.state.branch(branch.id)


def verified(draft: Draft, branch: Branch, answer: Answer) -> None:
    """`verify_step` answered for the attempt in doubt. What it cannot tell, a person must."""
    match answer:
        case Continued() if visits.next_fault(draft, branch, answer.next, answer.updates.value) is None:
            visits.complete_visit(draft, branch, answer)
        case Parked() if waiting.park_fault(draft, branch, answer) is None:
            waiting.park(draft, branch, answer)
        case Retried():
            _retry(draft, branch, answer.reason, after_ms=answer.after_ms, unknown=False, traceback=None)
        case Failed():
            visits.fail_visit(draft, branch, answer.reason, compensate=answer.compensate, traceback=None)
        case NotDone():
            not_done(draft, branch, repeat=branch.lost is not None and branch.lost.crashed)
        case Unknown() | Continued() | Parked():
            open_for_branch(draft, branch, IncidentKind.IN_DOUBT)
        case _:
            assert_never(answer)


def not_done(draft: Draft, branch: Branch, *, repeat: bool) -> None:
    """The attempt in doubt did not act: it is made again (`repeat`), or counts as a Retry."""
    if draft.state.stop is not None or is_loser(draft.state, branch):
        visits.settle(draft, branch, reason="the attempt in doubt did not act", own=False)
    elif repeat:
        draft.add(AttemptCleared(branch=branch.id, step=branch.step, visit=branch.visit, attempt=branch.attempt))
    else:
        _retry(draft, branch, "verified: not done", after_ms=None, unknown=False, traceback=None)


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
    """An attempt ended unknown: the table of semantics §2. Of one in a transaction it is certain: rolled back."""
    step = draft.state.plan.step(branch.step)
    unknown = not step.transactional
    if not step.repeatable:
        lost_in_doubt(draft, branch, lost, crashed=False)
    elif lost.transient or step.is_transient(lost.errors):
        _retry(draft, branch, lost.reason, after_ms=None, unknown=unknown, traceback=lost.traceback)
    else:
        visits.fail_visit(draft, branch, lost.reason, unknown=unknown, traceback=lost.traceback)


def _retry(
    draft: Draft, branch: Branch, reason: str, *, after_ms: int | None, unknown: bool, traceback: str | None
) -> None:
    if draft.state.stop is not None or is_loser(draft.state, branch):
        visits.settle(draft, branch, reason=reason, own=visits.owns_undo(draft, branch, unknown), traceback=traceback)
        return
    policy = draft.state.plan.step(branch.step).retries
    if branch.spent + 1 >= policy.max_attempts:
        _exhausted(draft, branch, reason, unknown=unknown, traceback=traceback)
        return
    wait = policy.delay_ms(branch.spent + 2, draft.jitter) if after_ms is None else after_ms
    if policy.max_elapsed_ms and draft.now + wait - branch.entered_at > policy.max_elapsed_ms:
        _exhausted(draft, branch, reason, unknown=unknown, traceback=traceback)
        return
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
    visits.fail_visit(draft, branch, told, compensate=compensate, unknown=unknown, traceback=traceback)
