"""What both simulators of the core need: one whose run is a line, and one whose run has branches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from bext_workflow.core.input import Begun, Expired, Input, Lost, Opened, Settled, TimerDue
from bext_workflow.core.state import Incident
from bext_workflow.core.work import Begin, Expire, Fire, Open, Settle
from bext_workflow.model.event import Event
from bext_workflow.model.status import Action

NOT_SIMULATED = frozenset(
    {
        *("child_started", "child_ended", "child_stop_asked", "child_undo_asked", "parent_told", "undo_requested"),
        *("answer_received", "answer_taken", "wait_reminded", "policy_changed", "heartbeat_recorded"),
    }
)
"""Kinds of events of sub-workflows and approvals, which are no part of the simulated definitions."""

INTERRUPTED = Lost(reason="interrupted by a cancel")


class HostDied(BaseException):
    """The process is gone, with all that it knew."""


def move_of(action: Begin | Settle | Open | Fire | Expire) -> Input:
    """What the host decides by itself when it is due."""
    match action:
        case Begin():
            return Begun()
        case Settle():
            return Settled(branch=action.branch)
        case Open():
            return Opened(branch=action.branch)
        case Fire():
            return TimerDue(branch=action.branch)
        case Expire():
            return Expired()


def last_word(incident: Incident) -> Action:
    """The answer of someone who wants to go home."""
    wanted = (Action.CLOSE, Action.FAIL, Action.CANCEL)
    return next(action for action in wanted if action in incident.actions)


class Placed(Protocol):
    """A call that was made when the journal had `seq` events."""

    seq: int


C = TypeVar("C", bound=Placed)


def timeline_of(events: Sequence[Event], calls: Sequence[C]) -> list[Event | C]:
    """The events, and the calls among them where they were made."""
    timeline: list[Event | C] = []
    waiting = iter(calls)
    called = next(waiting, None)
    for seq, event in enumerate(events, start=1):
        timeline.append(event)
        while called is not None and called.seq == seq:
            timeline.append(called)
            called = next(waiting, None)
    return timeline
