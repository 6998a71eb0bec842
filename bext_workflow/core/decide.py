"""`decide`: the events that follow an input. Total over (status × input): a pair that is not legal is a `Conflict`.

The rules live beside this file: `forward` for steps, `backward` for undo and completion, `acts` for what people do,
`crash` for what dies, `ending` for how runs end, `incidents` for what a person must decide.
"""

from __future__ import annotations

from typing import assert_never

import msgspec
from msgspec.structs import replace

from bext_workflow.core import acts, backward, children, crash, forward, visits, waiting
from bext_workflow.core.draft import Draft
from bext_workflow.core.input import (
    Answered,
    Beaten,
    Begun,
    Cancel,
    ChildCalled,
    ChildEnd,
    ChildStopped,
    ChildUndoing,
    Expired,
    Finished,
    Input,
    Intended,
    Late,
    Notified,
    Opened,
    ParentUndo,
    Pause,
    PolicyMoved,
    Recovered,
    ReminderDue,
    Reopen,
    Resolve,
    Resume,
    Settled,
    Signalled,
    TimerDue,
    Told,
    Undone,
    Verified,
    Withdrawn,
)
from bext_workflow.core.state import Branch, Phase, State
from bext_workflow.errors import Conflict
from bext_workflow.model.event import AttemptStarted, Event, ParentTold, PolicyChanged, RunStarted
from bext_workflow.model.status import LIVE, TERMINAL, Call, WorkflowStatus

_ANY = frozenset(WorkflowStatus)
_ACTIVE = LIVE - {WorkflowStatus.PENDING}

LEGAL: dict[type, frozenset[WorkflowStatus]] = {
    Begun: frozenset({WorkflowStatus.PENDING}),
    Intended: _ANY - {WorkflowStatus.PENDING},
    Finished: frozenset({WorkflowStatus.RUNNING, WorkflowStatus.SUSPENDED}),
    Withdrawn: frozenset({WorkflowStatus.RUNNING, WorkflowStatus.SUSPENDED}),
    Beaten: _ANY - {WorkflowStatus.PENDING},
    Verified: frozenset({WorkflowStatus.RUNNING, WorkflowStatus.COMPENSATING, WorkflowStatus.SUSPENDED}),
    Opened: frozenset({WorkflowStatus.RUNNING}),
    ChildCalled: _ANY - {WorkflowStatus.PENDING},
    ChildStopped: _ANY - {WorkflowStatus.PENDING},
    ChildUndoing: _ANY - {WorkflowStatus.PENDING},
    ChildEnd: _ANY,
    ParentUndo: TERMINAL | {WorkflowStatus.COMPENSATING, WorkflowStatus.SUSPENDED},
    Told: _ANY - {WorkflowStatus.PENDING},
    TimerDue: frozenset({WorkflowStatus.RUNNING, WorkflowStatus.WAITING, WorkflowStatus.SUSPENDED}),
    ReminderDue: frozenset({WorkflowStatus.RUNNING, WorkflowStatus.WAITING, WorkflowStatus.SUSPENDED}),
    Expired: frozenset({WorkflowStatus.RUNNING, WorkflowStatus.WAITING, WorkflowStatus.SUSPENDED}),
    Settled: LIVE - {WorkflowStatus.COMPENSATING},
    Undone: frozenset({WorkflowStatus.RUNNING, WorkflowStatus.COMPENSATING, WorkflowStatus.SUSPENDED}),
    Notified: _ANY - {WorkflowStatus.PENDING},
    Recovered: _ANY,
    PolicyMoved: LIVE,
    Late: _ANY,
    Cancel: (LIVE | {WorkflowStatus.FAILED}) - {WorkflowStatus.COMPENSATING},
    Reopen: frozenset({WorkflowStatus.FAILED}),
    Resolve: _ANY - {WorkflowStatus.PENDING},
    Signalled: _ANY,
    Answered: _ANY,
    Pause: LIVE,
    Resume: LIVE,
}
"""The statuses in which each input makes sense. What is done with a child makes sense, and changes nothing, when the
child has told of its end before it is known here."""


