"""Webhooks: made, listed and removed; and what has become of what they were told."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Sequence
from urllib.parse import urlsplit

from msgspec.structs import replace

from bext_workflow.errors import Conflict, NotFound, UsageError
from bext_workflow.model.json import JsonObject, dumps, loads
from bext_workflow.model.names import NAME_RULE, is_name
from bext_workflow.model.view import DeliveryView, Page, WebhookView, instant, instant_or_none
from bext_workflow.model.webhook import DeliveryState
from bext_workflow.ports.audit import AuditEntry
from bext_workflow.ports.clock import Chance, Clock
from bext_workflow.ports.store import Store
from bext_workflow.ports.webhooks import DeliveryFilter, DeliveryRow, WebhookRow
from bext_workflow.service.administration import CreatedWebhook, DeliveryQuery, WebhookRequest
from bext_workflow.service.caller import Who
from bext_workflow.service.paging import checked_cursor, checked_limit, page_of

MAX_WEBHOOKS = 50
_MAX_URL = 2_000
_SECRET_BYTES = 32


class WebhookService:
    """`service.administration.Webhooks` over a store."""

    def __init__(self, *, store: Store, clock: Clock, chance: Chance, who: Who) -> None:
        self._store = store
        self._clock = clock
        self._chance = chance
        self._who = who

    async def webhooks(self) -> Sequence[WebhookView]:
        return [_view(row) for row in reversed(await self._store.webhooks())]

    async def create_webhook(self, request: WebhookRequest) -> CreatedWebhook:
        _check(request)
        by, now = self._who().by, self._clock.now()
        secret = "whsec_" + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()
        made = WebhookRow(
            id=self._chance.new_id(),
            url=request.url,
            events=tuple(dict.fromkeys(request.events)),
            workflows=tuple(dict.fromkeys(request.workflows)),
            secret=secret,
            created_at=now,
            created_by=by,
        )

        def amend(known: Sequence[WebhookRow]) -> WebhookRow:
            if sum(row.removed_at is None for row in known) >= MAX_WEBHOOKS:
                raise Conflict(f"there are {MAX_WEBHOOKS} webhooks already", mend="remove one first")
            return made

        after: JsonObject = {"url": made.url, "events": list(made.events), "workflows": list(made.workflows)}
        entry = _entry("webhook.create", made, by, request.reason, {"before": None, "after": after})
        row = await self._store.amend_webhooks(amend, at=now, audit=entry)
        return CreatedWebhook(secret=secret, made=_view(row))

    async def remove_webhook(self, webhook_id: str, reason: str) -> WebhookView:
        by, now = self._who().by, self._clock.now()
        found = await self._find(webhook_id)

        def amend(known: Sequence[WebhookRow]) -> WebhookRow:
            row = next(row for row in known if row.id == found.id)
            if row.removed_at is not None:
                raise Conflict(f"the webhook {row.id} has been removed already")
            return replace(row, removed_at=now)

        entry = _entry("webhook.remove", found, by, reason, {"before": {"removed": False}, "after": {"removed": True}})
        return _view(await self._store.amend_webhooks(amend, at=now, audit=entry))

    async def deliveries(self, query: DeliveryQuery) -> Page[DeliveryView]:
        limit = checked_limit(query.limit)
        webhook_id = None if query.webhook_id is None else (await self._find(query.webhook_id)).id
        wanted = DeliveryFilter(webhook_id=webhook_id, run_id=query.run_id, state=query.state)
        rows = await self._store.deliveries(wanted, limit=limit + 1, before=checked_cursor(query.cursor))
        return page_of([_delivery_view(row) for row in rows], limit, lambda delivery: delivery.id)

    async def redeliver(self, delivery_id: str, reason: str) -> DeliveryView:
        by, now = self._who().by, self._clock.now()

        def amend(row: DeliveryRow) -> DeliveryRow:
            return replace(row, state=DeliveryState.PENDING, attempts=0, next_at=now, settled_at=None)

        about = f"delivery:{delivery_id}"
        entry = AuditEntry(name="webhook.redeliver", by=by, reason=reason, about=about)
        return _delivery_view(await self._store.amend_delivery(delivery_id, amend, at=now, audit=entry))

    async def _find(self, prefix: str) -> WebhookRow:
        found = [row for row in await self._store.webhooks() if prefix and row.id.startswith(prefix)]
        if not found:
            raise NotFound(f"no webhook {prefix!r}", mend="`webhooks list` shows them")
        if len(found) > 1:
            raise Conflict(f"more than one webhook begins with {prefix!r}", mend="give more of the id")
        return found[0]


def _check(request: WebhookRequest) -> None:
    _check_url(request.url)
    for workflow in request.workflows:
        if not is_name(workflow):
            raise UsageError(f"{workflow!r} cannot name a workflow", mend=f"use {NAME_RULE}")


def _check_url(url: str) -> None:
    """Where it leads is judged when something is sent there: a name may come to mean another address."""
    mend = "write https://HOST/PATH"
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, whole = urlsplit(""), False
    if not whole or not url.isascii() or not url.isprintable() or " " in url or len(url) > _MAX_URL:
        raise UsageError(f"{url[:200]!r} is no URL that can be told something", mend=mend)
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise UsageError("the URL holds a user, a password or a fragment", mend=f"{mend}; what is sent is signed")


def _entry(name: str, webhook: WebhookRow, by: str, reason: str, data: JsonObject) -> AuditEntry:
    return AuditEntry(name=name, by=by, reason=reason, about=f"webhook:{webhook.id}", data=dumps(data))


def _view(row: WebhookRow) -> WebhookView:
    return WebhookView(
        id=row.id,
        url=row.url,
        events=list(row.events),
        workflows=list(row.workflows),
        created_at=instant(row.created_at),
        created_by=row.created_by,
        removed_at=instant_or_none(row.removed_at),
    )


def _delivery_view(row: DeliveryRow) -> DeliveryView:
    return DeliveryView(
        id=row.id,
        webhook_id=row.webhook_id,
        run_id=row.run_id,
        event=row.event,
        body=loads(row.body),
        at=instant(row.at),
        state=row.state,
        attempts=row.attempts,
        next_at=instant_or_none(row.next_at),
        status=row.status,
        error=row.error,
        settled_at=instant_or_none(row.settled_at),
    )
