"""`Client`: a host as a program calls it, with plain arguments, whole lists and waits without a bound."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import TypeVar

import httpx

from bext_workflow.client.remote import SETTLED, HttpClient
from bext_workflow.client.wire import POLL_MS
from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.status import Action, IncidentKind, WorkflowStatus
from bext_workflow.model.view import (
    ApprovalView,
    AuditView,
    DeliveryView,
    DriverView,
    EventView,
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
from bext_workflow.service.administration import (
    DEFAULT_EXPIRY_MS,
    AuditQuery,
    BulkAct,
    BulkAnswer,
    BulkQuery,
    BulkRequest,
    CreatedToken,
    CreatedWebhook,
    DeliveryQuery,
    TokenRequest,
    WebhookRequest,
)
from bext_workflow.service.protocols import (
    MAX_LIMIT,
    Acknowledged,
    CancelPlan,
    CancelRequest,
    CompleteRequest,
    DecideRequest,
    ForkRequest,
    ResolveRequest,
    RetryRequest,
    RunQuery,
    SignalRequest,
    Started,
    StartRequest,
    TriggerRequest,
)

T = TypeVar("T")


class Client:
    """The host at `url`, for whom the access token `token` names; an async context manager, for many calls at once.

    Calls that may happen twice are sent again when a connection fails or the host asks for patience: every read, and
    starts, forks, triggers and signals, which have a key of their own if they are given none. Ids may be shortened to a
    beginning that only one has.

    Raises `UsageError` for a URL or a token that cannot be one. Every call raises `Unavailable` when no host answers,
    `Unauthenticated` without a good token, `NotAllowed` without the scope, `TooManyRequests`, `NotFound`, and what else
    its docstring says; all of them are `BextError`. `transport` replaces the network.
    """

    def __init__(
        self, url: str, token: str | None = None, *, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._host = HttpClient(url, token, transport=transport)

    async def __aenter__(self) -> Client:
        await self._host.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._host.__aexit__(kind, error, traceback)

    # Runs

    async def start(
        self,
        workflow: str,
        context: JsonObject | None = None,
        *,
        version: int | None = None,
        tags: Mapping[str, str] | None = None,
        key: str | None = None,
    ) -> Started:
        """Starts a run; it is durable when this returns. `version` of None: the highest that is served.

        With a `key` of yours the start is safe to repeat, by another process too: it gives the run of the first one.
        Raises `InvalidJson` for a context that is refused, `StartKeyReused` for a key of another start, `Gone` for one
        of a run that has been removed.
        """
        request = StartRequest(
            workflow=workflow, version=version, context=context or {}, tags=dict(tags or {}), key=key
        )
        return await self._host.start(request)

    async def get(self, run_id: str) -> RunView:
        """The whole run, as of one moment."""
        return await self._host.get(run_id)

    async def result(self, run_id: str, *, wait_ms: int | None = None) -> RunView:
        """The run, once it has ended or is SUSPENDED or WAITING; as it is when `wait_ms` is over (None: no bound)."""
        if wait_ms is not None:
            return await self._host.result(run_id, wait_ms=wait_ms)
        while True:
            run = await self._host.result(run_id, wait_ms=POLL_MS)
            if run.status in SETTLED:
                return run

    async def runs(
        self,
        *,
        workflow: str | None = None,
        version: int | None = None,
        status: Sequence[WorkflowStatus] = (),
        tags: Mapping[str, str] | None = None,
        since: str | None = None,
        until: str | None = None,
        incident: IncidentKind | None = None,
    ) -> AsyncIterator[RunView]:
        """All runs of which everything that is given holds, newest first, without steps and context.

        `since` and `until` are RFC 3339 instants that bound `created_at`.
        """

        def page(cursor: str | None) -> Awaitable[Page[RunView]]:
            query = RunQuery(
                workflow=workflow,
                version=version,
                status=tuple(status),
                tags=dict(tags or {}),
                since=since,
                until=until,
                incident=incident,
                limit=MAX_LIMIT,
                cursor=cursor,
            )
            return self._host.list(query)

        async for run in _every(page):
            yield run

    async def events(self, run_id: str, *, after: int = 0) -> AsyncIterator[EventView]:
        """The journal of a run, as far as it goes now, from behind the event of that number on."""

        def page(cursor: str | None) -> Awaitable[Page[EventView]]:
            return self._host.events(run_id, after=int(cursor or after), limit=MAX_LIMIT)

        async for event in _every(page):
            yield event

    async def follow(self, run_id: str, *, after: int = 0) -> AsyncIterator[EventView]:
        """The journal of a run as it grows, until the run has ended; it goes on when a host has stopped and is back."""
        async for event in self._host.follow(run_id, after=after):
            yield event

    async def why(self, run_id: str) -> WhyView:
        """What the run waits for, since when, what holds it, and what may happen next."""
        return await self._host.why(run_id)

    # Acts on a run: each is durable when it returns, and raises `Conflict` where the run's state forbids it

    async def signal(self, run_id: str, name: str, payload: Json = None, *, id: str | None = None) -> Acknowledged:
        """Sends a signal, to the wait that wants it now or later. Of two with the same `id` the second is ignored."""
        return await self._host.signal(run_id, SignalRequest(name=name, payload=payload, id=id))

    async def cancel(
        self, run_id: str, reason: str = "", *, compensate: bool = True, now: bool = False
    ) -> Acknowledged:
        """Stops a run and undoes what it has done; `now` interrupts the running attempt: did it act? Unknown."""
        return await self._host.cancel(run_id, CancelRequest(reason=reason, compensate=compensate, now=now))

    async def plan_cancel(self, run_id: str, *, compensate: bool = True) -> CancelPlan:
        """What `cancel` would do now; changes nothing."""
        return await self._host.plan_cancel(run_id, CancelRequest(compensate=compensate))

    async def retry(
        self, run_id: str, reason: str = "", *, step: str | None = None, new_visit: bool = False
    ) -> Acknowledged:
        """Sets a FAILED run going again: the failed step, or `step` as a new visit."""
        return await self._host.retry(run_id, RetryRequest(reason=reason, step=step, new_visit=new_visit))

    async def fork(
        self, run_id: str, *, at: int | None = None, step: str | None = None, reason: str = "", key: str | None = None
    ) -> Started:
        """A new run that begins where an ended one stood: at the event `at`, or when it came to `step` last."""
        return await self._host.fork(run_id, ForkRequest(at=at, step=step, reason=reason, key=key))

    async def pause(self, run_id: str, reason: str = "") -> Acknowledged:
        """Nothing new starts; a running attempt goes on to its end."""
        return await self._host.pause(run_id, reason)

    async def resume(self, run_id: str, reason: str = "") -> Acknowledged:
        """Lets a paused run go on."""
        return await self._host.resume(run_id, reason)

    async def bulk(
        self,
        act: BulkAct,
        runs: Sequence[str] | None = None,
        *,
        query: BulkQuery | None = None,
        reason: str = "",
        dry_run: bool = False,
    ) -> BulkAnswer:
        """One act on many runs: on those listed, or on a page of a query. An item a run: done, or its problem."""
        request = BulkRequest(act=act, runs=None if runs is None else list(runs), query=query, reason=reason)
        return await self._host.bulk(request, dry_run=dry_run)

    # What waits for a person

    async def incidents(self, *, run_id: str | None = None, open_only: bool = True) -> AsyncIterator[IncidentView]:
        """All incidents that wait for an answer, or, not `open_only`, all there are; newest first."""

        def page(cursor: str | None) -> Awaitable[Page[IncidentView]]:
            return self._host.incidents(run_id=run_id, open_only=open_only, limit=MAX_LIMIT, cursor=cursor)

        async for incident in _every(page):
            yield incident

    async def incident(self, incident_id: str) -> IncidentView:
        """One incident, and the answers that it takes."""
        return await self._host.incident(incident_id)

    async def resolve(
        self,
        incident_id: str,
        action: Action,
        note: str,
        *,
        context_updates: JsonObject | None = None,
        next: str | None = None,
        undo_data: Json = None,
    ) -> Acknowledged:
        """Answers an incident; `note` says why. The last three belong to `Action.DONE`. Raises `Conflict`."""
        answer = ResolveRequest(
            action=action, note=note, context_updates=context_updates or {}, next=next, undo_data=undo_data
        )
        return await self._host.resolve(incident_id, answer)

    async def approvals(self, *, run_id: str | None = None, open_only: bool = True) -> AsyncIterator[ApprovalView]:
        """All approvals that wait for a decision, or, not `open_only`, all there are; of the newest runs first."""

        def page(cursor: str | None) -> Awaitable[Page[ApprovalView]]:
            return self._host.approvals(run_id=run_id, open_only=open_only, limit=MAX_LIMIT, cursor=cursor)

        async for approval in _every(page):
            yield approval

    async def approve(self, approval_id: str, *, comment: str = "", form: Json = None) -> Acknowledged:
        """Says yes, as whom the token names. Raises `NotAllowed`, `Gone` where it is over, `InvalidJson` (the form)."""
        return await self._host.decide(approval_id, DecideRequest(approved=True, comment=comment, form=form))

    async def reject(self, approval_id: str, *, comment: str = "", form: Json = None) -> Acknowledged:
        """Says no; raises what `approve` raises."""
        return await self._host.decide(approval_id, DecideRequest(approved=False, comment=comment, form=form))

    async def complete(
        self, wait_token: str, payload: Json = None, *, approved: bool | None = None, comment: str = ""
    ) -> Acknowledged:
        """Answers the wait whose token that is, once; it needs no access token. Raises `Gone` where it is over."""
        return await self._host.complete(
            wait_token, CompleteRequest(payload=payload, approved=approved, comment=comment)
        )

    # What is served

    async def workflows(self) -> Sequence[WorkflowView]:
        """Every workflow and version."""
        return await self._host.workflows()

    async def hosts(self) -> Sequence[DriverView]:
        """Every host that is alive, the oldest first."""
        return await self._host.hosts()

    async def stats(self) -> StatsView:
        """How many runs are live, and how many incidents open."""
        return await self._host.stats()

    async def plugins(self) -> Sequence[PluginView]:
        """Every plugin that the config names."""
        return await self._host.plugins()

    async def schedules(self) -> Sequence[ScheduleView]:
        """Every schedule of the config, and how it stands."""
        return await self._host.schedules()

    async def pause_schedule(self, schedule_id: str, reason: str = "") -> ScheduleView:
        """Nothing is started any more. Raises `Conflict` if it is paused already."""
        return await self._host.pause_schedule(schedule_id, reason)

    async def resume_schedule(self, schedule_id: str, reason: str = "") -> ScheduleView:
        """Lets a schedule go on. Raises `Conflict` if it is not paused."""
        return await self._host.resume_schedule(schedule_id, reason)

    async def trigger_schedule(self, schedule_id: str, *, reason: str = "", key: str | None = None) -> Started:
        """Starts a schedule's run now. Raises `Conflict` if its `overlap` forbids it."""
        return await self._host.trigger_schedule(schedule_id, TriggerRequest(reason=reason, key=key))

    # Who may ask, and who did what

    async def tokens(self) -> Sequence[TokenView]:
        """Every access token there ever was, the newest first."""
        return await self._host.tokens()

    async def create_token(
        self,
        name: str,
        scopes: Sequence[str],
        *,
        roles: Sequence[str] = (),
        expires_in_ms: int | None = DEFAULT_EXPIRY_MS,
        reason: str = "",
    ) -> CreatedToken:
        """A new access token; its text is given here only. `expires_in_ms` of None: it never expires."""
        request = TokenRequest(
            name=name, scopes=list(scopes), roles=list(roles), expires_in_ms=expires_in_ms, reason=reason
        )
        return await self._host.create_token(request)

    async def revoke_token(self, token: str, reason: str = "") -> TokenView:
        """Makes a token good for nothing, by its name or its id."""
        return await self._host.revoke_token(token, reason)

    async def webhooks(self) -> Sequence[WebhookView]:
        """Every webhook there ever was, the newest first."""
        return await self._host.webhooks()

    async def create_webhook(
        self,
        url: str,
        *,
        events: Sequence[WebhookEvent] = (),
        workflows: Sequence[str] = (),
        reason: str = "",
    ) -> CreatedWebhook:
        """Has a URL told of `events` (none: all) in runs of `workflows` (none: all). The secret is given here only."""
        request = WebhookRequest(url=url, events=list(events), workflows=list(workflows), reason=reason)
        return await self._host.create_webhook(request)

    async def remove_webhook(self, webhook_id: str, reason: str = "") -> WebhookView:
        """Tells a webhook nothing any more."""
        return await self._host.remove_webhook(webhook_id, reason)

    async def deliveries(
        self, *, webhook_id: str | None = None, run_id: str | None = None, state: DeliveryState | None = None
    ) -> AsyncIterator[DeliveryView]:
        """What webhooks were told, the newest first, and what has become of it."""

        def page(cursor: str | None) -> Awaitable[Page[DeliveryView]]:
            query = DeliveryQuery(webhook_id=webhook_id, run_id=run_id, state=state, limit=MAX_LIMIT, cursor=cursor)
            return self._host.deliveries(query)

        async for delivery in _every(page):
            yield delivery

    async def redeliver(self, delivery_id: str, reason: str = "") -> DeliveryView:
        """Sends a delivery again, from the first attempt on."""
        return await self._host.redeliver(delivery_id, reason)

    async def audit(
        self,
        *,
        run_id: str | None = None,
        about: str | None = None,
        by: str | None = None,
        act: str | None = None,
        since: str | None = None,
        until: str | None = None,
        oldest_first: bool = False,
    ) -> AsyncIterator[AuditView]:
        """All acts of persons and programs of which everything that is given holds, newest first."""

        def page(cursor: str | None) -> Awaitable[Page[AuditView]]:
            query = AuditQuery(
                run_id=run_id,
                about=about,
                by=by,
                act=act,
                since=since,
                until=until,
                oldest_first=oldest_first,
                limit=MAX_LIMIT,
                cursor=cursor,
            )
            return self._host.audit(query)

        async for done in _every(page):
            yield done


async def _every(page: Callable[[str | None], Awaitable[Page[T]]]) -> AsyncIterator[T]:
    """The items of all pages; the next one is asked for when it is needed."""
    cursor: str | None = None
    while True:
        found = await page(cursor)
        for item in found.items:
            yield item
        cursor = found.next_cursor
        if cursor is None:
            return