class Decision(msgspec.Struct, frozen=True, gc=False):
    """What follows: events to make durable, and the state once they are. No events: nothing follows."""

    events: list[Event]
    state: State


def decide(state: State, given: Input, *, now: int, jitter: float = 0.0) -> Decision:
    """What follows `given` at `now` (ms), with `jitter` drawn from [0, 1). Raises `Conflict` for what cannot be."""
    if state.status not in LEGAL[type(given)]:
        mend = "start a new run instead" if isinstance(given, Reopen) and state.status.terminal else ""
        raise Conflict(f"{_words(given)} is not possible while the run is {state.status}", mend=mend)
    draft = Draft(state, now, jitter)
    _apply(draft, given)
    return Decision(draft.events, draft.state)


def _apply(draft: Draft, given: Input) -> None:
    match given:
        case Finished():
            forward.finish(draft, draft.state.branch(given.branch), given.end, given.detail)
        case Withdrawn():
            forward.not_done(draft, draft.state.branch(given.branch), repeat=True)
        case Beaten():
            forward.beaten(draft, given)
        case Undone():
            backward.undone(draft, given.end)
        case Intended():
            _intend(draft, given)
        case Begun():
            draft.add(RunStarted())
        case Verified() if given.call is Call.UNDO:
            backward.verified(draft, given.answer)
        case Verified():
            forward.verified(draft, draft.state.branch(given.branch), given.answer)
        case Settled():
            _settle(draft, draft.state.branch(given.branch))
        case Notified():
            backward.notified(draft, given.n, given.error)
        case Opened():
            waiting.open_hosted(draft, draft.state.branch(given.branch))
        case ReminderDue():
            waiting.remind(draft, given.branch)
        case Answered():
            waiting.answer(draft, given)
        case ChildCalled():
            children.called(draft, given)
        case ChildStopped():
            children.stopped(draft, given)
        case ChildUndoing():
            children.undoing(draft, given)
        case ChildEnd():
            children.ended(draft, given)
        case ParentUndo():
            children.undo_for_parent(draft, given)
        case Told():
            draft.add(ParentTold(ending=given.ending))
        case TimerDue():
            waiting.timer_due(draft, given.branch)
        case Expired():
            acts.expire(draft)
        case Recovered():
            crash.recovered(draft, given)
        case PolicyMoved():
            draft.add(PolicyChanged(policy=given.policy, changes=given.changes))
        case Late():
            crash.late(draft, given)
        case Cancel():
            acts.cancel(draft, given)
        case Reopen():
            acts.reopen(draft, given)
        case Resolve():
            acts.resolve(draft, given)
        case Signalled():
            waiting.signalled(draft, given)
        case Pause():
            acts.pause(draft, given)
        case Resume():
            acts.resume(draft, given)
        case _:
            assert_never(given)


def _settle(draft: Draft, branch: Branch) -> None:
    """The attempt that would have been next is not made."""
    made = branch.attempt - 1 if branch.phase is Phase.READY else branch.attempt
    stop = draft.state.stop
    reason = "its join has no need of it" if stop is None else stop.reason
    visits.settle(draft, replace(branch, attempt=made), reason=reason)


def _intend(draft: Draft, given: Intended) -> None:
    match given.call:
        case Call.STEP:
            branch = draft.state.branch(given.branch)
            draft.add(AttemptStarted(branch=branch.id, step=branch.step, visit=branch.visit, attempt=branch.attempt))
        case Call.UNDO:
            entry, undo = backward.current(draft)
            draft.add(
                AttemptStarted(
                    call=Call.UNDO, branch=entry.branch, step=entry.step, visit=entry.visit, attempt=undo.attempt
                )
            )
        case Call.COMPLETE:
            draft.add(AttemptStarted(call=Call.COMPLETE, attempt=draft.state.notices[0].attempt))


def _words(given: Input) -> str:
    """How a message names the input."""
    match given:
        case Cancel():
            return "cancel"
        case Reopen():
            return "retry"
        case Resolve():
            return "resolving an incident"
        case ParentUndo():
            return "undo by the parent"
        case Pause():
            return "pause"
        case Resume():
            return "resume"
        case _:
            return type(given).__name__
