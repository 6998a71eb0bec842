"""What a host would hand to the plugin: snapshots of a checkout run."""

from __future__ import annotations

import msgspec

from bext_workflow import WorkflowRun, WorkflowStatus
from bext_workflow.model.context import ContextView, Layers
from bext_workflow.model.json import Json, JsonObject
from bext_workflow_pg.order import Order

RUN_ID = "0190f5fe-7c00-7a00-8000-000000000001"

ORDER = Order(order_id="o-1", sku="widget", quantity=2, payment_method="pm_ok", email="ada@example.com")
CONTEXT: JsonObject = msgspec.to_builtins(ORDER)


def forward(step: str, *, attempt: int = 1, run_id: str = RUN_ID, **context: Json) -> WorkflowRun:
    """An attempt of a step; `context` goes over that of an order that works."""
    return _snapshot(step, f"{run_id}:{step}", WorkflowStatus.RUNNING, attempt, run_id, context)


def undo(step: str, *, attempt: int = 1, run_id: str = RUN_ID, **context: Json) -> WorkflowRun:
    """An attempt to undo a step."""
    return _snapshot(step, f"{run_id}:{step}:compensate", WorkflowStatus.COMPENSATING, attempt, run_id, context)


def without(field: str) -> WorkflowRun:
    """A first step whose context lacks a field."""
    context = {name: value for name, value in CONTEXT.items() if name != field}
    return msgspec.structs.replace(forward("reserve_stock"), context=ContextView(Layers(context)))


def _snapshot(
    step: str, key: str, status: WorkflowStatus, attempt: int, run_id: str, context: JsonObject
) -> WorkflowRun:
    return WorkflowRun(
        run_id=run_id,
        workflow="checkout",
        version=1,
        status=status,
        context=ContextView(Layers(CONTEXT, context)),
        step=step,
        attempt=attempt,
        visit=1,
        idempotency_key=key,
    )
