"""A fork: a new run that begins where an ended one stood (semantics §13)."""

from __future__ import annotations

from bext_workflow.core.position import Journal, standing_at, standing_before
from bext_workflow.core.state import Plan, State
from bext_workflow.errors import Conflict, StartKeyReused, UsageError
from bext_workflow.model.event import RunCreated
from bext_workflow.model.json import EMPTY, Document, dumps
from bext_workflow.model.origin import ForkedFrom
from bext_workflow.ports.audit import AuditEntry
from bext_workflow.ports.store import RunRow
from bext_workflow.service.protocols import ForkRequest
from bext_workflow.service.starting import NewRun


def forks_space(run_id: str) -> str:
    """Where the start keys of a run's forks are (semantics §6)."""
    return f"fork:{run_id}"


def check_fork(request: ForkRequest) -> None:
    """Raises `UsageError` unless it says where, in one way."""
    if (request.at is None) is (request.step is None):
        raise UsageError("a run is forked at an event or from a step", mend="give one of the two")


def refuse_live(row: RunRow) -> None:
    """Raises `Conflict` for a run that has not ended."""
    if not row.status.terminal:
        raise Conflict(f"the run is {row.status}: only one that has ended is forked", mend="wait for it, or cancel it")


def refuse_other_fork(journal: Journal, request: ForkRequest) -> None:
    """Raises `StartKeyReused` if the run that the key began, with this journal, is not what is asked for now.

    Where it began tells: what has become of the source since, and where a step would be found now, do not matter.
    """
    match journal[0][0]:
        case RunCreated(forked_from=ForkedFrom(seq=seq), step=step, run_id=run_id):
            if request.at == seq or request.step == step:
                return
            told = f"the key {request.key!r} was used for run {run_id}, which begins at step {step!r} as of event {seq}"
            raise StartKeyReused(told, mend="use a new key for another fork")
        case _:
            raise ValueError("the key of a fork began a run that is none")


def position(plan: Plan, journal: Journal, request: ForkRequest) -> State:
    """The run as it stood where the request says. Raises `Conflict` if no run can begin there."""
    if request.step is not None:
        return standing_before(plan, journal, request.step)
    return standing_at(plan, journal, request.at or 0)


def forked_run(state: State, *, run_id: str, at: int, by: str, request: ForkRequest) -> NewRun:
    """The run that begins where `state`'s run stood: with its context and position, and nothing to undo of it."""
    definition, context = state.plan.definition, state.context.to_dict()
    step, origin = state.branches[0].step, ForkedFrom(run_id=state.run_id, seq=state.seq)
    created = RunCreated(
        run_id=run_id,
        workflow=definition.id,
        version=definition.version,
        digest=definition.digest,
        context=Document(dumps(context), context) if context else EMPTY,
        tags=state.tags,
        key=request.key,
        by=by,
        children=state.versions,
        policy=definition.policy,
        step=step,
        forked_from=origin,
    )
    data = dumps({"from": origin.run_id, "seq": origin.seq})
    return NewRun(
        created=created,
        first_step=step,
        at=at,
        fingerprint=str(origin.seq),
        key_space=forks_space(origin.run_id),
        audit=AuditEntry(name="run.fork", by=by, reason=request.reason, data=data),
    )
