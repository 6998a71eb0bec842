"""The run as a plugin call sees it."""

from __future__ import annotations

from msgspec.structs import replace

from bext_workflow.core.forks import item_of, undo_target
from bext_workflow.core.state import State
from bext_workflow.core.work import Compensate, Execute, Notify, Verify
from bext_workflow.model.context import ContextView, Layers, copy_json
from bext_workflow.model.json import Json
from bext_workflow.model.run import Beat, Completed, Mint, WorkflowRun
from bext_workflow.model.status import Call, WorkflowStatus
from bext_workflow.model.transaction import Transact


def of(
    state: State,
    action: Execute | Compensate | Verify | Notify,
    *,
    mint: Mint | None = None,
    beat: Beat | None = None,
    transact: Transact | None = None,
) -> WorkflowRun:
    """The snapshot for the action's call; `mint` is for calls of steps, `beat` for those of undos too."""
    match action:
        case Execute() if transact is not None:
            return replace(_for_step(state, action, mint, beat), transact=transact)
        case Execute():
            return _for_step(state, action, mint, beat)
        case Verify() if action.call is Call.STEP:
            return _for_step(state, action, mint, beat)
        case Compensate() | Verify():
            return replace(_for_undo(state, action), beat=beat)
        case Notify():
            return _for_ending(state, action)


def place_of(state: State, action: Execute | Compensate | Verify | Notify) -> str:
    """Where in its maps the branch stands whose step is called or undone."""
    match action:
        case Notify():
            return ""
        case Execute() | Verify(call=Call.STEP):
            place: str = state.places.get(str(action.branch), "")
            return place
        case Compensate() | Verify():
            entry = undo_target(state)
            return "" if entry is None else entry.place


def _for_step(state: State, action: Execute | Verify, mint: Mint | None, beat: Beat | None) -> WorkflowRun:
    """For `run_step`, and for `verify_step` of a step in doubt."""
    context = state.context_of(action.branch)
    run = _snapshot(state, context, action.step, action.visit, action.attempt, action.key)
    branch = state.branch(action.branch)
    if branch.index is not None:
        run = replace(run, index=branch.index, item=copy_json(item_of(state, branch)))
    detail = None if branch.detail is None else copy_json(branch.detail)
    return replace(run, mint=mint, beat=beat, heartbeat_detail=detail)


def _for_undo(state: State, action: Compensate | Verify) -> WorkflowRun:
    """For `compensate_step`: the branch's latest context with the visit's own updates over it (semantics §5)."""
    entry = undo_target(state)
    own: Completed = entry if entry is not None else Completed(step=action.step, visit=action.visit)
    context = state.context_of(own.branch).merged(own.updates)
    run = _snapshot(state, context, action.step, action.visit, action.attempt, action.key, undo_data=own.undo_data)
    return run if own.index is None else replace(run, index=own.index, item=copy_json(own.item))


def _for_ending(state: State, action: Notify) -> WorkflowRun:
    """For `on_workflow_complete`: the status is that of the ending, whatever has moved since."""
    return _snapshot(state, state.context, "", action.n, action.attempt, action.key, status=action.status)


def _snapshot(
    state: State,
    context: Layers,
    step: str,
    visit: int,
    attempt: int,
    key: str,
    *,
    status: WorkflowStatus | None = None,
    undo_data: Json = None,
) -> WorkflowRun:
    return WorkflowRun(
        run_id=state.run_id,
        workflow=state.workflow,
        version=state.version,
        status=status or state.status,
        context=ContextView(context),
        step=step,
        attempt=attempt,
        visit=visit,
        idempotency_key=key,
        completed=state.pending,
        undo_data=undo_data,
        failure=state.failure,
        key=state.key,
        tags=state.tags,
        created_at=state.created_at,
        started_at=state.started_at,
        updated_at=state.updated_at,
    )
