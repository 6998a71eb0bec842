"""The acts that a person may ask of a run, as what makes them of the run's state."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from bext_workflow.core.input import ActInput, Cancel, Pause, Reopen, Resume
from bext_workflow.core.state import State
from bext_workflow.errors import UsageError
from bext_workflow.model.status import IncidentKind
from bext_workflow.service.protocols import CancelRequest, RetryRequest

Certain: TypeAlias = Callable[[State, int], ActInput]
"""A `Build` that always makes an act."""


def cancel_of(request: CancelRequest, by: str) -> Certain:
    return lambda _, act: Cancel(act=act, by=by, reason=request.reason, compensate=request.compensate, now=request.now)


def reopen_of(request: RetryRequest, by: str) -> Certain:
    def build(state: State, act: int) -> ActInput:
        if not request.reason.strip() and _answers_an_incident(state):
            raise UsageError("this retry answers an incident, and an answer needs a note", mend="give a reason")
        return Reopen(act=act, by=by, reason=request.reason, step=request.step, new_visit=request.new_visit)

    return build


def pause_of(reason: str, by: str) -> Certain:
    return lambda _, act: Pause(act=act, by=by, reason=reason)


def resume_of(reason: str, by: str) -> Certain:
    return lambda _, act: Resume(act=act, by=by, reason=reason)


def _answers_an_incident(state: State) -> bool:
    return any(incident.kind is IncidentKind.COMPENSATION_FAILED for incident in state.incidents)
