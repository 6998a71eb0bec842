"""The client of a host, for programs: `Client` (guide: docs/client.md), and what its calls take, give and raise.

::

    async with Client("http://127.0.0.1:7420", token=token) as client:
        started = await client.start("checkout", {"order_id": "o-1"}, key="o-1")
        run = await client.result(started.run.run_id)
"""

from __future__ import annotations

from bext_workflow.client.client import Client
from bext_workflow.client.remote import HttpClient
from bext_workflow.errors import (
    BextError,
    Conflict,
    Gone,
    InvalidJson,
    NotAllowed,
    NotFound,
    StartKeyReused,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    UsageError,
)
from bext_workflow.model.status import Action, IncidentKind, WorkflowStatus
from bext_workflow.model.view import (
    ApprovalView,
    AuditView,
    DeliveryView,
    EventView,
    IncidentView,
    RunView,
    ScheduleView,
    TokenView,
    WebhookView,
    WhyView,
    WorkflowView,
)
from bext_workflow.model.webhook import DeliveryState, WebhookEvent
from bext_workflow.service.administration import BulkAct, BulkAnswer, BulkQuery, CreatedToken, CreatedWebhook
from bext_workflow.service.protocols import Acknowledged, CancelPlan, Started

__all__ = [
    "Acknowledged",
    "Action",
    "ApprovalView",
    "AuditView",
    "BextError",
    "BulkAct",
    "BulkAnswer",
    "BulkQuery",
    "CancelPlan",
    "Client",
    "Conflict",
    "CreatedToken",
    "CreatedWebhook",
    "DeliveryState",
    "DeliveryView",
    "EventView",
    "Gone",
    "HttpClient",
    "IncidentKind",
    "IncidentView",
    "InvalidJson",
    "NotAllowed",
    "NotFound",
    "RunView",
    "ScheduleView",
    "StartKeyReused",
    "Started",
    "TokenView",
    "TooManyRequests",
    "Unauthenticated",
    "Unavailable",
    "UsageError",
    "WebhookEvent",
    "WebhookView",
    "WhyView",
    "WorkflowStatus",
    "WorkflowView",
]
