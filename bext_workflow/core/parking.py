"""What the events of waits, of signals and answers, and of children change in the state. It judges nothing."""

from __future__ import annotations

from msgspec.structs import replace

from bext_workflow.core.moves import Changes, moved_on, of_branch, parked, written
from bext_workflow.core.state import Answer, Phase, Signal, State
from bext_workflow.model.event import (
    AnswerReceived,
    AnswerTaken,
    ChildEnded,
    ChildStarted,
    ChildStopAsked,
    ChildUndoAsked,
    ParentTold,
    SignalReceived,
    WaitEnded,
    WaitOpened,
    WaitReminded,
)
from bext_workflow.model.run import Completed
from bext_workflow.model.status import WaitEnd
from bext_workflow.model.wait import WaitFor


def wait_opened(state: State, event: WaitOpened, at: int) -> Changes:
    return parked(state, event.branch, event.wait)


def wait_ended(state: State, event: WaitEnded, at: int) -> Changes:
    branch = state.branch(event.branch)
    changes = written(state, branch, event.updates.value) | {
        "signals": tuple(signal for signal in state.signals if signal.act != event.signal),
    }
    if event.completes:
        done = Completed(
            step=event.step, visit=event.visit, branch=event.branch, place=branch.place, before=state.pending
        )
        changes |= {"pending": done, "pivoted": state.pivoted or state.plan.step(event.step).pivot}
    after = replace(state, **changes)
    if event.how is WaitEnd.STOP:
        return changes | of_branch(after, event.branch, phase=Phase.STOPPED)
    return changes | moved_on(after, event.branch, event.next, event.fork, at)


def signal_received(state: State, event: SignalReceived, at: int) -> Changes:
    changes: Changes = {"inbox": event.act}
    if event.id is not None:
        changes["signal_ids"] = state.signal_ids.merged({event.id: event.act})
    if not event.late:
        signal = Signal(act=event.act, name=event.name, payload=event.payload, at=at)
        changes["signals"] = (*state.signals, signal)
    return changes


def answer_received(state: State, event: AnswerReceived, at: int) -> Changes:
    changes: Changes = {"inbox": event.act}
    if not event.late:
        answer = Answer(
            key=event.key,
            by=event.by,
            at=event.accepted_at,
            payload=event.payload,
            approved=event.approved,
            comment=event.comment,
        )
        changes |= {"answers": (*state.answers, answer), "answered": state.answered | {event.key}}
    return changes


def answer_taken(state: State, event: AnswerTaken, at: int) -> Changes:
    return {"answers": tuple(answer for answer in state.answers if answer.key != event.key)}


def wait_reminded(state: State, event: WaitReminded, at: int) -> Changes:
    branch = state.branch(event.branch)
    return {} if branch.wait is None else of_branch(state, event.branch, wait=replace(branch.wait, remind_at=None))


def child_started(state: State, event: ChildStarted, at: int) -> Changes:
    return parked(state, event.branch, WaitFor(child=event.run_id))


def child_ended(state: State, event: ChildEnded, at: int) -> Changes:
    return {"inbox": event.act, "child_endings": state.child_endings.merged({event.run_id: event.ending})}


def child_stop_asked(state: State, event: ChildStopAsked, at: int) -> Changes:
    return of_branch(state, event.branch, wait=WaitFor(child=event.run_id, stopping=True))


def child_undo_asked(state: State, event: ChildUndoAsked, at: int) -> Changes:
    return {} if state.undo is None else {"undo": replace(state.undo, phase=Phase.WAITING)}


def parent_told(state: State, event: ParentTold, at: int) -> Changes:
    return {"reports": tuple(report for report in state.reports if report.ending != event.ending)}
