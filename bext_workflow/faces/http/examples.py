"""An example of every shape of the API, as the description shows it. A test holds each to its shape."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bext_workflow.faces.http.problem import Fault, Problem
from bext_workflow.faces.http.shapes import ForkBody, HoldBody, SignalBody, StartBody
from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.schedule import CatchUp, Overlap, SlotResult
from bext_workflow.model.status import Action, Call, IncidentKind, WorkflowStatus
from bext_workflow.model.view import (
    ApprovalView,
    AuditView,
    ChangeView,
    Consequence,
    DeliveryView,
    DriverView,
    EventView,
    FireView,
    IncidentCount,
    IncidentView,
    LiveCount,
    PluginView,
    RunView,
    ScheduleView,
    StatsView,
    StepView,
    TokenState,
    TokenView,
    WebhookView,
    WhyView,
    WorkflowView,
)
from bext_workflow.model.webhook import DeliveryState, WebhookEvent
from bext_workflow.service.administration import (
    BulkAct,
    BulkAnswer,
    BulkItem,
    BulkQuery,
    BulkRequest,
    CreatedToken,
    CreatedWebhook,
    TokenRequest,
    WebhookRequest,
)
from bext_workflow.service.protocols import (
    Acknowledged,
    CancelPlan,
    CancelRequest,
    CompleteRequest,
    DecideRequest,
    Readiness,
    ResolveRequest,
    RetryRequest,
)

_AT, _LATER = "2026-11-30T21:52:07.123Z", "2026-12-01T21:52:07.123Z"
_RUN = "01a231a2-7607-74e3-b996-9fdab35caf37"
_OTHER = "01a231ba-4fa4-711b-89e6-a58719184c54"
_ORDER: JsonObject = {"order_id": "o-1", "sku": "widget", "quantity": 2}

_TOKEN = TokenView(
    id=_OTHER,
    name="shop",
    state=TokenState.ACTIVE,
    scopes=["start:checkout", "view"],
    roles=["finance"],
    created_at=_AT,
    created_by="ada",
    expires_at=_LATER,
    revoked_at=None,
)
_WEBHOOK = WebhookView(
    id=_OTHER,
    url="https://hooks.example/bext",
    events=[WebhookEvent.RUN_FAILED],
    workflows=["checkout"],
    created_at=_AT,
    created_by="token:ops",
    removed_at=None,
)

_EXAMPLES: tuple[msgspec.Struct, ...] = (
    Acknowledged(run_id=_RUN, act="cancel", driven=True),
    ApprovalView(
        id=f"{_RUN}:ask",
        run_id=_RUN,
        workflow="hiring",
        step="ask",
        visit=1,
        title="May we hire?",
        by=["ada", "finance"],
        not_by="starter",
        form=None,
        opened_at=_AT,
        due_at=_LATER,
        closed_at=None,
        resolution=None,
    ),
    AuditView(
        id=41,
        at=_AT,
        by="token:ops",
        act="run.cancel",
        run_id=_RUN,
        about=None,
        reason="ordered twice",
        data={"before": {"status": "RUNNING"}, "after": {"status": "RUNNING"}, "asked": {"compensate": True}},
    ),
    BulkAnswer(
        items=[
            BulkItem(run_id=_RUN, status=WorkflowStatus.RUNNING, done=True),
            BulkItem(run_id=_OTHER, done=False, problem="conflict", detail="the run is COMPLETED"),
        ],
        dry_run=True,
    ),
    BulkRequest(act=BulkAct.PAUSE, query=BulkQuery(workflow="checkout"), reason="the bank is away"),
    CancelPlan(
        run_id=_RUN, status=WorkflowStatus.RUNNING, undo=["charge_card", "reserve_stock"], left_in_place=[], note=""
    ),
    CancelRequest(reason="ordered twice"),
    ChangeView(run_id=_RUN, workflow="checkout", status=WorkflowStatus.RUNNING, step="charge_card", seq=2, at=_AT),
    CompleteRequest(approved=True, comment="as agreed"),
    CreatedToken(token="bext_…", made=_TOKEN),  # noqa: S106 - nobody's
    CreatedWebhook(secret="whsec_…", made=_WEBHOOK),  # noqa: S106 - nobody's
    DecideRequest(approved=True, comment="as agreed"),
    DeliveryView(
        id=_OTHER,
        webhook_id=_OTHER,
        run_id=_RUN,
        event=WebhookEvent.RUN_FAILED,
        body={"type": "run.failed", "timestamp": _AT, "data": {"run_id": _RUN, "workflow": "checkout"}},
        at=_AT,
        state=DeliveryState.PENDING,
        attempts=1,
        next_at=_LATER,
        status=503,
        error="it was answered 503",
        settled_at=None,
    ),
    DriverView(
        host_id=_OTHER, hostname="shop-1", pid=4711, started_at=_AT, serves=["checkout@1", "report@2"], only=None
    ),
    EventView(seq=2, at=_AT, kind="step_completed", data={"step": "reserve_stock"}),
    FireView(at=_AT, local="2026-11-30T22:52:07+01:00"),
    ForkBody(step="charge_card", reason="the bank is back"),
    HoldBody(reason="the ledger moves"),
    IncidentView(
        id=_OTHER,
        run_id=_RUN,
        workflow="checkout",
        kind=IncidentKind.IN_DOUBT,
        call=Call.STEP,
        step="charge_card",
        visit=1,
        attempt=1,
        idempotency_key=f"{_RUN}:charge_card",
        reason="the host died during the attempt",
        actions=[Action.DONE, Action.NOT_DONE, Action.FAIL, Action.FAIL_UNDO],
        opened_at=_AT,
    ),
    PluginView(
        name="workflow-pg",
        distribution="bext-workflow-pg",
        version="0.1.0",
        hooks=["run_step", "compensate_step"],
        workflows=["checkout@1"],
    ),
    Problem(
        type="urn:bext:problem:json-invalid",
        title="Json invalid",
        status=422,
        detail="$.context.quantity: nan is not a JSON number",
        mend="send a number",
        errors=[Fault(pointer="#/context/quantity", detail="nan is not a JSON number")],
    ),
    Readiness(ready=True),
    ResolveRequest(action=Action.DONE, note="the bank shows the charge"),
    RetryRequest(reason="the shelf is mended"),
    RunView(
        run_id=_RUN,
        workflow="checkout",
        version=1,
        status=WorkflowStatus.RUNNING,
        step="charge_card",
        steps=[
            StepView(
                step="reserve_stock",
                visit=1,
                status="completed",
                attempts=1,
                idempotency_key=f"{_RUN}:reserve_stock",
                ended_at=_AT,
            )
        ],
        context=_ORDER,
        key="order-o-1",
        tags={"shop": "north"},
        created_at=_AT,
        started_at=_AT,
        updated_at=_AT,
    ),
    ScheduleView(
        id="nightly",
        plugin="shop",
        workflow="report",
        version=None,
        cron="30 2 * * *",
        timezone="Europe/Madrid",
        overlap=Overlap.SKIP,
        catch_up=CatchUp.LATEST,
        context={},
        tags={},
        enabled=True,
        paused=False,
        next_at=_LATER,
        last_slot=_AT,
        last_result=SlotResult.STARTED,
        last_run_id=_RUN,
    ),
    SignalBody(payload={"budget": 12}, id="mail-77"),
    StartBody(workflow="checkout", context=_ORDER, tags={"shop": "north"}),
    StatsView(
        live=[LiveCount(workflow="checkout", version=1, runs=12)],
        incidents=[IncidentCount(kind=IncidentKind.IN_DOUBT, open=1)],
        hosts=2,
    ),
    TokenRequest(name="shop", scopes=["start:checkout", "view"], roles=["finance"]),
    _TOKEN,
    WebhookRequest(url="https://hooks.example/bext", events=[WebhookEvent.RUN_FAILED], workflows=["checkout"]),
    _WEBHOOK,
    WhyView(
        run_id=_RUN,
        status=WorkflowStatus.WAITING,
        text="It waits at ask for a decision since 21:52.",
        next=[Consequence(on="approvals approve", then="it goes on at pay")],
    ),
    WorkflowView(
        id="checkout",
        version=1,
        plugin="workflow-pg",
        digest="5f0c",
        description="an order, paid and sent",
        steps=[{"name": "reserve_stock"}, {"name": "charge_card"}],
    ),
)

EXAMPLES: Mapping[type[msgspec.Struct], Json] = {type(example): msgspec.to_builtins(example) for example in _EXAMPLES}
