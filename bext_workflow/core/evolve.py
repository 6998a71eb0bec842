"""`evolve`: the state after one more event. Total over the events that `decide` writes; it judges nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, assert_never

from msgspec.structs import replace

from bext_workflow.core.state import Branch, Ending, Incident, OwnVisit, Phase, Plan, State, Stop, Undo
from bext_workflow.model.context import Layers
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
    Event,
    EvidenceAttached,
    IncidentOpened,
    IncidentResolved,
    Recovered,
    RunCancelled,
    RunCompensated,
    RunCompleted,
    RunCreated,
    RunFailed,
    RunReopened,
    RunStarted,
    StepCompensated,
    StepCompleted,
    StepFailed,
    StopRequested,
    UndoSkipped,
)
from bext_workflow.model.names import END
from bext_workflow.model.run import Completed
from bext_workflow.model.status import Call, IncidentKind, WorkflowStatus

Changes: TypeAlias = dict[str, object]


def initial(plan: Plan, created: RunCreated, at: int) -> State:
    """The state after the first event of a run."""
    first = plan.definition.first
    return State(
        plan=plan,
        run_id=created.run_id,
        workflow=created.workflow,
        version=created.version,
        key=created.key,
        tags=created.tags,
        seq=1,
        status=WorkflowStatus.RUNNING if created.begun else WorkflowStatus.PENDING,
        context=Layers(created.context.value),
        branches=(Branch(id=0, step=first, visit=1, ready_at=at),),
        visits=Layers({first: 1}),
        created_at=at,
        started_at=at if created.begun else None,
        updated_at=at,
    )


def evolve(state: State, event: Event, at: int) -> State:
    """The state after `event`, which happened at `at` (ms). Raises `ValueError` for a second `run_created`."""
    changes = _changes(state, event, at)
    if state.recoveries and not _follows_a_crash(event):
        changes["recoveries"] = 0
    after = replace(state, seq=state.seq + 1, updated_at=at, **changes)
    status = _live_status(after)
    return after if status is after.status else replace(after, status=status)


def fold(plan: Plan, events: Iterable[tuple[Event, int]]) -> State:
    """The state of a journal, (event, at) from the first on. Raises `ValueError` if it does not begin with a start."""
    rest = iter(events)
    created, at = next(rest, (None, 0))
    if not isinstance(created, RunCreated):
        raise ValueError("a journal begins with run_created")
    state = initial(plan, created, at)
    for event, event_at in rest:
        state = evolve(state, event, event_at)
    return state


def _follows_a_crash(event: Event) -> bool:
    """Whether the event is no progress: a run that sees only such events may be what kills its hosts (semantics §6)."""
    match event:
        case Recovered() | AttemptStarted() | AttemptCleared():
            return True
        case AttemptLost():
            return event.crashed
        case _:
            return False


def _changes(state: State, event: Event, at: int) -> Changes:
    """The fields that the event changes; the events of every run come first."""
    match event:
        case StepCompleted():
            return _step_completed(state, event, at)
        case RunCompleted():
            return _run_completed(state, event, at)
        case AttemptStarted():
            return _attempt_started(state, event, at)
        case AttemptFailed():
            return _attempt_failed(state, event, at)
        case StepFailed():
            return _step_failed(state, event, at)
        case CompensationStarted():
            return _compensation_started(state, event, at)
        case StepCompensated():
            return _step_compensated(state, event, at)
        case RunCompensated():
            return _run_compensated(state, event, at)
        case RunStarted():
            return _run_started(state, event, at)
        case AttemptLost():
            return _attempt_lost(state, event, at)
        case AttemptCleared():
            return _attempt_cleared(state, event, at)
        case AttemptRenewed():
            return _attempt_renewed(state, event, at)
        case StopRequested():
            return _stop_requested(state, event, at)
        case BranchSettled():
            return _branch_settled(state, event, at)
        case UndoSkipped():
            return _undo_skipped(state, event, at)
        case IncidentOpened():
            return _incident_opened(state, event, at)
        case IncidentResolved():
            return _incident_resolved(state, event, at)
        case EvidenceAttached():
            return _evidence_attached(state, event, at)
        case RunReopened():
            return _run_reopened(state, event, at)
        case RunFailed():
            return _run_failed(state, event, at)
        case RunCancelled():
            return _run_cancelled(state, event, at)
        case CompletionSettled():
            return _completion_settled(state, event, at)
        case Recovered():
            return _recovered(state, event, at)
        case ActIgnored():
            return _act_ignored(state, event, at)
        case RunCreated():
            raise ValueError("a run is created once")
        case _:
            assert_never(event)


def _run_started(state: State, event: RunStarted, at: int) -> Changes:
    return {"status": WorkflowStatus.RUNNING, "started_at": at}


def _attempt_started(state: State, event: AttemptStarted, at: int) -> Changes:
    match event.call:
        case Call.STEP:
            return _branch(state, event.branch, phase=Phase.STARTED, recorded=True)
        case Call.UNDO:
            return _undo(state, phase=Phase.STARTED, recorded=True)
        case Call.COMPLETE:
            return _notice(state, phase=Phase.STARTED)


def _attempt_failed(state: State, event: AttemptFailed, at: int) -> Changes:
    again: Changes = {"phase": Phase.READY, "attempt": event.attempt + 1, "ready_at": event.retry_at}
    match event.call:
        case Call.STEP:
            branch = state.branch(event.branch)
            again |= {"acted": branch.acted or event.unknown, "recorded": True, "lost": None}
            return _branch(state, event.branch, spent=branch.spent + 1, **again)
        case Call.UNDO:
            return _undo(state, spent=_current_undo(state).spent + 1, recorded=True, lost=None, **again)
        case Call.COMPLETE:
            return _notice(state, spent=state.notices[0].spent + 1, **again)


def _attempt_lost(state: State, event: AttemptLost, at: int) -> Changes:
    if event.call is Call.UNDO:
        return _undo(state, phase=Phase.IN_DOUBT, lost=event)
    return _branch(state, event.branch, phase=Phase.IN_DOUBT, lost=event)


def _attempt_cleared(state: State, event: AttemptCleared, at: int) -> Changes:
    again: Changes = {"phase": Phase.READY, "ready_at": at, "lost": None}
    if event.call is Call.UNDO:
        return _undo(state, **again)
    return _branch(state, event.branch, **again)


def _attempt_renewed(state: State, event: AttemptRenewed, at: int) -> Changes:
    again: Changes = {"phase": Phase.READY, "spent": 0, "ready_at": at}
    if event.call is Call.COMPLETE:
        return _notice(state, attempt=state.notices[0].attempt + 1, **again)
    return _branch(state, event.branch, attempt=state.branch(event.branch).attempt + 1, lost=None, **again)


def _step_completed(state: State, event: StepCompleted, at: int) -> Changes:
    done = Completed(
        step=event.step,
        visit=event.visit,
        branch=event.branch,
        updates=event.updates.value,
        undo_data=event.undo_data,
        before=state.pending,
    )
    pivoted = state.pivoted or state.plan.step(event.step).pivot
    changes: Changes = {
        "pending": done,
        "context": state.context.merged(event.updates.value),
        "pivoted": pivoted,
    }
    # A stop lets nothing new begin. Past a pivot there is no way back: the branch then stands where it would go on,
    # for a person to see, unless what was done was to be left in place anyway.
    stop = state.stop
    if event.next == END or (stop is not None and not (pivoted and stop.compensate)):
        return changes | {"branches": _without(state, event.branch)}
    return changes | _entered(state, event.branch, event.next, at)


def _step_failed(state: State, event: StepFailed, at: int) -> Changes:
    acted = state.branch(event.branch).acted or event.own
    changes = _branch(state, event.branch, phase=Phase.FAILED, attempt=event.attempt, acted=acted)
    return changes | _own(state, event) | {"failure": state.failure or event.reason}


def _own(state: State, event: StepFailed | BranchSettled) -> Changes:
    if not event.own:
        return {}
    return {"own": (*state.own, OwnVisit(event.branch, event.step, event.visit))}


def _stop_requested(state: State, event: StopRequested, at: int) -> Changes:
    stop = Stop(by=event.by, reason=event.reason, compensate=event.compensate, now=event.now)
    return {"stop": stop, "inbox": event.act}


def _branch_settled(state: State, event: BranchSettled, at: int) -> Changes:
    return {"branches": _without(state, event.branch)} | _own(state, event)


def _compensation_started(state: State, event: CompensationStarted, at: int) -> Changes:
    return _own_listed(state) | {
        "status": WorkflowStatus.COMPENSATING,
        "failure": state.failure or event.reason,
        "branches": (),
        "undo": Undo(ready_at=at),
        "ended_at": None,
    }


def _own_listed(state: State) -> Changes:
    """The failed visits that may have acted go on top of the list: they are undone first."""
    pending = state.pending
    for own in state.own:
        pending = Completed(step=own.step, visit=own.visit, branch=own.branch, own=True, before=pending)
    return {"pending": pending, "own": ()}


def _step_compensated(state: State, event: StepCompensated, at: int) -> Changes:
    return _taken_off(state, at)


def _undo_skipped(state: State, event: UndoSkipped, at: int) -> Changes:
    return _taken_off(state, at) | {"skipped": (*state.skipped, event.step)}


def _taken_off(state: State, at: int) -> Changes:
    if state.pending is None:
        raise ValueError("nothing is left to undo")
    rest = state.pending.before
    return {"pending": rest, "undo": Undo(ready_at=at)}


def _incident_opened(state: State, event: IncidentOpened, at: int) -> Changes:
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
            changes |= _branch(state, event.branch, phase=Phase.HELD, attempt=event.attempt, acted=acted)
        case IncidentKind.COMPENSATION_FAILED:
            changes |= _undo(state, phase=Phase.HELD)
        case IncidentKind.COMPLETION_FAILED:
            changes |= _notice(state, phase=Phase.HELD)
        case IncidentKind.IN_DOUBT | IncidentKind.POISON:
            pass
    return changes


def _incident_resolved(state: State, event: IncidentResolved, at: int) -> Changes:
    changes: Changes = {"incidents": tuple(i for i in state.incidents if i.id != event.id)}
    incident = state.incident(event.id)
    if incident is not None and incident.kind is IncidentKind.STUCK_AFTER_PIVOT:
        changes["stop"] = None  # a person has decided where the run goes: the stop that led here is answered
    if event.act:
        changes["inbox"] = event.act
    return changes


def _evidence_attached(state: State, event: EvidenceAttached, at: int) -> Changes:
    return {"inbox": event.act}


def _run_reopened(state: State, event: RunReopened, at: int) -> Changes:
    changes: Changes = {"ended_at": None, "inbox": event.act or state.inbox}
    renewed: Changes = {"phase": Phase.READY, "spent": 0, "ready_at": at, "lost": None}
    if event.undo:
        undo = _undo(state, attempt=_current_undo(state).attempt + 1, **renewed)
        return changes | undo | {"status": WorkflowStatus.COMPENSATING}
    failed = state.branches[0]
    changes |= {"status": WorkflowStatus.RUNNING, "failure": None, "stop": None}
    if event.step is not None or event.new_visit:
        return changes | _own_listed(state) | _entered(state, failed.id, event.step or failed.step, at)
    return changes | _branch(state, failed.id, attempt=failed.attempt + 1, **renewed) | {"own": ()}


def _run_completed(state: State, event: RunCompleted, at: int) -> Changes:
    return _ended(state, WorkflowStatus.COMPLETED, event.notify, at)


def _run_compensated(state: State, event: RunCompensated, at: int) -> Changes:
    return _ended(state, WorkflowStatus.COMPENSATED, event.notify, at) | {"undo": None}


def _run_cancelled(state: State, event: RunCancelled, at: int) -> Changes:
    return _ended(state, WorkflowStatus.CANCELLED, event.notify, at)


def _run_failed(state: State, event: RunFailed, at: int) -> Changes:
    return _ended(state, WorkflowStatus.FAILED, event.notify, at) | {"failure": state.failure or event.reason}


def _ended(state: State, status: WorkflowStatus, notify: bool, at: int) -> Changes:
    changes: Changes = {"status": status, "ended_at": at, "endings": state.endings + 1}
    if notify:
        changes["notices"] = (*state.notices, Ending(n=state.endings + 1, status=status, ready_at=at))
    return changes


def _completion_settled(state: State, event: CompletionSettled, at: int) -> Changes:
    return {"notices": tuple(notice for notice in state.notices if notice.n != event.ending)}


def _recovered(state: State, event: Recovered, at: int) -> Changes:
    """A repeatable call that was cut off is simply due again; what is in doubt gets an event of its own."""
    phases = [branch.phase for branch in state.branches] + [notice.phase for notice in state.notices]
    changes: Changes = {
        "branches": tuple(_cut_off(state, branch) for branch in state.branches),
        "notices": tuple(_notice_cut_off(notice) for notice in state.notices),
    }
    if state.undo is not None and state.pending is not None:
        phases.append(state.undo.phase)
        if state.undo.phase is Phase.STARTED and state.plan.step(state.pending.step).undo_idempotent:
            changes["undo"] = replace(state.undo, phase=Phase.READY)
    if not state.suspect or Phase.STARTED in phases:
        changes["recoveries"] = state.recoveries + 1
    return changes


def _cut_off(state: State, branch: Branch) -> Branch:
    repeatable = state.plan.step(branch.step).idempotent
    begun = state.status is not WorkflowStatus.PENDING and not state.status.terminal
    match branch.phase:
        case Phase.READY if repeatable and begun and not branch.recorded:
            return replace(branch, acted=True)  # it may have been running: such attempts leave no record
        case Phase.STARTED if repeatable:
            return replace(branch, phase=Phase.READY, acted=True)
        case _:
            return branch


def _notice_cut_off(notice: Ending) -> Ending:
    return replace(notice, phase=Phase.READY) if notice.phase is Phase.STARTED else notice


def _act_ignored(state: State, event: ActIgnored, at: int) -> Changes:
    return {"inbox": event.act}


def _entered(state: State, branch: int, step: str, at: int) -> Changes:
    """The branch stands at a new visit of `step`."""
    visit = state.visits.get(step, 0) + 1
    fresh = Branch(id=branch, step=step, visit=visit, ready_at=at)
    return {
        "branches": tuple(fresh if old.id == branch else old for old in state.branches),
        "visits": state.visits.merged({step: visit}),
    }


def _branch(state: State, id_: int, **changes: object) -> Changes:
    return {"branches": tuple(replace(b, **changes) if b.id == id_ else b for b in state.branches)}


def _without(state: State, id_: int) -> tuple[Branch, ...]:
    return tuple(branch for branch in state.branches if branch.id != id_)


def _current_undo(state: State) -> Undo:
    if state.undo is None:
        raise ValueError("the run does not compensate")
    return state.undo


def _undo(state: State, **changes: object) -> Changes:
    return {"undo": replace(_current_undo(state), **changes)}


def _notice(state: State, **changes: object) -> Changes:
    """Endings are told of in order: the first one is the one that is being called."""
    return {"notices": (replace(state.notices[0], **changes), *state.notices[1:])}


def _live_status(state: State) -> WorkflowStatus:
    """The status of a live run as semantics §4 derives it; PENDING and the terminal ones move by their own events."""
    if state.status.terminal or state.status is WorkflowStatus.PENDING:
        return state.status
    if not state.incidents:
        return WorkflowStatus.RUNNING if state.undo is None else WorkflowStatus.COMPENSATING
    poisoned = any(incident.kind is IncidentKind.POISON for incident in state.incidents)
    if state.undo is not None:
        held = poisoned or any(incident.call is Call.UNDO for incident in state.incidents)
        return WorkflowStatus.SUSPENDED if held else WorkflowStatus.COMPENSATING
    in_question = {incident.branch for incident in state.incidents if incident.call is Call.STEP}
    moves = not state.branches or any(branch.id not in in_question for branch in state.branches)
    return WorkflowStatus.RUNNING if moves and not poisoned else WorkflowStatus.SUSPENDED
