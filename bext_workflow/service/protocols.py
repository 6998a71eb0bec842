"""What faces are given. The service implements it over a store, `client` over HTTP: a face cannot tell which.

All calls raise the errors of `bext_workflow.errors`; ids may be shortened to a prefix that only one has.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from bext_workflow.model.access import Caller
from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.status import Action, IncidentKind, WorkflowStatus
from bext_workflow.model.view import (
    ApprovalView,
    AuditView,
    DeliveryView,
    DriverView,
    EventView,
    FireView,
    IncidentView,
    Page,
    PluginView,
    RunView,
    ScheduleView,
    StatsView,
    TokenView,
    WebhookView,
    WhyView,
    WorkflowView,
)
from bext_workflow.model.webhook import DeliveryState, WebhookEvent
from bext_workflow.service.feed import Feed

DEFAULT_LIMIT = 50
MAX_LIMIT = 500
DEFAULT_FIRES = 5
DEFAULT_EXPIRY_MS = 90 * 86_400_000


class StartRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A start. `version` of None: the highest that is served. `key` makes the start safe to repeat (semantics §6)."""

    workflow: str
    version: int | None = None
    context: JsonObject = {}
    tags: dict[str, str] = {}
    key: str | None = None


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """The run of a start. `created`: by this start, not by an earlier one with its key. `driven`: a host is there."""

    run: RunView
    created: bool
    driven: bool


class RunQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A page of runs, newest first. `since`/`until` are RFC 3339 instants that bound `created_at`."""

    workflow: str | None = None
    version: int | None = None
    status: tuple[WorkflowStatus, ...] = ()
    tags: dict[str, str] = {}
    since: str | None = None
    until: str | None = None
    incident: IncidentKind | None = None
    limit: int = DEFAULT_LIMIT
    cursor: str | None = None


class CancelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`compensate=False` leaves in place what was done; `now` interrupts the running attempt: did it act? Unknown."""

    reason: str = ""
    compensate: bool = True
    now: bool = False


class RetryRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Sets a FAILED run going again: the failed step, or `step` as a new visit. `new_visit` gives it a new key."""

    reason: str = ""
    step: str | None = None
    new_visit: bool = False


class SignalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A named message; `payload` is at most 64 KiB of JSON. Of two with the same `id` the second is ignored."""

    name: str
    payload: Json = None
    id: str | None = None


class ResolveRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A person's answer to an incident; `note` is required. The last three belong to `done`."""

    action: Action
    note: str
    context_updates: JsonObject = {}
    next: str | None = None
    undo_data: Json = None


class ForkRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A new run that begins where an ended one stood: `at` the event of that number, or when it came to `step` last.

    `key` makes that safe to repeat, in a space of that run's own.
    """

    at: int | None = None
    step: str | None = None
    reason: str = ""
    key: str | None = None


class Acknowledged(msgspec.Struct, frozen=True, kw_only=True):
    """The act is durable. `driven`: a host is there that will carry it out."""

    run_id: str
    act: str
    driven: bool


class CancelPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a cancel would do now: the steps that it would undo, in order, and what would be left in place."""

    run_id: str
    status: WorkflowStatus
    undo: list[str]
    left_in_place: list[str]
    note: str


class Runs(Protocol):
    """Starting and reading runs."""

    async def start(self, request: StartRequest) -> Started:
        """Durable when it returns. Raises `NotFound` (workflow), `InvalidJson`, `StartKeyReused`, `Gone`.

        Also the `PluginError` or `ConfigError` of the plugin that should serve the workflow and cannot be used.
        """

    async def get(self, run_id: str) -> RunView:
        """The whole run, as of one moment."""

    async def list(self, query: RunQuery) -> Page[RunView]:
        """Runs without steps and context."""

    async def events(self, run_id: str, *, after: int = 0, limit: int = DEFAULT_LIMIT) -> Page[EventView]:
        """The journal after a seq; the cursor is the last seq of the page."""

    async def result(self, run_id: str, *, wait_ms: int = 0) -> RunView:
        """The run, once it has ended or is SUSPENDED or WAITING, or as it is when `wait_ms` is over."""

    async def why(self, run_id: str) -> WhyView:
        """What the run waits for, since when, what holds it, and what follows on each thing that may happen."""


