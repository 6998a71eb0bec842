"""Webhooks and their deliveries, as a store keeps them: the outbox is written with the run, and emptied by hosts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import msgspec

from bext_workflow.model.webhook import DeliveryState, WebhookEvent
from bext_workflow.ports.audit import AuditEntry


class WebhookRow(msgspec.Struct, frozen=True, kw_only=True):
    """Who is told of what. Without `events` of all, without `workflows` of those of all. A row is never removed.

    `secret` signs what is sent: base64, with the prefix `whsec_`.
    """

    id: str
    url: str
    events: tuple[WebhookEvent, ...] = ()
    workflows: tuple[str, ...] = ()
    secret: str
    created_at: int
    created_by: str
    removed_at: int | None = None


class DeliveryRow(msgspec.Struct, frozen=True, kw_only=True):
    """Something that one webhook is told, `body` word for word. `next_at` (ms): when it is tried next; None: no more.

    `attempts` have been begun; `status` and `error` are of the last of them that has ended.
    """

    id: str
    webhook_id: str
    run_id: str
    event: WebhookEvent
    body: bytes
    at: int
    state: DeliveryState = DeliveryState.PENDING
    attempts: int = 0
    next_at: int | None
    status: int | None = None
    error: str | None = None
    settled_at: int | None = None


AmendWebhooks: TypeAlias = Callable[[Sequence[WebhookRow]], WebhookRow]
"""Pure and quick: of all webhooks as they are in the transaction, the row to keep; or raises."""

AmendDelivery: TypeAlias = Callable[[DeliveryRow], DeliveryRow]
"""Pure and quick: the row as it shall be, of the row as it is in the transaction; or raises."""


class DeliveryFilter(msgspec.Struct, frozen=True, kw_only=True):
    """All that is given must hold."""

    webhook_id: str | None = None
    run_id: str | None = None
    state: DeliveryState | None = None


class Outgoing(Protocol):
    """The part of a store that is for those outside."""

    async def webhooks(self) -> Sequence[WebhookRow]:
        """Every webhook there ever was, by id."""

    async def amend_webhooks(self, amend: AmendWebhooks, *, at: int, audit: AuditEntry) -> WebhookRow:
        """Keeps the row that `amend` makes, a new one or in place of that with its id, with the audit row.

        One transaction, and one amendment at a time. Raises whatever `amend` raises.
        """

    async def deliveries(
        self, wanted: DeliveryFilter, *, limit: int, before: str | None = None
    ) -> Sequence[DeliveryRow]:
        """Newest first (by id), older than the delivery `before`."""

    async def take_deliveries(self, *, now: int, until: int, limit: int) -> Sequence[DeliveryRow]:
        """Up to `limit` pending deliveries that are due, longest due first, each counted as one more attempt.

        Nobody gets one of them again before `until`, by when whoever took it has settled it, or is gone.
        """

    async def amend_delivery(
        self, delivery_id: str, amend: AmendDelivery, *, at: int, audit: AuditEntry | None = None
    ) -> DeliveryRow:
        """Replaces the row by what `amend` makes of it, with the audit row, in one transaction.

        Raises `NotFound`, and whatever `amend` raises.
        """

    async def prune_deliveries(self, *, before: int, limit: int) -> int:
        """Removes up to `limit` deliveries that were settled before then; how many there were."""
