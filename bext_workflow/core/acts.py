"""What a person may do to a run, and what follows (semantics §5).

The same rules judge an act at the door, before it is accepted, and carry it out when the driver takes it.
"""

from __future__ import annotations

from typing import NoReturn, assert_never

from msgspec.structs import replace

from bext_workflow.core import backward, ending, forward, visits, waiting
from bext_workflow.core.draft import Draft
from bext_workflow.core.forks import forked_from
from bext_workflow.core.incidents import open_for_branch, void_under_a_stop
from bext_workflow.core.input import Cancel, Continued, Pause, Reopen, Resolve, Resume
from bext_workflow.core.state import ROOT, Incident, Phase, Stop
from bext_workflow.core.work import left_in_place
from bext_workflow.errors import Conflict
from bext_workflow.model.event import (
    ActIgnored,
    AttemptRenewed,
    CompletionSettled,
    IncidentResolved,
    RunPaused,
    RunReopened,
    RunResumed,
    RunTimedOut,
    StopRequested,
    UndoSkipped,
)
from bext_workflow.model.status import Action, Call, IncidentKind, StopKind, WorkflowStatus


def cancel(draft: Draft, given: Cancel) -> None:
    """Stops the run. Raises `Conflict` while it compensates, past a pivot, or when it has ended for good."""
    state = draft.state
    if state.compensating and not state.status.terminal:
        raise Conflict(f"the run is {state.status} and is being undone", mend="an undo cannot be cancelled")
    if state.pivoted:
        raise Conflict(
            f"the run is {state.status} and a pivot step has completed", mend="it can only go forward from there"
        )
    if state.status is WorkflowStatus.FAILED:
        _undo_what_was_left(draft, given)
    elif state.stop is not None:
        _cancel_again(draft, given, state.stop)
    else:
        _stop(draft, given)


def expire(draft: Draft) -> None:
    """The run's own time is over: a stop that compensates; past a pivot, a person decides (semantics §5)."""
    bound = draft.state.plan.definition.timeout_ms
    reason = f"the run took longer than its timeout_ms = {bound}"
    draft.add(RunTimedOut())
    if not draft.state.pivoted:
        draft.add(StopRequested(kind=StopKind.TIMEOUT, by="host", reason=reason))
        void_under_a_stop(draft, "host")
        return
    for branch in draft.state.live:
        if draft.state.incident_of(branch) is None:
            # The attempt that would be next has not been made: a retry makes it, and no number is passed over.
            made = branch.attempt - 1 if branch.phase is Phase.READY else branch.attempt
            stuck = replace(branch, attempt=made)
            open_for_branch(draft, stuck, IncidentKind.STUCK_AFTER_PIVOT, reason=reason)


def pause(draft: Draft, given: Pause) -> None:
    """Holds the run: nothing new starts. Raises `Conflict` if it is held already."""
    if draft.state.paused:
        raise Conflict("the run is paused already", mend="`runs resume` lets it go on")
    draft.add(RunPaused(act=given.act, by=given.by, reason=given.reason))


def resume(draft: Draft, given: Resume) -> None:
    """Lets a held run go on. Raises `Conflict` if it is not held."""
    if not draft.state.paused:
        raise Conflict(f"the run is {draft.state.status} and not paused")
    draft.add(RunResumed(act=given.act, by=given.by, reason=given.reason))


def reopen(draft: Draft, given: Reopen) -> None:
    """Sets a FAILED run going again. Raises `Conflict` where there is no way forward."""
    state = draft.state
    for incident in state.incidents:
        if incident.kind is IncidentKind.COMPENSATION_FAILED:
            if given.step is not None or given.new_visit:
                raise Conflict("the run failed while it was being undone", mend="retry it without step or new visit")
            _resolved(draft, incident, Action.RETRY, note=given.reason, by=given.by, act=given.act)
            draft.add(RunReopened(act=given.act, by=given.by, reason=given.reason, undo=True))
            return
    if given.step in state.plan.definition.only_on_items:
        raise Conflict(f"step {given.step!r} works on an item of a map", mend="retry from the step that maps")
    if state.compensating:
        raise Conflict(
            f"the run is {state.status} and has been undone, in part or whole", mend="start a new run instead"
        )
    if not state.branches:
        raise Conflict("the run is FAILED and had come to its end", mend="start a new run instead")
    if given.step is not None and given.step not in state.plan.definition.by_name:
        names = ", ".join(state.plan.definition.by_name)
        raise Conflict(f"workflow {state.workflow!r} has no step {given.step!r}", mend=f"its steps: {names}")
    draft.add(RunReopened(act=given.act, by=given.by, reason=given.reason, step=given.step, new_visit=given.new_visit))
    visits.went_on(draft, ROOT)
    waiting.deliver(draft)


