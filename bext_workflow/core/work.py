"""What a run's driver is to do now. Derived from the state, never stored beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from bext_workflow.core.forks import is_loser, undo_target
from bext_workflow.core.lineage import child_key, undone_child
from bext_workflow.core.state import Branch, Ending, Phase, State, ending_key, undo_key, visit_key
from bext_workflow.model.run import newest_first
from bext_workflow.model.status import Call, IncidentKind, WorkflowStatus


class Begin(msgspec.Struct, frozen=True):
    """Take up a run that is PENDING."""


class Execute(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Call `run_step`. `intend`: make the attempt durable first."""

    branch: int
    step: str
    visit: int
    attempt: int
    key: str
    intend: bool


class Compensate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Call `compensate_step` for the entry that is undone next."""

    step: str
    visit: int
    attempt: int
    key: str
    intend: bool


class Verify(msgspec.Struct, frozen=True, kw_only=True):
    """Ask `verify_step` what became of the attempt in doubt."""

    call: Call
    branch: int
    step: str
    visit: int
    attempt: int
    key: str


class Notify(msgspec.Struct, frozen=True, kw_only=True):
    """Call `on_workflow_complete` for the n-th ending."""

    n: int
    status: WorkflowStatus
    attempt: int
    key: str
    intend: bool


class Open(msgspec.Struct, frozen=True, kw_only=True):
    """The branch stands at a step of the host's own: begin to wait."""

    branch: int


class Fire(msgspec.Struct, frozen=True, kw_only=True):
    """The time of the branch's wait has come."""

    branch: int


class Remind(msgspec.Struct, frozen=True, kw_only=True):
    """Nobody has answered the branch's wait for so long that a reminder is due."""

    branch: int


class Expire(msgspec.Struct, frozen=True):
    """The run's own time is over."""


class CallChild(msgspec.Struct, frozen=True, kw_only=True):
    """Start the run that the branch's step is, under that start key; with `find` see only whether it is there.

    If it is not, the branch settles.
    """

    branch: int
    step: str
    visit: int
    key: str
    find: bool


class StopChild(msgspec.Struct, frozen=True, kw_only=True):
    """Tell the branch's child to stop."""

    branch: int
    run_id: str
    compensate: bool
    now: bool


class UndoChild(msgspec.Struct, frozen=True, kw_only=True):
    """Tell the child to undo what it has done."""

    run_id: str


class TellParent(msgspec.Struct, frozen=True, kw_only=True):
    """Tell the parent of an end of this run."""

    ending: int
    status: WorkflowStatus


class Settle(msgspec.Struct, frozen=True, kw_only=True):
    """Under a stop: let the branch end, if nothing of it is running."""

    branch: int


Kin: TypeAlias = CallChild | StopChild | UndoChild | TellParent
"""What concerns another run: a child of this one, or its parent."""

Action: TypeAlias = Begin | Execute | Compensate | Verify | Notify | Open | Fire | Remind | Expire | Settle | Kin


def work(state: State, now: int) -> tuple[Action, ...]:
    """What may be done at `now` (ms). Empty: nothing until `wake_at`, or until an act from outside."""
    return tuple(_work(state, now))


def wake_at(state: State) -> int | None:
    """When the run has work next (ms; may be past), None if only an act from outside moves it."""
    return min(_due_times(state), default=None)


def wakes_after(state: State, now: int) -> int | None:
    """When more is due than is at `now`; None if only an act from outside moves it."""
    return min((due for due in _due_times(state) if due > now), default=None)


def expires_at(state: State) -> int | None:
    """When the run's own time is over (ms), as long as that matters: undo and a stop ignore it (semantics §5).

    Past a pivot a person is asked where to go from each branch, once it is known what its last attempt, or its child,
    has done.
    """
    if state.stop is not None or state.compensating or not state.branches:
        return None
    if state.pivoted and any(map(_acts, state.branches)):
        return None
    return state.deadline


def left_in_place(state: State) -> tuple[str, ...]:
    """The steps whose effects an ended run has not undone, oldest first (semantics §3, §5)."""
    if state.status not in (WorkflowStatus.FAILED, WorkflowStatus.CANCELLED):
        return ()
    acted = (entry.step for entry in newest_first(state.pending) if not state.plan.step(entry.step).waits)
    pending = tuple(acted)[::-1]
    own = tuple(visit.step for visit in state.own)
    return (*pending, *own, *reversed(state.skipped))


def _work(state: State, now: int) -> Iterator[Action]:
    if _poisoned(state):
        return
    for report in state.reports[:1]:
        yield TellParent(ending=report.ending, status=report.status)
    for notice in state.notices[:1]:
        if notice.phase is Phase.READY and notice.ready_at <= now:
            yield _notify(state, notice)
    if state.status.terminal or state.paused:
        return
    if state.undo is not None:
        yield from _undo_work(state, now)
        if state.compensating or _undo_held(state):
            return
    if state.status is WorkflowStatus.PENDING and state.stop is None:
        yield Begin()
        return
    if (over := expires_at(state)) is not None and over <= now:
        yield Expire()
    for branch in state.branches:
        yield from _branch_work(state, branch, now)


