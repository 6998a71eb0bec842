"""What the host says, in logs and metrics, about what has just become durable."""

from __future__ import annotations

from bext_workflow.core.decide import Decision
from bext_workflow.core.evolve import evolve
from bext_workflow.core.state import State
from bext_workflow.core.work import left_in_place
from bext_workflow.host.shop import Shop
from bext_workflow.model.event import (
    Event,
    IncidentOpened,
    IncidentResolved,
    Recovered,
    RunCancelled,
    RunFailed,
    WaitReminded,
)
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.ports import telemetry as names

_WORTH_WAITING_FOR = frozenset({WorkflowStatus.SUSPENDED, WorkflowStatus.WAITING})
_LOUD = (IncidentOpened, IncidentResolved, RunFailed, RunCancelled, WaitReminded)


def report(shop: Shop, before: State, decision: Decision) -> None:
    """Reports what is worth a person's or a waiting caller's attention. Quiet progress costs a type check."""
    after = decision.state
    for event in decision.events:
        if isinstance(event, Recovered):
            # It is a decision's first event, and one that follows may set the count back.
            _report_recovery(shop, evolve(before, event, after.updated_at))
        elif isinstance(event, _LOUD):
            _report_event(shop, after, event)
    if after.status.terminal or after.status in _WORTH_WAITING_FOR:
        shop.moved(after.run_id, after.status)


def _report_event(shop: Shop, after: State, event: Event) -> None:
    bound = {"run_id": after.run_id, "workflow": after.workflow}
    match event:
        case IncidentOpened():
            shop.telemetry.add(names.INCIDENTS_OPEN, 1, kind=event.kind)
            shop.telemetry.log(
                names.INCIDENT_OPENED,
                **bound,
                incident=event.id,
                kind=str(event.kind),
                step=event.step,
                attempt=event.attempt,
                reason=event.reason,
            )
        case WaitReminded():
            shop.telemetry.log(names.APPROVAL_REMINDED, **bound, step=event.step, visit=event.visit)
        case IncidentResolved():
            shop.telemetry.add(names.INCIDENTS_OPEN, -1, kind=event.kind)
        case RunFailed() | RunCancelled() if (left := left_in_place(after)) and not after.incidents:
            shop.telemetry.add(names.RUNS_LEFT_IN_PLACE)
            shop.telemetry.log(names.LEFT_IN_PLACE, **bound, steps=list(left), reason=after.failure)
        case _:
            return


def _report_recovery(shop: Shop, state: State) -> None:
    shop.telemetry.log(names.RUN_RECOVERED, run_id=state.run_id, workflow=state.workflow, recoveries=state.recoveries)
