"""`evolve`: the state after one more event. Total over the events that `decide` writes; it judges nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from msgspec.structs import replace

from bext_workflow.core import changes, moves, parking
from bext_workflow.core.moves import Changes
from bext_workflow.core.state import Branch, Phase, Plan, State
from bext_workflow.model.context import Layers
from bext_workflow.model.event import (
    ActIgnored,
    AnswerReceived,
    AnswerTaken,
    AttemptCleared,
    AttemptFailed,
    AttemptLost,
    AttemptRenewed,
    AttemptStarted,
    BranchSettled,
    ChildEnded,
    ChildStarted,
    ChildStopAsked,
    ChildUndoAsked,
    CompensationStarted,
    CompletionSettled,
    Event,
    EvidenceAttached,
    HeartbeatRecorded,
    IncidentOpened,
    IncidentResolved,
    JoinDecided,
    JoinOpened,
    LosersUndoStarted,
    ParentTold,
    PolicyChanged,
    Recovered,
    RunCancelled,
    RunCompensated,
    RunCompleted,
    RunCreated,
    RunFailed,
    RunPaused,
    RunReopened,
    RunResumed,
    RunStarted,
    RunTimedOut,
    SignalReceived,
    StepCompensated,
    StepCompleted,
    StepFailed,
    StopRequested,
    UndoRequested,
    UndoSkipped,
    WaitEnded,
    WaitOpened,
    WaitReminded,
)
from bext_workflow.model.status import Call, IncidentKind, WorkflowStatus


def initial(plan: Plan, created: RunCreated, at: int) -> State:
    """The state after the first event of a run."""
    first = created.step or plan.definition.first
    return State(
        plan=plan,
        run_id=created.run_id,
        workflow=created.workflow,
        version=created.version,
        key=created.key,
        tags=created.tags,
        by=created.by,
        policy=created.policy,
        forked_from=created.forked_from,
        seq=1,
        status=WorkflowStatus.RUNNING if created.begun else WorkflowStatus.PENDING,
        context=Layers(created.context.value),
        branches=(Branch(id=0, step=first, visit=1, entered_at=at),),
        visits=Layers({first: 1}),
        created_at=at,
        started_at=at if created.begun else None,
        timed_from=at if created.begun else None,
        updated_at=at,
        versions=created.children,
        parent=created.parent,
        given=created.context.value if created.parent is not None else {},
    )


def evolve(state: State, event: Event, at: int) -> State:
    """The state after `event`, which happened at `at` (ms). Raises `ValueError` for a second `run_created`."""
    moved = _changes(state, event, at)
    if state.recoveries and not _follows_a_crash(event):
        moved["recoveries"] = 0
    after = replace(state, seq=state.seq + 1, updated_at=at, **moved)
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
        case Recovered() | AttemptStarted() | AttemptCleared() | PolicyChanged() | HeartbeatRecorded():
            return True
        case AttemptLost():
            return event.crashed
        case _:
            return False


def _changes(state: State, event: Event, at: int) -> Changes:
    """The fields that the event changes; the events of every run come first."""
    match event:
        case StepCompleted():
            return changes.step_completed(state, event, at)
        case RunCompleted():
            return changes.run_completed(state, event, at)
        case AttemptStarted():
            return changes.attempt_started(state, event, at)
        case HeartbeatRecorded():
            return changes.heartbeat_recorded(state, event, at)
        case AttemptFailed():
            return changes.attempt_failed(state, event, at)
        case StepFailed():
            return changes.step_failed(state, event, at)
        case CompensationStarted():
            return changes.compensation_started(state, event, at)
        case StepCompensated():
            return changes.step_compensated(state, event, at)
        case RunCompensated():
            return changes.run_compensated(state, event, at)
        case RunStarted():
            return changes.run_started(state, event, at)
        case AttemptLost():
            return changes.attempt_lost(state, event, at)
        case AttemptCleared():
            return changes.attempt_cleared(state, event, at)
        case AttemptRenewed():
            return changes.attempt_renewed(state, event, at)
        case StopRequested():
            return changes.stop_requested(state, event, at)
        case RunTimedOut():
            return {"timed_out": True}
        case PolicyChanged():
            return {"policy": event.policy}
        case RunPaused():
            return {"paused": True, "inbox": event.act}
        case RunResumed():
            return {"paused": False, "inbox": event.act}
        case BranchSettled():
            return changes.branch_settled(state, event, at)
        case WaitOpened():
            return parking.wait_opened(state, event, at)
        case WaitEnded():
            return parking.wait_ended(state, event, at)
        case AnswerReceived():
            return parking.answer_received(state, event, at)
        case AnswerTaken():
            return parking.answer_taken(state, event, at)
        case WaitReminded():
            return parking.wait_reminded(state, event, at)
        case ChildStarted():
            return parking.child_started(state, event, at)
        case ChildEnded():
            return parking.child_ended(state, event, at)
        case ChildStopAsked():
            return parking.child_stop_asked(state, event, at)
        case ChildUndoAsked():
            return parking.child_undo_asked(state, event, at)
        case ParentTold():
            return parking.parent_told(state, event, at)
        case UndoRequested():
            return {"inbox": event.act}
        case JoinDecided():
            return moves.join_decided(state, event, at)
        case LosersUndoStarted():
            return changes.losers_undo_started(state, event, at)
        case JoinOpened():
            return moves.join_opened(state, event, at)
        case SignalReceived():
            return parking.signal_received(state, event, at)
        case UndoSkipped():
            return changes.undo_skipped(state, event, at)
        case IncidentOpened():
            return changes.incident_opened(state, event, at)
        case IncidentResolved():
            return changes.incident_resolved(state, event, at)
        case EvidenceAttached():
            return changes.evidence_attached(state, event, at)
        case RunReopened():
            return changes.run_reopened(state, event, at)
        case RunFailed():
            return changes.run_failed(state, event, at)
        case RunCancelled():
            return changes.run_cancelled(state, event, at)
        case CompletionSettled():
            return changes.completion_settled(state, event, at)
        case Recovered():
            return changes.recovered(state, event, at)
        case ActIgnored():
            return changes.act_ignored(state, event, at)
        case RunCreated():
            raise ValueError("a run is created once")
        case _:
            assert_never(event)


def _live_status(state: State) -> WorkflowStatus:
    """The status of a live run as semantics §4 derives it; PENDING and the terminal ones move by their own events."""
    if state.status.terminal or state.status is WorkflowStatus.PENDING:
        return state.status
    calls = {incident.call for incident in state.incidents}
    if state.paused or (calls and any(incident.kind is IncidentKind.POISON for incident in state.incidents)):
        return WorkflowStatus.SUSPENDED
    undo_held = Call.UNDO in calls
    if state.compensating:
        return WorkflowStatus.SUSPENDED if undo_held else WorkflowStatus.COMPENSATING
    if undo_held:
        return WorkflowStatus.SUSPENDED
    held = {incident.branch for incident in state.incidents if incident.call is Call.STEP}
    parked = False
    for branch in state.branches:
        if branch.live and branch.id not in held and (branch.phase is not Phase.WAITING or branch.child is not None):
            return WorkflowStatus.RUNNING
        parked = parked or branch.phase is Phase.WAITING
    if state.undo is not None or not (held or parked):
        return WorkflowStatus.RUNNING
    return WorkflowStatus.SUSPENDED if held else WorkflowStatus.WAITING
