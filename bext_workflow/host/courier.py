"""Empties the outbox: takes deliveries that are due, signs and posts them, and keeps what became of each.

At least once, in no order: a host that dies after a delivery was taken leaves it pending, and it is sent again. Whoever
is told knows a repetition by its `webhook-id`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TypeAlias

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace
from standardwebhooks import Webhook

from bext_workflow.errors import StoreUnavailable
from bext_workflow.host.outbox import Outbox
from bext_workflow.host.posting import MOST_CONNECTIONS, PostFailed
from bext_workflow.host.trouble import Trouble
from bext_workflow.model.webhook import DeliveryState, retry_at
from bext_workflow.ports import telemetry as names
from bext_workflow.ports.clock import Clock
from bext_workflow.ports.store import Store
from bext_workflow.ports.telemetry import Telemetry
from bext_workflow.ports.webhooks import DeliveryRow, WebhookRow

Send: TypeAlias = Callable[[str, bytes, Mapping[str, str]], Awaitable[int]]
"""Posts a body with headers to a URL; the status of the answer. Raises `PostFailed`."""

LOOK_MS = 1_000
TAKEN_MS = 60_000
"""Whoever has taken a delivery has settled it by then, or is gone."""

KEPT_MS = 7 * 86_400_000
"""How long a delivery that is settled can be looked at, and sent again."""

_PRUNE_MS = 3_600_000
_PRUNED_AT_ONCE = 1_000
_GONE = 410


class Courier:
    """Looks for webhooks, and for what is due to them, once in `LOOK_MS`."""

    def __init__(
        self,
        *,
        store: Store,
        outbox: Outbox,
        clock: Clock,
        telemetry: Telemetry,
        trouble: Trouble,
        draining: asyncio.Event,
        send: Send,
    ) -> None:
        self._store = store
        self._outbox = outbox
        self._clock = clock
        self._telemetry = telemetry
        self._trouble = trouble
        self._draining = draining
        self._send = send
        self._busy = 0
        self._pruned_at = 0

    async def run(self) -> None:
        """Delivers until it is cancelled. While the host drains nothing is taken."""
        async with anyio.create_task_group() as tasks:
            while True:
                try:
                    await self._look(tasks)
                except StoreUnavailable as error:
                    self._trouble.met("webhooks", error)
                else:
                    self._trouble.over("webhooks")
                if self._outbox.webhooks:
                    await self._clock.sleep(LOOK_MS)
                else:
                    # Nothing is due at any time: this looks for webhooks, and is no reason for a clock to move on.
                    await anyio.sleep(LOOK_MS / 1000)

    async def _look(self, tasks: TaskGroup) -> None:
        await self._outbox.refresh()
        now = self._clock.now()
        if now - self._pruned_at >= _PRUNE_MS:
            await self._store.prune_deliveries(before=now - KEPT_MS, limit=_PRUNED_AT_ONCE)
            self._pruned_at = now
        room = MOST_CONNECTIONS - self._busy
        if not self._outbox.webhooks or self._draining.is_set() or room <= 0:
            return
        for delivery in await self._store.take_deliveries(now=now, until=now + TAKEN_MS, limit=room):
            self._busy += 1
            tasks.start_soon(self._deliver, delivery, name=f"delivery {delivery.id}")

    async def _deliver(self, delivery: DeliveryRow) -> None:
        try:
            await self._settle(await self._tried(delivery))
        except StoreUnavailable as error:
            self._trouble.met("webhooks", error)
        finally:
            self._busy -= 1

    async def _tried(self, delivery: DeliveryRow) -> DeliveryRow:
        """The delivery as the attempt leaves it."""
        webhook = next((row for row in self._outbox.webhooks if row.id == delivery.webhook_id), None)
        if webhook is None:
            return self._ended(delivery, DeliveryState.FAILED, error="the webhook has been removed")
        try:
            status = await self._send(webhook.url, delivery.body, _headers(webhook, delivery, self._clock.now()))
        except PostFailed as failed:
            return self._not_taken(delivery, error=str(failed))
        if 200 <= status < 300:
            return self._ended(delivery, DeliveryState.DELIVERED, status=status)
        if status == _GONE:
            return self._ended(delivery, DeliveryState.FAILED, status=status, error="whoever was told says it is gone")
        return self._not_taken(delivery, status=status, error=f"it was answered {status}")

    def _not_taken(self, delivery: DeliveryRow, *, status: int | None = None, error: str) -> DeliveryRow:
        next_at = retry_at(delivery.attempts, self._clock.now())
        if next_at is None:
            return self._ended(delivery, DeliveryState.FAILED, status=status, error=error)
        return replace(delivery, next_at=next_at, status=status, error=error)

    def _ended(
        self, delivery: DeliveryRow, state: DeliveryState, *, status: int | None = None, error: str | None = None
    ) -> DeliveryRow:
        at = self._clock.now()
        return replace(delivery, state=state, next_at=None, status=status, error=error, settled_at=at)

    async def _settle(self, tried: DeliveryRow) -> None:
        def amend(row: DeliveryRow) -> DeliveryRow:
            """Unless it has been taken again since, or sent anew by a person."""
            return tried if (row.attempts, row.state) == (tried.attempts, DeliveryState.PENDING) else row

        await self._store.amend_delivery(tried.id, amend, at=self._clock.now())
        self._telemetry.add(names.DELIVERIES, result="retried" if tried.state is DeliveryState.PENDING else tried.state)
        if tried.state is DeliveryState.FAILED:
            self._telemetry.log(
                names.DELIVERY_FAILED,
                delivery=tried.id,
                webhook=tried.webhook_id,
                run_id=tried.run_id,
                error=tried.error,
            )


def _headers(webhook: WebhookRow, delivery: DeliveryRow, now: int) -> dict[str, str]:
    """Of Standard Webhooks: the signature is over id, time and body."""
    at = datetime.fromtimestamp(now // 1000, UTC)
    return {
        "Content-Type": "application/json",
        "User-Agent": f"bext-workflow/{version('bext-workflow')}",
        "webhook-id": delivery.id,
        "webhook-timestamp": str(now // 1000),
        "webhook-signature": Webhook(webhook.secret).sign(delivery.id, at, delivery.body.decode()),
    }
