"""Webhooks: what they tell of, and when a delivery that failed is tried again."""

from __future__ import annotations

from enum import StrEnum

from bext_workflow.model.status import WorkflowStatus


class WebhookEvent(StrEnum):
    """What a webhook may ask to be told."""

    RUN_COMPLETED = "run.completed"
    RUN_COMPENSATED = "run.compensated"
    RUN_FAILED = "run.failed"
    RUN_CANCELLED = "run.cancelled"
    RUN_SUSPENDED = "run.suspended"
    INCIDENT_OPENED = "incident.opened"
    APPROVAL_REQUESTED = "approval.requested"


OF_STATUS = {
    WorkflowStatus.COMPLETED: WebhookEvent.RUN_COMPLETED,
    WorkflowStatus.COMPENSATED: WebhookEvent.RUN_COMPENSATED,
    WorkflowStatus.FAILED: WebhookEvent.RUN_FAILED,
    WorkflowStatus.CANCELLED: WebhookEvent.RUN_CANCELLED,
    WorkflowStatus.SUSPENDED: WebhookEvent.RUN_SUSPENDED,
}
"""What is told of a run that comes into a status."""


class DeliveryState(StrEnum):
    """PENDING is tried, again and again; DELIVERED was taken; FAILED was never taken, and is not tried any more."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


_SECOND, _MINUTE, _HOUR = 1_000, 60_000, 3_600_000

RETRY_WAITS_MS = (
    *(5 * _SECOND, 5 * _MINUTE, 30 * _MINUTE),
    *(2 * _HOUR, 5 * _HOUR, 10 * _HOUR, 14 * _HOUR, 20 * _HOUR, 24 * _HOUR),
)
"""The waits after each attempt that failed: ten attempts over three days (Standard Webhooks)."""


def retry_at(attempts: int, now: int) -> int | None:
    """When a delivery is tried again after so many attempts; None: no more."""
    return now + RETRY_WAITS_MS[attempts - 1] if attempts <= len(RETRY_WAITS_MS) else None