def _branch_work(state: State, branch: Branch, now: int) -> Iterator[Action]:
    match branch.phase:
        case Phase.READY | Phase.HELD | Phase.WAITING if state.stop is not None or is_loser(state, branch):
            if state.incident_of(branch) is None:
                yield from _to_settle(state, branch)
        case Phase.WAITING if branch.wait is not None and branch.wait.due_at is not None and branch.wait.due_at <= now:
            yield Fire(branch=branch.id)
        case Phase.WAITING if branch.wait is not None and branch.wait.remind_at is not None:
            if branch.wait.remind_at <= now:
                yield Remind(branch=branch.id)
        case Phase.READY if state.plan.step(branch.step).workflow is not None:
            yield _call_child(state, branch, find=False)
        case Phase.READY if state.plan.step(branch.step).hosted:
            yield Open(branch=branch.id)
        case Phase.READY if branch.ready_at <= now:
            repeatable = state.plan.step(branch.step).repeatable
            yield Execute(
                branch=branch.id,
                step=branch.step,
                visit=branch.visit,
                attempt=branch.attempt,
                key=_key_of(state, branch),
                intend=not repeatable or branch.recorded or state.suspect,
            )
        case Phase.IN_DOUBT if state.incident_of(branch) is None:
            yield Verify(
                call=Call.STEP,
                branch=branch.id,
                step=branch.step,
                visit=branch.visit,
                attempt=branch.attempt,
                key=_key_of(state, branch),
            )
        case _:
            return


def _key_of(state: State, branch: Branch) -> str:
    return visit_key(state.run_id, branch.step, branch.visit, branch.place)


def _to_settle(state: State, branch: Branch) -> Iterator[Action]:
    """A branch that is to end: its child ends first, also one of which a crash has left no word here."""
    if branch.phase is Phase.READY and state.plan.step(branch.step).workflow is not None:
        yield _call_child(state, branch, find=True)
    elif branch.child is None:
        yield Settle(branch=branch.id)
    elif branch.wait is not None and not branch.wait.stopping:
        stop = state.stop
        compensate, now = (True, False) if stop is None else (stop.compensate, stop.now)
        yield StopChild(branch=branch.id, run_id=branch.child, compensate=compensate, now=now)


def _call_child(state: State, branch: Branch, *, find: bool) -> CallChild:
    return CallChild(branch=branch.id, step=branch.step, visit=branch.visit, key=child_key(state, branch), find=find)


def _undo_work(state: State, now: int) -> Iterator[Action]:
    undo, entry = state.undo, undo_target(state)
    if undo is None or entry is None:
        return
    key = undo_key(state.run_id, entry.step, entry.visit, entry.place)
    child = undone_child(state)
    match undo.phase:
        case Phase.READY if child is not None:
            yield UndoChild(run_id=child)
        case Phase.READY if undo.ready_at <= now:
            repeatable = state.plan.step(entry.step).undo_idempotent
            yield Compensate(
                step=entry.step,
                visit=entry.visit,
                attempt=undo.attempt,
                key=key,
                intend=not repeatable or undo.recorded or state.suspect,
            )
        case Phase.IN_DOUBT if not _undo_held(state):
            yield Verify(
                call=Call.UNDO, branch=entry.branch, step=entry.step, visit=entry.visit, attempt=undo.attempt, key=key
            )
        case _:
            return


def _notify(state: State, notice: Ending) -> Notify:
    return Notify(
        n=notice.n,
        status=notice.status,
        attempt=notice.attempt,
        key=ending_key(state.run_id, notice.n),
        intend=state.suspect,
    )


def _due_times(state: State) -> Iterator[int]:
    if _poisoned(state):
        return
    if state.reports:
        yield 0
    for notice in state.notices[:1]:
        if notice.phase is not Phase.HELD:
            yield notice.ready_at
    if state.status.terminal or state.paused:
        return
    if state.undo is not None:
        if not _undo_held(state) and state.undo.phase is not Phase.WAITING:
            yield state.undo.ready_at
        if state.compensating or _undo_held(state):
            return
    if (over := expires_at(state)) is not None:
        yield over
    for branch in state.live:
        if state.incident_of(branch) is None:
            yield from _branch_due(state, branch)


def _branch_due(state: State, branch: Branch) -> Iterator[int]:
    if state.stop is not None or is_loser(state, branch):
        if branch.wait is None or not branch.wait.stopping:
            yield 0
    elif branch.phase is not Phase.WAITING:
        yield branch.ready_at
    elif branch.wait is not None:
        yield from (at for at in (branch.wait.due_at, branch.wait.remind_at) if at is not None)


def _acts(branch: Branch) -> bool:
    """Whether it is not known yet what the branch's step has done."""
    return branch.phase in (Phase.STARTED, Phase.IN_DOUBT) or branch.child is not None


def _undo_held(state: State) -> bool:
    """Whether a person must decide about an undo; until then nothing new starts."""
    return any(incident.call is Call.UNDO for incident in state.incidents)


def _poisoned(state: State) -> bool:
    return bool(state.incidents) and any(incident.kind is IncidentKind.POISON for incident in state.incidents)