def resolve(draft: Draft, given: Resolve) -> None:
    """Answers an incident. Raises `Conflict` if it is not open or does not take the answer."""
    incident = draft.state.incident(given.incident)
    if incident is None:
        raise Conflict(f"incident {given.incident} is not open", mend="look at the run again")
    if given.action not in incident.actions:
        allowed = ", ".join(incident.actions)
        refused = f"{given.action.value!r} does not answer an incident {incident.kind}"
        raise Conflict(refused, mend=f"use one of: {allowed}")
    match incident.kind:
        case IncidentKind.IN_DOUBT if incident.call is Call.UNDO:
            _answer_undo_in_doubt(draft, incident, given)
        case IncidentKind.IN_DOUBT | IncidentKind.EXHAUSTED | IncidentKind.STUCK_AFTER_PIVOT:
            _answer_step(draft, incident, given)
        case IncidentKind.COMPENSATION_FAILED:
            _answer_compensation_failed(draft, incident, given)
        case IncidentKind.POISON:
            _answer_poison(draft, incident, given)
        case IncidentKind.COMPLETION_FAILED:
            _answer_completion_failed(draft, incident, given)
        case _:
            assert_never(incident.kind)


def _stop(draft: Draft, given: Cancel) -> None:
    draft.add(
        StopRequested(
            act=given.act,
            by=given.by,
            reason=f"cancelled by {given.by}" + (f": {given.reason}" if given.reason else ""),
            compensate=given.compensate,
            now=given.now,
        )
    )
    void_under_a_stop(draft, given.by)


def _cancel_again(draft: Draft, given: Cancel, stop: Stop) -> None:
    """A cancel may hurry the stop, and what the host began is then a person's cancel; the first reason stays.

    A pause that came between the two is over, as with any cancel.
    """
    if stop.compensate is not given.compensate:
        raise Conflict(f"the run is {draft.state.status} and is already being stopped, {_manner(stop.compensate)}")
    if stop.kind is not StopKind.CANCEL or (given.now and not stop.now) or draft.state.paused:
        now = given.now or stop.now
        draft.add(StopRequested(act=given.act, by=given.by, reason=stop.reason, compensate=stop.compensate, now=now))
    else:
        draft.add(ActIgnored(act=given.act, kind="cancel", reason="it is already being cancelled"))


def _undo_what_was_left(draft: Draft, given: Cancel) -> None:
    """`Fail{compensate: false}` left things in place; a person may still have them undone (P18)."""
    state = draft.state
    if any(incident.kind is IncidentKind.COMPENSATION_FAILED for incident in state.incidents):
        raise Conflict("the run is FAILED by an undo that failed", mend="resolve its incident instead")
    if state.undo is not None:
        raise Conflict("the run is FAILED and a person has closed its undo", mend="undo the rest by hand")
    if not left_in_place(state) or not given.compensate:
        raise Conflict("the run is FAILED and nothing of it is left to undo")
    _stop(draft, given)
    ending.compensate(draft, state.failure or given.reason)


def _answer_step(draft: Draft, incident: Incident, given: Resolve) -> None:
    branch = draft.state.branch(incident.branch)
    match given.action:
        case Action.DONE if (group := forked_from(draft.state, branch.id)) is not None:
            _answered(draft, incident, given)
            visits.merged_by_hand(draft, group, given.updates.value)
        case Action.DONE:
            fault = visits.next_fault(draft, branch, given.next, given.updates.value)
            if fault is not None:
                raise Conflict(fault)
            _answered(draft, incident, given)
            if branch.wait is not None:
                waiting.answered(draft, branch, given.updates, given.next)
                return
            done = Continued(updates=given.updates, next=given.next, undo_data=given.undo_data)
            visits.complete_visit(draft, branch, done)
        case Action.NOT_DONE:
            _answered(draft, incident, given)
            forward.not_done(draft, branch, repeat=True)
        case Action.FAIL | Action.FAIL_UNDO:
            _answered(draft, incident, given)
            own = _own_after_answer(draft, incident, given)
            visits.fail_visit(draft, branch, incident.reason, own=own)
        case Action.RETRY:
            _answered(draft, incident, given)
            draft.add(AttemptRenewed(branch=branch.id))
            waiting.deliver(draft)
        case Action.CLOSE if draft.state.pivoted:
            _answered(draft, incident, given)
            visits.close(draft, draft.state.branch(branch.id), incident.reason)
        case Action.CLOSE:
            _answered(draft, incident, given)
            visits.fail_visit(draft, branch, incident.reason, compensate=False)
        case _:
            _impossible(given.action)


