"""What is kept of webhooks and their deliveries."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

from bext_workflow.errors import NotFound
from bext_workflow.model.json import dumps, loads
from bext_workflow.model.webhook import DeliveryState, WebhookEvent
from bext_workflow.ports.audit import AuditEntry
from bext_workflow.ports.webhooks import AmendDelivery, AmendWebhooks, DeliveryFilter, DeliveryRow, WebhookRow
from bext_workflow_pg.store import columns, queries
from bext_workflow_pg.store.acts import audit
from bext_workflow_pg.store.connections import Connection

_SQL = queries.load("webhooks.sql")
_LAST_TEXT = "\U0010ffff"
_WIDTH = 12


async def webhooks(connection: Connection) -> list[WebhookRow]:
    return [_webhook_of(row) for row in await connection.fetch(_SQL["webhooks"])]


async def amend_webhooks(connection: Connection, change: AmendWebhooks, at: int, entry: AuditEntry) -> WebhookRow:
    await connection.execute(_SQL["lock_webhooks"])
    row = change(await webhooks(connection))
    await connection.execute(_SQL["save_webhook"], *_webhook_values(row))
    await audit(connection, entry, at=at)
    return row


async def keep(connection: Connection, deliveries: Sequence[DeliveryRow]) -> None:
    """For a caller that is in a transaction."""
    await connection.execute(_SQL["keep_deliveries"], *columns.turned(map(_delivery_values, deliveries), width=_WIDTH))


async def deliveries(
    connection: Connection, wanted: DeliveryFilter, limit: int, before: str | None
) -> list[DeliveryRow]:
    given = (before or _LAST_TEXT, limit, wanted.webhook_id, wanted.run_id, wanted.state and wanted.state.value)
    return [_delivery_of(row) for row in await connection.fetch(_SQL["deliveries"], *given)]


async def take(connection: Connection, now: int, until: int, limit: int) -> list[DeliveryRow]:
    taken = [_delivery_of(row) for row in await connection.fetch(_SQL["take_deliveries"], now, until, limit)]
    return sorted(taken, key=lambda row: row.id)


async def amend_delivery(
    connection: Connection, delivery_id: str, change: AmendDelivery, at: int, entry: AuditEntry | None
) -> DeliveryRow:
    found = await connection.fetchrow(_SQL["delivery"], delivery_id)
    if found is None:
        raise NotFound(f"there is no delivery {delivery_id}")
    row = change(_delivery_of(found))
    await keep(connection, [row])
    if entry is not None:
        await audit(connection, entry, at=at)
    return row


async def prune(connection: Connection, before: int, limit: int) -> int:
    removed: int = await connection.fetchval(_SQL["prune_deliveries"], before, limit)
    return removed


def _webhook_of(row: asyncpg.Record) -> WebhookRow:
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


def _delivery_of(row: asyncpg.Record) -> DeliveryRow:
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
    """In the order of `keep_deliveries`."""
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
