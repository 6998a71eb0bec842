"""What each event changes in the state: the fields that get new values. It judges nothing."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from bext_workflow.core.forks import forked_from, is_loser, item_of, undo_target, without
from bext_workflow.core.moves import (
    Changes,
    entered,
    kept_contexts,
    moved_on,
    of_branch,
    parked,
    refilled,
    written,
)
from bext_workflow.core.state import (
    Branch,
    Ending,
    Incident,
    OwnVisit,
    Phase,
    Report,
    State,
    Stop,
    Undo,
    visit_key,
)
from bext_workflow.model.event import (
    ActIgnored,
    AttemptCleared,
    AttemptFailed,
    AttemptLost,
    AttemptRenewed,
    AttemptStarted,
    BranchSettled,
    CompensationStarted,
    CompletionSettled,
    EvidenceAttached,
    HeartbeatRecorded,
    IncidentOpened,
    IncidentResolved,
    LosersUndoStarted,
    Recovered,
    RunCancelled,
    RunCompensated,
    RunCompleted,
    RunFailed,
    RunReopened,
    RunStarted,
    StepCompensated,
    StepCompleted,
    StepFailed,
    StopRequested,
    UndoSkipped,
)
from bext_workflow.model.run import Completed
from bext_workflow.model.status import Action, Call, IncidentKind, StopKind, WorkflowStatus
from bext_workflow.model.wait import WaitFor


def run_started(state: State, event: RunStarted, at: int) -> Changes:
    entered = tuple(replace(branch, entered_at=at) for branch in state.branches)
    return {"status": WorkflowStatus.RUNNING, "started_at": at, "timed_from": at, "branches": entered}


def attempt_started(state: State, event: AttemptStarted, at: int) -> Changes:
    match event.call:
        case Call.STEP:
            return of_branch(state, event.branch, phase=Phase.STARTED, recorded=True)
        case Call.UNDO:
            return _undo(state, phase=Phase.STARTED, recorded=True)
        case Call.COMPLETE:
            return _notice(state, phase=Phase.STARTED)


def heartbeat_recorded(state: State, event: HeartbeatRecorded, at: int) -> Changes:
    return of_branch(state, event.branch, detail=event.detail)


def attempt_failed(state: State, event: AttemptFailed, at: int) -> Changes:
    again: Changes = {"phase": Phase.READY, "attempt": event.attempt + 1, "ready_at": event.retry_at}
    match event.call:
        case Call.STEP:
            branch = state.branch(event.branch)
            again |= {"acted": branch.acted or event.unknown, "recorded": True, "lost": None}
            return of_branch(state, event.branch, spent=branch.spent + 1, **again)
        case Call.UNDO:
            return _undo(state, spent=_current_undo(state).spent + 1, recorded=True, lost=None, **again)
        case Call.COMPLETE:
            return _notice(state, spent=state.notices[0].spent + 1, **again)


def attempt_lost(state: State, event: AttemptLost, at: int) -> Changes:
    if event.call is Call.UNDO:
        return _undo(state, phase=Phase.IN_DOUBT, lost=event)
    return of_branch(state, event.branch, phase=Phase.IN_DOUBT, lost=event)


def attempt_cleared(state: State, event: AttemptCleared, at: int) -> Changes:
    again: Changes = {"phase": Phase.READY, "ready_at": 0, "lost": None}
    if event.call is Call.UNDO:
        return _undo(state, **again)
    return of_branch(state, event.branch, **again)


def attempt_renewed(state: State, event: AttemptRenewed, at: int) -> Changes:
    match event.call:
        case Call.STEP:
            return _renewed(state, event.branch, at)
        case Call.UNDO:
            return _undo_renewed(state)
        case Call.COMPLETE:
            attempt = state.notices[0].attempt + 1
            return _notice(state, phase=Phase.READY, spent=0, ready_at=0, attempt=attempt)


def _renewed(state: State, id_: int, at: int) -> Changes:
    """Another attempt of the visit with a new budget; of a wait, its whole time again."""
    branch = state.branch(id_)
    if forked_from(state, id_) is not None:
        return of_branch(state, id_, phase=Phase.FORKED)  # its visit is done: it waits for its join, as before
    wait = branch.wait
    if wait is None or wait.child is not None:
        again: Changes = {"phase": Phase.READY, "attempt": branch.attempt + 1, "spent": 0, "ready_at": 0}
        return of_branch(state, id_, **again, lost=None, wait=None, entered_at=at)
    due_at = None if wait.for_ms is None else at + wait.for_ms
    remind_at = None if wait.remind_ms is None else at + wait.remind_ms
    key = visit_key(state.run_id, branch.step, branch.visit, branch.place)
    again = parked(state, id_, replace(wait, due_at=due_at, remind_at=remind_at))
    return again | {"answered": state.answered - {key}}  # it may be answered anew


def step_completed(state: State, event: StepCompleted, at: int) -> Changes:
    branch = state.branch(event.branch)
    done = Completed(
        step=event.step,
        visit=event.visit,
        branch=event.branch,
        place=branch.place,
        updates=event.updates.value,
        undo_data=event.undo_data,
        index=branch.index,
        item=item_of(state, branch),
        child=branch.child,
        before=state.pending,
    )
    pivoted = state.pivoted or state.plan.step(event.step).pivot
    changes = {"pending": done, "pivoted": pivoted} | written(state, branch, event.updates.value)
    after = replace(state, **changes)
    # A stop lets nothing new begin. Past a pivot there is no way back: the branch then stands where it would go on,
    # for a person to see, unless what was done was to be left in place anyway.
    stop = state.stop
    past_return = pivoted and stop is not None and stop.compensate
    if event.wait is not None and not is_loser(after, branch):
        changes |= parked(after, event.branch, event.wait)
    else:
        changes |= moved_on(after, event.branch, event.next, event.fork, at)
    return changes if stop is None or past_return else changes | _stopped(state, replace(after, **changes), branch)


def _stopped(before: State, after: State, moved: Branch) -> Changes:
    """Under a stop the branch, and what has forked from it, stands still before the visit that would be next."""
    known = {branch.id for branch in before.branches} - {moved.id}
    still = tuple(
        branch if branch.id in known or not branch.live else replace(branch, phase=Phase.STOPPED, attempt=0)
        for branch in after.branches
    )
    return {"branches": still}


def step_failed(state: State, event: StepFailed, at: int) -> Changes:
    branch = state.branch(event.branch)
    acted = branch.acted or event.own
    changes = of_branch(state, event.branch, phase=Phase.FAILED, attempt=event.attempt, acted=acted)
    return changes | _own(state, event) | {"failure": state.failure or event.reason}


def _own(state: State, event: StepFailed | BranchSettled) -> Changes:
    if not event.own:
        return {}
    branch = state.branch(event.branch)
    item, child = item_of(state, branch), branch.child
    own = OwnVisit(event.branch, event.step, event.visit, branch.place, branch.index, item, child)
    return {"own": (*state.own, own)}


def stop_requested(state: State, event: StopRequested, at: int) -> Changes:
    stop = Stop(kind=event.kind, by=event.by, reason=event.reason, compensate=event.compensate, now=event.now)
    paused = state.paused and event.kind is StopKind.FAILURE  # a person's pause holds what a failing branch leads to
    # Children that know of the stop may have to be told of its new manner.
    branches = tuple(
        replace(branch, wait=WaitFor(child=branch.wait.child))
        if branch.wait is not None and branch.wait.stopping
        else branch
        for branch in state.branches
    )
    return {"stop": stop, "inbox": event.act or state.inbox, "paused": paused, "branches": branches}


def branch_settled(state: State, event: BranchSettled, at: int) -> Changes:
    acted = state.branch(event.branch).acted or event.own
    settled = of_branch(state, event.branch, phase=Phase.STOPPED, attempt=event.attempt, lost=None, acted=acted)
    return settled | _own(state, event)


def compensation_started(state: State, event: CompensationStarted, at: int) -> Changes:
    return _own_listed(state) | {
        "status": WorkflowStatus.COMPENSATING,
        "failure": state.failure or event.reason,
        "branches": (),
        "groups": (),
        "contexts": kept_contexts(state, state.branches),
        "undo": Undo(),
        "ended_at": None,
    }


def _own_listed(state: State) -> Changes:
    """The failed visits that may have acted go on top of the list: they are undone first."""
    return {"pending": _on_top(state.pending, state.own), "own": ()}


def _on_top(pending: Completed | None, visits: Iterable[OwnVisit]) -> Completed | None:
    for own in visits:
        pending = Completed(
            step=own.step,
            visit=own.visit,
            branch=own.branch,
            place=own.place,
            index=own.index,
            item=own.item,
            own=True,
            child=own.child,
            before=pending,
        )
    return pending


def losers_undo_started(state: State, event: LosersUndoStarted, at: int) -> Changes:
    return _own_listed(state) | {"undo": Undo(group=event.group)}


def step_compensated(state: State, event: StepCompensated, at: int) -> Changes:
    return _taken_off(state)


def undo_skipped(state: State, event: UndoSkipped, at: int) -> Changes:
    return _taken_off(state) | {"skipped": (*state.skipped, event.step)}


def _taken_off(state: State) -> Changes:
    target = undo_target(state)
    if target is None:
        raise ValueError("nothing is left to undo")
    group = state.undo.group if state.undo is not None else None
    return {"pending": without(state.pending, target), "undo": Undo(group=group)}


def incident_opened(state: State, event: IncidentOpened, at: int) -> Changes:
    incident = Incident(
        id=event.id,
        kind=event.kind,
        actions=event.actions,
        call=event.call,
        branch=event.branch,
        step=event.step,
        visit=event.visit,
        attempt=event.attempt,
        reason=event.reason,
    )
    changes: Changes = {"incidents": (*state.incidents, incident)}
    match event.kind:
        case IncidentKind.EXHAUSTED | IncidentKind.STUCK_AFTER_PIVOT:
            acted = state.branch(event.branch).acted or event.unknown
            changes |= of_branch(state, event.branch, phase=Phase.HELD, attempt=event.attempt, acted=acted)
        case IncidentKind.COMPENSATION_FAILED:
            changes |= _undo(state, phase=Phase.HELD)
        case IncidentKind.COMPLETION_FAILED:
            changes |= _notice(state, phase=Phase.HELD)
        case IncidentKind.IN_DOUBT | IncidentKind.POISON:
            pass
    return changes


def incident_resolved(state: State, event: IncidentResolved, at: int) -> Changes:
    changes: Changes = {"incidents": tuple(i for i in state.incidents if i.id != event.id)}
    incident = state.incident(event.id)
    if incident is not None and incident.kind is IncidentKind.STUCK_AFTER_PIVOT:
        changes["stop"] = None  # a person has decided where the run goes: the stop that led here is answered
    undo_closed = event.kind in (IncidentKind.COMPENSATION_FAILED, IncidentKind.POISON) and event.action == Action.CLOSE
    if undo_closed and not state.compensating:
        changes["undo"] = None  # losers whose undo a person has given up
    if event.act:
        changes["inbox"] = event.act
    return changes


def evidence_attached(state: State, event: EvidenceAttached, at: int) -> Changes:
    return {"inbox": event.act}


def run_reopened(state: State, event: RunReopened, at: int) -> Changes:
    changes: Changes = {"ended_at": None, "inbox": event.act or state.inbox}
    if event.undo:
        return changes | _undo_renewed(state) | {"status": WorkflowStatus.COMPENSATING}
    changes |= {"status": WorkflowStatus.RUNNING, "failure": None, "stop": None}
    changes |= {"timed_from": at, "timed_out": False}  # the run's own time is renewed with the budget
    if event.step is not None:
        alone = replace(state, branches=state.branches[:1], groups=(), contexts=kept_contexts(state, state.branches))
        moved = {"branches": alone.branches, "groups": (), "contexts": alone.contexts}
        return changes | _own_listed(state) | moved | entered(alone, state.branches[0].id, event.step, at)
    return changes | _taken_up(state, event.new_visit, at)


def _taken_up(state: State, new_visit: bool, at: int) -> Changes:
    """Every branch that had failed, or was stopped for it, goes on where it stood. Losers have settled for good.

    What a visit that goes on may have done is for its own end to say; one that is left behind is to be undone. So is
    what a child has done: the visit goes on with another one.
    """
    after, left = state, set[int]()
    lost = {branch.id for branch in state.branches if is_loser(state, branch)}
    for branch in state.branches:
        if branch.phase is Phase.FORKED or branch.id in lost:
            continue
        if new_visit and branch.phase is not Phase.STOPPED and forked_from(state, branch.id) is None:
            left.add(branch.id)
            after = replace(after, **entered(after, branch.id, branch.step, at))
        else:
            after = replace(after, **_renewed(after, branch.id, at))
    after = refilled(after, at)
    behind = (own for own in state.own if own.branch in left or (own.child is not None and own.branch not in lost))
    return {
        "branches": after.branches,
        "groups": after.groups,
        "visits": after.visits,
        "places": after.places,
        "pending": _on_top(state.pending, behind),
        "own": tuple(own for own in state.own if own.branch in lost),
    }


def _undo_renewed(state: State) -> Changes:
    attempt = _current_undo(state).attempt + 1
    return _undo(state, phase=Phase.READY, spent=0, ready_at=0, lost=None, attempt=attempt)


def run_completed(state: State, event: RunCompleted, at: int) -> Changes:
    return _ended(state, WorkflowStatus.COMPLETED, event.notify, at)


def run_compensated(state: State, event: RunCompensated, at: int) -> Changes:
    return _ended(state, WorkflowStatus.COMPENSATED, event.notify, at) | {"undo": None}


def run_cancelled(state: State, event: RunCancelled, at: int) -> Changes:
    return _ended(state, WorkflowStatus.CANCELLED, event.notify, at) | {"undo": None}


def run_failed(state: State, event: RunFailed, at: int) -> Changes:
    changes = _ended(state, WorkflowStatus.FAILED, event.notify, at) | {"failure": state.failure or event.reason}
    return changes if state.compensating else changes | {"undo": None}


def _ended(state: State, status: WorkflowStatus, notify: bool, at: int) -> Changes:
    changes: Changes = {"status": status, "ended_at": at, "endings": state.endings + 1, "paused": False}
    if notify:
        changes["notices"] = (*state.notices, Ending(n=state.endings + 1, status=status))
    if state.parent is not None:
        changes["reports"] = (*state.reports, Report(state.endings + 1, status))
    return changes


def completion_settled(state: State, event: CompletionSettled, at: int) -> Changes:
    return {"notices": tuple(notice for notice in state.notices if notice.n != event.ending)}


def recovered(state: State, event: Recovered, at: int) -> Changes:
    """A repeatable call that was cut off is simply due again; what is in doubt gets an event of its own."""
    phases = [branch.phase for branch in state.branches] + [notice.phase for notice in state.notices]
    changes: Changes = {
        "branches": tuple(_cut_off(state, branch) for branch in state.branches),
        "notices": tuple(_notice_cut_off(notice) for notice in state.notices),
    }
    target = undo_target(state)
    if state.undo is not None and target is not None:
        phases.append(state.undo.phase)
        if state.undo.phase is Phase.STARTED and state.plan.step(target.step).undo_idempotent:
            changes["undo"] = replace(state.undo, phase=Phase.READY)
    if not state.suspect or Phase.STARTED in phases:
        changes["recoveries"] = state.recoveries + 1
    return changes


def _cut_off(state: State, branch: Branch) -> Branch:
    step = state.plan.step(branch.step)
    begun = state.status is not WorkflowStatus.PENDING and not state.status.terminal
    match branch.phase:
        case Phase.READY if step.idempotent and not step.transactional and begun and not branch.recorded:
            return replace(branch, acted=True)  # it may have been running: such attempts leave no record
        case Phase.STARTED if step.repeatable:
            # What a transaction has done that did not commit, it has not done.
            return replace(branch, phase=Phase.READY, acted=branch.acted or not step.transactional)
        case _:
            return branch


def _notice_cut_off(notice: Ending) -> Ending:
    return replace(notice, phase=Phase.READY) if notice.phase is Phase.STARTED else notice


def act_ignored(state: State, event: ActIgnored, at: int) -> Changes:
    return {"inbox": event.act}


def _current_undo(state: State) -> Undo:
    if state.undo is None:
        raise ValueError("the run does not compensate")
    return state.undo


def _undo(state: State, **changes: object) -> Changes:
    return {"undo": replace(_current_undo(state), **changes)}


def _notice(state: State, **changes: object) -> Changes:
    """Endings are told of in order: the first one is the one that is being called."""
    return {"notices": (replace(state.notices[0], **changes), *state.notices[1:])}
