"""The statuses of a run (semantics §4)."""

from __future__ import annotations

from enum import StrEnum


class WorkflowStatus(StrEnum):
    """PENDING to COMPENSATING are live; COMPLETED, COMPENSATED, FAILED and CANCELLED are terminal."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    WAITING = "WAITING"
    SUSPENDED = "SUSPENDED"
    COMPENSATING = "COMPENSATING"
    COMPLETED = "COMPLETED"
    COMPENSATED = "COMPENSATED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def terminal(self) -> bool:
        return self in TERMINAL


TERMINAL = frozenset(
    {WorkflowStatus.COMPLETED, WorkflowStatus.COMPENSATED, WorkflowStatus.FAILED, WorkflowStatus.CANCELLED}
)
LIVE = frozenset(WorkflowStatus) - TERMINAL


class IncidentKind(StrEnum):
    """Why a person must decide (semantics §5)."""

    IN_DOUBT = "in_doubt"
    COMPENSATION_FAILED = "compensation_failed"
    EXHAUSTED = "exhausted"
    STUCK_AFTER_PIVOT = "stuck_after_pivot"
    POISON = "poison"
    COMPLETION_FAILED = "completion_failed"


class Action(StrEnum):
    """What a person may answer to an incident (semantics §5)."""

    DONE = "done"
    NOT_DONE = "not_done"
    FAIL = "fail"
    FAIL_UNDO = "fail_undo"
    RETRY = "retry"
    UNDONE = "undone"
    SKIP = "skip"
    CANCEL = "cancel"
    CLOSE = "close"


ANSWERS = {
    Action.DONE: "it has happened; go on from there, with what it would have set in the context (--updates)",
    Action.NOT_DONE: "it has not happened; call it again",
    Action.FAIL: "it has not happened; roll back",
    Action.FAIL_UNDO: "undo it too, then roll back",
    Action.RETRY: "try again from exactly there",
    Action.UNDONE: "a person has undone it; go on",
    Action.SKIP: "leave it in place; undo the rest",
    Action.CANCEL: "stop the run and undo what it has done",
    Action.CLOSE: "leave everything as it is",
}
"""What each answer means, in words for whoever decides."""


class WaitEnd(StrEnum):
    """What ended a wait."""

    SIGNAL = "signal"
    ANSWER = "answer"
    TIMER = "timer"
    PERSON = "person"
    STOP = "stop"


class StopKind(StrEnum):
    """Why a run shall end early."""

    CANCEL = "cancel"
    TIMEOUT = "timeout"
    FAILURE = "failure"


class Call(StrEnum):
    """The three kinds of call that the host makes for a run."""

    STEP = "step"
    UNDO = "undo"
    COMPLETE = "complete"
