"""The service over HTTP: the same protocols, the same views, the same errors as straight on the store.

Whatever calls a host goes this way: commands with `--url`, and programs by `Client`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import TypeVar
from urllib.parse import quote

import anyio
import httpx
import msgspec
from uuid_utils import uuid7

from bext_workflow.client.wire import POLL_MS, RETRY_WAITS_S, Wire, header_value
from bext_workflow.errors import NotFound, Unavailable, UsageError
from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.names import NAME_RULE, is_name
from bext_workflow.model.status import TERMINAL, WorkflowStatus
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
from bext_workflow.service.administration import (
    AuditQuery,
    BulkAnswer,
    BulkRequest,
    CreatedToken,
    CreatedWebhook,
    DeliveryQuery,
    TokenRequest,
    WebhookRequest,
)
from bext_workflow.service.protocols import (
    DEFAULT_FIRES,
    DEFAULT_LIMIT,
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

_ABOUT_THE_STREAM = frozenset({"resync", "bye"})
"""Events that are not of the journal."""

SETTLED = TERMINAL | {WorkflowStatus.SUSPENDED, WorkflowStatus.WAITING}
"""The statuses that end a wait for a result."""


class HttpClient:
    """The protocols of `service`, but for the host's own, at the host of `url`; an async context manager.

    Besides the errors of the protocols, every call raises `Unavailable` when no host answers there. `transport`
    replaces the network. Raises `UsageError` for a URL or a token that cannot be one.
    """

    def __init__(
        self, url: str, token: str | None = None, *, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self.url = url
        self._wire = Wire(url, token, transport)

    async def __aenter__(self) -> HttpClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._wire.close()

    async def start(self, request: StartRequest) -> Started:
        """With a key always, so that it can be sent again when a connection fails."""
        body = msgspec.structs.asdict(request)
        del body["key"]
        return await self._start("/runs", body, request.key)

    async def get(self, run_id: str) -> RunView:
        return await self._get(_run(run_id), RunView)

    async def list(self, query: RunQuery) -> Page[RunView]:
        parameters = msgspec.structs.asdict(query)
        parameters["tag"] = [f"{key}={value}" for key, value in parameters.pop("tags").items()]
        return await self._get("/runs", Page[RunView], **parameters)

    async def events(self, run_id: str, *, after: int = 0, limit: int = DEFAULT_LIMIT) -> Page[EventView]:
        return await self._get(f"{_run(run_id)}/events", Page[EventView], after=after, limit=limit)

    async def follow(self, run_id: str, *, after: int = 0) -> AsyncIterator[EventView]:
        """The journal from behind that event on, as it grows, until the run has ended; over hosts that come and go.

        Raises what `get` raises; `Unavailable` once nothing has come by several connections in a row.
        """
        waits = iter(RETRY_WAITS_S)
        while True:
            try:
                async for name, data in self._wire.stream(f"{_run(run_id)}/events/stream", last_event_id=str(after)):
                    if name == "end":
                        return
                    if name not in _ABOUT_THE_STREAM:
                        event = self._wire.read(data, EventView)
                        after, waits = event.seq, iter(RETRY_WAITS_S)
                        yield event
                lost: Unavailable | None = None
            except Unavailable as error:
                lost = error
            wait = next(waits, None)
            if wait is None:
                raise lost or Unavailable(f"the host at {self.url} ends the stream again and again")
            await anyio.sleep(wait)

    async def result(self, run_id: str, *, wait_ms: int = 0) -> RunView:
        """Asks again and again, each time for at most `POLL_MS`."""
        end = anyio.current_time() + wait_ms / 1000
        while True:
            left_ms = max(0, round((end - anyio.current_time()) * 1000))
            run = await self._get(f"{_run(run_id)}/result", RunView, wait=f"{min(left_ms, POLL_MS)}ms")
            if run.status in SETTLED or anyio.current_time() >= end:
                return run

    async def why(self, run_id: str) -> WhyView:
        return await self._get(f"{_run(run_id)}/why", WhyView)

    async def cancel(self, run_id: str, request: CancelRequest) -> Acknowledged:
        return await self._post(f"{_run(run_id)}/cancel", request, Acknowledged)

    async def plan_cancel(self, run_id: str, request: CancelRequest) -> CancelPlan:
        return await self._post(f"{_run(run_id)}/cancel", request, CancelPlan, dry_run=True)

    async def retry(self, run_id: str, request: RetryRequest) -> Acknowledged:
        return await self._post(f"{_run(run_id)}/retry", request, Acknowledged)

    async def fork(self, run_id: str, request: ForkRequest) -> Started:
        """With a key always, as `start`."""
        body: JsonObject = {"at": request.at, "step": request.step, "reason": request.reason}
        return await self._start(f"{_run(run_id)}/fork", body, request.key)

    async def signal(self, run_id: str, request: SignalRequest) -> Acknowledged:
        """With an id always, so that it can be sent again when a connection fails."""
        path = f"{_run(run_id)}/signals/{_signal(request.name)}"
        body: JsonObject = {"payload": request.payload, "id": str(uuid7()) if request.id is None else request.id}
        return self._wire.decode(await self._wire.send("POST", path, body=body, repeatable=True), Acknowledged)

    async def pause(self, run_id: str, reason: str) -> Acknowledged:
        return await self._hold(run_id, "pause", reason)

    async def resume(self, run_id: str, reason: str) -> Acknowledged:
        return await self._hold(run_id, "resume", reason)

    async def incidents(
        self,
        *,
        run_id: str | None = None,
        open_only: bool = True,
        limit: int = DEFAULT_LIMIT,
        cursor: str | None = None,
    ) -> Page[IncidentView]:
        return await self._get(
            "/incidents", Page[IncidentView], run_id=run_id, open_only=open_only, limit=limit, cursor=cursor
        )

    async def incident(self, incident_id: str) -> IncidentView:
        return await self._get(_incident(incident_id), IncidentView)

    async def resolve(self, incident_id: str, request: ResolveRequest) -> Acknowledged:
        return await self._post(f"{_incident(incident_id)}/resolve", request, Acknowledged)

    async def approvals(
        self,
        *,
        run_id: str | None = None,
        open_only: bool = True,
        limit: int = DEFAULT_LIMIT,
        cursor: str | None = None,
    ) -> Page[ApprovalView]:
        return await self._get(
            "/approvals", Page[ApprovalView], run_id=run_id, open_only=open_only, limit=limit, cursor=cursor
        )

    async def decide(self, approval_id: str, request: DecideRequest) -> Acknowledged:
        return await self._post(f"/approvals/{_segment(approval_id, 'approval')}/decide", request, Acknowledged)

    async def complete(self, token: str, request: CompleteRequest) -> Acknowledged:
        return await self._post(f"/waits/{_segment(token, 'wait')}/complete", request, Acknowledged)

    async def tokens(self) -> Sequence[TokenView]:
        return (await self._get("/tokens", Page[TokenView])).items

    async def create_token(self, request: TokenRequest) -> CreatedToken:
        return await self._post("/tokens", request, CreatedToken)

    async def revoke_token(self, token: str, reason: str) -> TokenView:
        response = await self._wire.send("POST", f"/tokens/{_segment(token, 'token')}/revoke", body={"reason": reason})
        return self._wire.decode(response, TokenView)

    async def audit(self, query: AuditQuery) -> Page[AuditView]:
        return await self._get("/audit", Page[AuditView], **msgspec.structs.asdict(query))

    async def webhooks(self) -> Sequence[WebhookView]:
        return (await self._get("/webhooks", Page[WebhookView])).items

    async def create_webhook(self, request: WebhookRequest) -> CreatedWebhook:
        return await self._post("/webhooks", request, CreatedWebhook)

    async def remove_webhook(self, webhook_id: str, reason: str) -> WebhookView:
        path = f"/webhooks/{_segment(webhook_id, 'webhook')}/remove"
        return self._wire.decode(await self._wire.send("POST", path, body={"reason": reason}), WebhookView)

    async def deliveries(self, query: DeliveryQuery) -> Page[DeliveryView]:
        return await self._get("/deliveries", Page[DeliveryView], **msgspec.structs.asdict(query))

    async def redeliver(self, delivery_id: str, reason: str) -> DeliveryView:
        path = f"/deliveries/{_segment(delivery_id, 'delivery')}/redeliver"
        return self._wire.decode(await self._wire.send("POST", path, body={"reason": reason}), DeliveryView)

    async def bulk(self, request: BulkRequest, *, dry_run: bool = False) -> BulkAnswer:
        body = msgspec.to_builtins(request)
        response = await self._wire.send("POST", "/runs/bulk", parameters={"dry_run": dry_run}, body=body)
        return self._wire.decode(response, BulkAnswer)

    async def hosts(self) -> Sequence[DriverView]:
        return (await self._get("/hosts", Page[DriverView])).items

    async def stats(self) -> StatsView:
        return await self._get("/stats", StatsView)

    async def workflows(self) -> Sequence[WorkflowView]:
        return (await self._get("/workflows", Page[WorkflowView])).items

    async def plugins(self) -> Sequence[PluginView]:
        return (await self._get("/plugins", Page[PluginView])).items

    async def schedules(self) -> Sequence[ScheduleView]:
        return (await self._get("/schedules", Page[ScheduleView])).items

    async def schedule(self, schedule_id: str) -> ScheduleView:
        return await self._get(_schedule(schedule_id), ScheduleView)

    async def fires(self, schedule_id: str, *, limit: int = DEFAULT_FIRES) -> Sequence[FireView]:
        return (await self._get(f"{_schedule(schedule_id)}/next", Page[FireView], limit=limit)).items

    async def pause_schedule(self, schedule_id: str, reason: str) -> ScheduleView:
        response = await self._wire.send("POST", f"{_schedule(schedule_id)}/pause", body={"reason": reason})
        return self._wire.decode(response, ScheduleView)

    async def resume_schedule(self, schedule_id: str, reason: str) -> ScheduleView:
        response = await self._wire.send("POST", f"{_schedule(schedule_id)}/resume", body={"reason": reason})
        return self._wire.decode(response, ScheduleView)

    async def trigger_schedule(self, schedule_id: str, request: TriggerRequest) -> Started:
        """With a key always, as `start`."""
        return await self._start(f"{_schedule(schedule_id)}/trigger", {"reason": request.reason}, request.key)

    async def _start(self, path: str, body: JsonObject, key: str | None) -> Started:
        headers = {b"Idempotency-Key": header_value(str(uuid7()) if key is None else key, "start key")}
        response = await self._wire.send("POST", path, body=body, headers=headers, repeatable=True)
        return Started(
            run=self._wire.decode(response, RunView),
            created=response.status_code == 201,
            driven=response.headers.get("Bext-Driven") == "true",
        )

    async def _get(self, path: str, kind: type[T], **parameters: Json) -> T:
        return self._wire.decode(await self._wire.send("GET", path, parameters=parameters, repeatable=True), kind)

    async def _hold(self, run_id: str, act: str, reason: str) -> Acknowledged:
        response = await self._wire.send("POST", f"{_run(run_id)}/{act}", body={"reason": reason})
        return self._wire.decode(response, Acknowledged)

    async def _post(self, path: str, request: msgspec.Struct, kind: type[T], **parameters: Json) -> T:
        body = msgspec.structs.asdict(request)
        return self._wire.decode(await self._wire.send("POST", path, parameters=parameters, body=body), kind)


def _run(run_id: str) -> str:
    return f"/runs/{_segment(run_id, 'run')}"


def _incident(incident_id: str) -> str:
    return f"/incidents/{_segment(incident_id, 'incident')}"


def _schedule(schedule_id: str) -> str:
    return f"/schedules/{_segment(schedule_id, 'schedule')}"


def _signal(name: str) -> str:
    """The name of a signal as one segment of a path. Raises what the service raises for what is none."""
    if not is_name(name):
        raise UsageError(f"{name!r} cannot name a signal", mend=f"use {NAME_RULE}")
    return _segment(name, "signal")


def _segment(identity: str, what: str) -> str:
    """An id as one segment of a path: what would lead to another resource is the id of nothing."""
    if identity in {"", ".", ".."} or "/" in identity:
        raise NotFound(f"there is no {what} {identity!r}")
    return quote(identity, safe="")
