"""What faces are given to look after a host: who may ask, who did what, who is told, many runs at once.

As in `protocols`: the service implements it over a store, `client` over HTTP.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from bext_workflow.model.access import Caller
from bext_workflow.model.status import IncidentKind, WorkflowStatus
from bext_workflow.model.view import AuditView, DeliveryView, DriverView, Page, StatsView, TokenView, WebhookView
from bext_workflow.model.webhook import DeliveryState, WebhookEvent
from bext_workflow.service.protocols import DEFAULT_LIMIT

DEFAULT_EXPIRY_MS = 90 * 86_400_000


class TokenRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A new access token. `scopes`: what it may; `roles`: what the `by` of an approval may call its holder.

    `expires_in_ms` of null: it never expires.
    """

    name: str
    scopes: list[str]
    roles: list[str] = []
    expires_in_ms: int | None = DEFAULT_EXPIRY_MS
    reason: str = ""


class CreatedToken(msgspec.Struct, frozen=True, kw_only=True):
    """A new access token, and `token` itself: the text to send, which is kept nowhere and shown here only."""

    token: str
    made: TokenView


class Tokens(Protocol):
    """Access tokens. Acts are durable, with their audit row, when they return."""

    async def tokens(self) -> Sequence[TokenView]:
        """Every token there ever was, the newest first."""

    async def create_token(self, request: TokenRequest) -> CreatedToken:
        """Raises `Conflict` for a name that another one has which is not revoked, `UsageError` for a bad request."""

    async def revoke_token(self, token: str, reason: str) -> TokenView:
        """By name, or by id. It is good for nothing any more, within a second. Raises `NotFound`, `Conflict`."""


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the audit: all that is given must hold. `since`/`until` are RFC 3339 instants."""

    run_id: str | None = None
    about: str | None = None
    by: str | None = None
    act: str | None = None
    since: str | None = None
    until: str | None = None
    oldest_first: bool = False
    limit: int = DEFAULT_LIMIT
    cursor: str | None = None


class Audit(Protocol):
    """What persons and programs have done."""

    async def audit(self, query: AuditQuery) -> Page[AuditView]:
        """Raises `NotFound` for a run that is not there, `UsageError`."""


class WebhookRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A new webhook: a URL that is told of `events` (none: of all) in runs of `workflows` (none: of all)."""

    url: str
    events: list[WebhookEvent] = []
    workflows: list[str] = []
    reason: str = ""


class CreatedWebhook(msgspec.Struct, frozen=True, kw_only=True):
    """A new webhook, and the `secret` that signs what it is told, which is shown here only."""

    secret: str
    made: WebhookView


class DeliveryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A page of deliveries: all that is given must hold."""

    webhook_id: str | None = None
    run_id: str | None = None
    state: DeliveryState | None = None
    limit: int = DEFAULT_LIMIT
    cursor: str | None = None


class Webhooks(Protocol):
    """Webhooks and their deliveries. Acts are durable, with their audit row, when they return."""

    async def webhooks(self) -> Sequence[WebhookView]:
        """Every webhook there ever was, the newest first."""

    async def create_webhook(self, request: WebhookRequest) -> CreatedWebhook:
        """It is told of what happens from a second later on. Raises `UsageError`, `Conflict` for too many."""

    async def remove_webhook(self, webhook_id: str, reason: str) -> WebhookView:
        """Raises `NotFound`, `Conflict`."""

    async def deliveries(self, query: DeliveryQuery) -> Page[DeliveryView]:
        """Newest first; those that were settled a week ago are gone."""

    async def redeliver(self, delivery_id: str, reason: str) -> DeliveryView:
        """Sends it again, from the first attempt on. Raises `NotFound`."""


class BulkAct(StrEnum):
    """What may be done to many runs at once."""

    CANCEL = "cancel"
    RETRY = "retry"
    PAUSE = "pause"
    RESUME = "resume"


class BulkQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs, newest first: all that is given must hold. `cursor`: of the answer to the page before."""

    workflow: str | None = None
    version: int | None = None
    status: list[WorkflowStatus] = []
    tags: dict[str, str] = {}
    since: str | None = None
    until: str | None = None
    incident: IncidentKind | None = None
    limit: int = DEFAULT_LIMIT
    cursor: str | None = None


class BulkRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One act on many runs: on `runs`, by their ids, or on a page of a `query`."""

    act: BulkAct
    runs: list[str] | None = None
    query: BulkQuery | None = None
    reason: str = ""


class BulkItem(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one run: `done`, or the type and the words of the `problem`. `status`: as it was met."""

    run_id: str
    status: WorkflowStatus | None = None
    done: bool
    problem: str | None = None
    detail: str | None = None


class BulkAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An item a run. `dry_run`: nothing was done, and `done` says what would have been."""

    items: list[BulkItem]
    dry_run: bool
    next_cursor: str | None = None


class Bulk(Protocol):
    """Acts on many runs."""

    async def bulk(self, request: BulkRequest, *, dry_run: bool = False) -> BulkAnswer:
        """Each act is durable, with its audit row, when this returns, or has its problem in the answer.

        Raises `UsageError` for a request that names no runs, and `Unavailable`, after which some may have been done.
        """


class Hosts(Protocol):
    """Who drives, and how much there is to do."""

    async def hosts(self) -> Sequence[DriverView]:
        """Every host that is alive, the oldest first."""

    async def stats(self) -> StatsView:
        """Counted now; of many live runs that takes a while."""


class Access(Protocol):
    """Who it is that asks a host."""

    async def guarded(self) -> bool:
        """Whether a token is needed: whether there ever was one."""

    async def caller(self, bearer: str | None) -> Caller:
        """Who sends that token, or none.

        Raises `Unauthenticated`, `TooManyRequests`, and `StoreUnavailable` if it cannot be known.
        """