def _own_after_answer(draft: Draft, incident: Incident, given: Resolve) -> bool | None:
    """In doubt, the person says whether the step acted; for spent attempts the step's own rule holds."""
    if incident.kind is IncidentKind.IN_DOUBT:
        return given.action is Action.FAIL_UNDO
    return None


def _answer_undo_in_doubt(draft: Draft, incident: Incident, given: Resolve) -> None:
    _answered(draft, incident, given)
    entry, _ = backward.current(draft)
    match given.action:
        case Action.DONE:
            backward.off_the_list(draft, entry, attempt=incident.attempt, by=given.by)
        case Action.NOT_DONE:
            backward.again(draft)
        case Action.FAIL:
            backward.compensation_failed(draft, incident.reason)
        case _:
            _impossible(given.action)


def _answer_compensation_failed(draft: Draft, incident: Incident, given: Resolve) -> None:
    _answered(draft, incident, given)
    if not draft.state.compensating:
        _answer_loser(draft, incident, given)
    elif given.action is not Action.CLOSE:
        draft.add(RunReopened(act=given.act, by=given.by, reason=given.note, undo=True))
        _answer_entry(draft, incident, given)


def _answer_entry(draft: Draft, incident: Incident, given: Resolve) -> None:
    entry, _ = backward.current(draft)
    match given.action:
        case Action.RETRY:
            pass
        case Action.UNDONE:
            backward.off_the_list(draft, entry, attempt=incident.attempt, by=given.by)
        case Action.SKIP:
            draft.add(UndoSkipped(branch=entry.branch, step=entry.step, visit=entry.visit, by=given.by))
            backward.go_on(draft)
        case _:
            _impossible(given.action)


def _answer_loser(draft: Draft, incident: Incident, given: Resolve) -> None:
    """The undo of a branch that a join had no need of; the run itself goes forward."""
    match given.action:
        case Action.RETRY:
            draft.add(AttemptRenewed(call=Call.UNDO))
        case Action.CLOSE:
            visits.stop_all(draft, incident.reason, compensate=False)
        case _:
            _answer_entry(draft, incident, given)


def _answer_poison(draft: Draft, incident: Incident, given: Resolve) -> None:
    _answered(draft, incident, given)
    match given.action:
        case Action.RETRY:
            pass
        case Action.CANCEL:
            _stop(draft, Cancel(act=given.act, by=given.by, reason=given.note))
        case Action.CLOSE if len(draft.state.live) > 1:
            visits.stop_all(draft, incident.reason, compensate=False)
        case Action.CLOSE:
            ending.fail(draft, draft.state.failure or incident.reason)
        case _:
            _impossible(given.action)


def _answer_completion_failed(draft: Draft, incident: Incident, given: Resolve) -> None:
    _answered(draft, incident, given)
    if given.action is Action.RETRY:
        draft.add(AttemptRenewed(call=Call.COMPLETE))
    else:
        draft.add(CompletionSettled(ending=draft.state.notices[0].n, delivered=False))


def _answered(draft: Draft, incident: Incident, given: Resolve) -> None:
    _resolved(draft, incident, given.action, note=given.note, by=given.by, act=given.act)


def _resolved(draft: Draft, incident: Incident, action: Action, *, note: str, by: str, act: int) -> None:
    draft.add(IncidentResolved(id=incident.id, kind=incident.kind, action=action, note=note, by=by, act=act))


def _manner(compensate: bool) -> str:
    return "with its undo" if compensate else "without its undo"


def _impossible(action: Action) -> NoReturn:
    """`resolve` has let through only the actions that the incident lists."""
    raise ValueError(f"no rule for the answer {action}")
