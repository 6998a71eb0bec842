"""What is kept of webhooks and their deliveries."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from bext_workflow.errors import NotFound
from bext_workflow.model.json import dumps, loads
from bext_workflow.model.webhook import DeliveryState, WebhookEvent
from bext_workflow.ports.audit import AuditEntry
from bext_workflow.ports.webhooks import AmendDelivery, AmendWebhooks, DeliveryFilter, DeliveryRow, WebhookRow
from bext_workflow.stores.sqlite import queries
from bext_workflow.stores.sqlite.acts import audit
from bext_workflow.stores.sqlite.connection import writing

_SQL = queries.load("webhooks.sql")
_LAST_TEXT = "\U0010ffff"


def webhooks(connection: sqlite3.Connection) -> list[WebhookRow]:
    return [_webhook_of(row) for row in connection.execute(_SQL["webhooks"])]


def amend_webhooks(connection: sqlite3.Connection, change: AmendWebhooks, at: int, entry: AuditEntry) -> WebhookRow:
    with writing(connection):
        row = change(webhooks(connection))
        connection.execute(_SQL["save_webhook"], _webhook_values(row))
        audit(connection, entry, at=at)
    return row


def keep(connection: sqlite3.Connection, deliveries: Sequence[DeliveryRow]) -> None:
    """For a caller that is in a transaction."""
    connection.executemany(_SQL["save_delivery"], map(_delivery_values, deliveries))


def deliveries(
    connection: sqlite3.Connection, wanted: DeliveryFilter, limit: int, before: str | None
) -> list[DeliveryRow]:
    given = {
        "webhook_id": wanted.webhook_id,
        "run_id": wanted.run_id,
        "state": wanted.state and wanted.state.value,
        "before": before or _LAST_TEXT,
        "limit": limit,
    }
    return [_delivery_of(row) for row in connection.execute(_SQL["deliveries"], given)]


def take(connection: sqlite3.Connection, now: int, until: int, limit: int) -> list[DeliveryRow]:
    if not _due(connection, now, 1):
        return []  # no write lock for that
    with writing(connection):
        due = _due(connection, now, limit)
        connection.executemany(_SQL["take_delivery"], [(until, delivery_id) for delivery_id in due])
        return [_delivery(connection, delivery_id) for delivery_id in due]


def amend_delivery(
    connection: sqlite3.Connection, delivery_id: str, change: AmendDelivery, at: int, entry: AuditEntry | None
) -> DeliveryRow:
    with writing(connection):
        row = change(_delivery(connection, delivery_id))
        keep(connection, [row])
        if entry is not None:
            audit(connection, entry, at=at)
    return row


def prune(connection: sqlite3.Connection, before: int, limit: int) -> int:
    with writing(connection):
        return connection.execute(_SQL["prune_deliveries"], (before, limit)).rowcount


def _due(connection: sqlite3.Connection, now: int, limit: int) -> list[str]:
    return [delivery_id for (delivery_id,) in connection.execute(_SQL["due_deliveries"], (now, limit))]


def _delivery(connection: sqlite3.Connection, delivery_id: str) -> DeliveryRow:
    row = connection.execute(_SQL["delivery"], (delivery_id,)).fetchone()
    if row is None:
        raise NotFound(f"there is no delivery {delivery_id}")
    return _delivery_of(row)


def _webhook_of(row: sqlite3.Row) -> WebhookRow:
    return WebhookRow(
        id=row["id"],
        url=row["url"],
        events=tuple(WebhookEvent(event) for event in loads(row["events"])),
        workflows=tuple(loads(row["workflows"])),
        secret=row["secret"],
        created_at=row["created_at"],
        created_by=row["created_by"],
        removed_at=row["removed_at"],
    )


def _webhook_values(row: WebhookRow) -> tuple[object, ...]:
    """In the order of `save_webhook`."""
    events, workflows = dumps(list(row.events)).decode(), dumps(list(row.workflows)).decode()
    return row.id, row.url, events, workflows, row.secret, row.created_at, row.created_by, row.removed_at


def _delivery_of(row: sqlite3.Row) -> DeliveryRow:
    return DeliveryRow(
        id=row["id"],
        webhook_id=row["webhook_id"],
        run_id=row["run_id"],
        event=WebhookEvent(row["event"]),
        body=row["body"].encode(),
        at=row["at"],
        state=DeliveryState(row["state"]),
        attempts=row["attempts"],
        next_at=row["next_at"],
        status=row["status"],
        error=row["error"],
        settled_at=row["settled_at"],
    )


def _delivery_values(row: DeliveryRow) -> tuple[object, ...]:
    """In the order of `save_delivery`."""
    return (
        row.id,
        row.webhook_id,
        row.run_id,
        row.event.value,
        row.body.decode(),
        row.at,
        row.state.value,
        row.attempts,
        row.next_at,
        row.status,
        row.error,
        row.settled_at,
    )