class Operations(Protocol):
    """Acts of a person. Each is durable, with its audit row, when it returns; a host carries it out."""

    async def cancel(self, run_id: str, request: CancelRequest) -> Acknowledged:
        """Raises `Conflict` where semantics §5 refuses."""

    async def plan_cancel(self, run_id: str, request: CancelRequest) -> CancelPlan:
        """What `cancel` would do; raises what it would raise."""

    async def retry(self, run_id: str, request: RetryRequest) -> Acknowledged:
        """Raises `Conflict` where semantics §5 refuses."""

    async def fork(self, run_id: str, request: ForkRequest) -> Started:
        """Raises `Conflict` for a run that has not ended, or that no run can begin where it stood (semantics §13)."""

    async def signal(self, run_id: str, request: SignalRequest) -> Acknowledged:
        """Durable when acknowledged, in order per name (semantics §9). Raises `Conflict` for a run that takes none."""

    async def pause(self, run_id: str, reason: str) -> Acknowledged:
        """Nothing new starts; a running attempt goes on to its end."""

    async def resume(self, run_id: str, reason: str) -> Acknowledged:
        """Lets a paused run go on."""

    async def incidents(
        self,
        *,
        run_id: str | None = None,
        open_only: bool = True,
        limit: int = DEFAULT_LIMIT,
        cursor: str | None = None,
    ) -> Page[IncidentView]:
        """Newest first."""

    async def incident(self, incident_id: str) -> IncidentView:
        """One incident."""

    async def resolve(self, incident_id: str, request: ResolveRequest) -> Acknowledged:
        """Raises `Conflict` that lists the allowed actions."""


class TriggerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Starts a schedule's run out of turn. `key` makes that safe to repeat, in a space of the schedule's own."""

    reason: str = ""
    key: str | None = None


class DecideRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A person's decision. `form` is what the approval's schema asks for; `comment` is kept with it."""

    approved: bool
    comment: str = ""
    form: Json = None


class CompleteRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the holder of a wait token sends. `approved` is for approvals only, whose form is then the `payload`."""

    payload: Json = None
    approved: bool | None = None
    comment: str = ""


class Approvals(Protocol):
    """Decisions that are asked of persons, and waits that are answered by whoever holds their token (semantics §9)."""

    async def approvals(
        self,
        *,
        run_id: str | None = None,
        open_only: bool = True,
        limit: int = DEFAULT_LIMIT,
        cursor: str | None = None,
    ) -> Page[ApprovalView]:
        """Those of the newest runs first."""

    async def decide(self, approval_id: str, request: DecideRequest) -> Acknowledged:
        """Raises `NotAllowed` for who may not decide, `Gone` where it is over, `InvalidJson` for a form that is not it.

        Nobody may of whom nobody knows who it is: over HTTP, as long as there are no access tokens.
        """

    async def complete(self, token: str, request: CompleteRequest) -> Acknowledged:
        """Raises `NotFound` for a token that is none, `Gone` for one that has been used or whose wait is over."""


class Schedules(Protocol):
    """The schedules of the config. Acts are durable, with their audit row, when they return."""

    async def schedules(self) -> Sequence[ScheduleView]:
        """Every schedule, by id."""

    async def schedule(self, schedule_id: str) -> ScheduleView:
        """One schedule. Raises `NotFound`."""

    async def fires(self, schedule_id: str, *, limit: int = DEFAULT_FIRES) -> Sequence[FireView]:
        """The next planned instants, whether it is paused or not."""

    async def pause_schedule(self, schedule_id: str, reason: str) -> ScheduleView:
        """Nothing is started any more. Raises `Conflict` if it is paused already."""

    async def resume_schedule(self, schedule_id: str, reason: str) -> ScheduleView:
        """Goes on; what was missed meanwhile is made up for by `catch_up`. Raises `Conflict` if it is not paused."""

    async def trigger_schedule(self, schedule_id: str, request: TriggerRequest) -> Started:
        """Starts a run now, paused or not. Raises `Conflict` if `overlap` forbids it, and what `Runs.start` raises."""


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


class Workflows(Protocol):
    """What is served."""

    async def workflows(self) -> Sequence[WorkflowView]:
        """Every workflow and version."""

    async def plugins(self) -> Sequence[PluginView]:
        """Every plugin that the config names."""


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the host takes work, and why not."""

    ready: bool
    reasons: list[str] = []


class HostView(Protocol):
    """The host as its own HTTP face sees it."""

    @property
    def host_id(self) -> str:
        """Which host it is."""

    @property
    def feed(self) -> Feed:
        """What it journals."""

    def readiness(self) -> Readiness:
        """From memory; never waits for the store."""
