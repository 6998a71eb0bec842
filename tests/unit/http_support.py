"""A service in memory for the tests of the HTTP face and its client: the protocols over two dicts, and nothing more."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import anyio
import httpx
import msgspec

from bext_workflow.errors import BextError, Conflict, Gone, NotFound, StartKeyReused, Unauthenticated, UsageError
from bext_workflow.faces.http.app import HttpApp, Services, create_http_app
from bext_workflow.faces.http.server import Door, opened, serve_http
from bext_workflow.model.access import ANONYMOUS, Caller
from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.schedule import CatchUp, Overlap
from bext_workflow.model.status import Action, Call, IncidentKind, WorkflowStatus
from bext_workflow.model.view import (
    ApprovalView,
    AuditView,
    Consequence,
    DeliveryView,
    DriverView,
    EventView,
    FireView,
    IncidentView,
    Page,
    PluginView,
    Resolution,
    RunView,
    ScheduleView,
    SignalState,
    SignalView,
    StatsView,
    TokenState,
    TokenView,
    WaitView,
    WebhookView,
    WhyView,
    WorkflowView,
)
from bext_workflow.model.webhook import DeliveryState, WebhookEvent
from bext_workflow.service.administration import (
    AuditQuery,
    BulkAnswer,
    BulkItem,
    BulkRequest,
    CreatedToken,
    CreatedWebhook,
    DeliveryQuery,
    TokenRequest,
    WebhookRequest,
)
from bext_workflow.service.feed import Feed
from bext_workflow.service.protocols import (
    DEFAULT_FIRES,
    DEFAULT_LIMIT,
    Acknowledged,
    CancelPlan,
    CancelRequest,
    CompleteRequest,
    DecideRequest,
    ForkRequest,
    Readiness,
    ResolveRequest,
    RetryRequest,
    RunQuery,
    SignalRequest,
    Started,
    StartRequest,
    TriggerRequest,
)

URL = "http://127.0.0.1:7420"
API = "/api/v1"
NOW = "2026-11-30T21:52:07.123Z"


TOKEN = "d2FpdA.c2lnbmVk"

TOKEN_VIEW = TokenView(
    id="0193a4c0-0000-7000-8000-0000000000ff",
    name="ci",
    state=TokenState.ACTIVE,
    scopes=["start:checkout", "view"],
    roles=["finance"],
    created_at=NOW,
    created_by="ada",
    expires_at=NOW,
    revoked_at=None,
)

AUDIT_VIEW = AuditView(
    id=7, at=NOW, by="token:ci", act="run.cancel", run_id="r-1", about=None, reason="twice", data={"n": 2**60}
)

WEBHOOK_VIEW = WebhookView(
    id="0193a4c0-0000-7000-8000-0000000000ee",
    url="https://hooks.example/bext",
    events=[WebhookEvent.RUN_FAILED],
    workflows=["checkout"],
    created_at=NOW,
    created_by="ada",
    removed_at=None,
)

DELIVERY_VIEW = DeliveryView(
    id="0193a4c0-0000-7000-8000-0000000000dd",
    webhook_id=WEBHOOK_VIEW.id,
    run_id="r-1",
    event=WebhookEvent.RUN_FAILED,
    body={"n": 2**60},
    at=NOW,
    state=DeliveryState.FAILED,
    attempts=10,
    next_at=None,
    status=500,
    error="it was answered 500",
    settled_at=NOW,
)

DRIVER_VIEW = DriverView(
    host_id="host-a", hostname="shop-1", pid=4711, started_at=NOW, serves=["checkout@1"], only=None
)

APPROVAL = ApprovalView(
    id="0193a4c0-0000-7000-8000-000000000001:approve",
    run_id="r-1",
    workflow="checkout",
    step="approve",
    visit=1,
    title="May it cost that much?",
    by=["ada"],
    not_by="starter",
    form={"type": "object"},
    opened_at=NOW,
    due_at=None,
    closed_at=None,
    resolution=None,
)


def run_view(
    run_id: str, *, status: WorkflowStatus = WorkflowStatus.RUNNING, context: JsonObject | None = None
) -> RunView:
    return RunView(
        run_id=run_id,
        workflow="checkout",
        version=1,
        status=status,
        step="charge_card",
        steps=[],
        context=context or {},
        holds=[],
        waits=[WaitView(step="approve", visit=1, signal="approved", due_at=NOW, opened_at=NOW)],
        signals=[SignalView(name="early", id=None, at=NOW, state=SignalState.KEPT, payload={"n": 2**60, "f": 1.0})],
        created_at=NOW,
        updated_at=NOW,
    )


class MemoryService:
    """`Runs`, `Operations`, `Workflows`, `Schedules`, `Approvals` and `HostView`.

    `asked` holds every call with what it was given, in order. `fault` is raised by every call while it is set. A run
    changes by `settle`, which ends the waits for its result.
    """

    def __init__(self) -> None:
        self.callers: dict[str | None, Caller] = {}
        self.asked: list[tuple[str, object]] = []
        self.signals: list[SignalRequest] = []
        self.fault: Exception | None = None
        self.driven = True
        self.reasons: list[str] = []
        self.waiting = anyio.Event()
        self.host_id = "host-a"
        self.feed = Feed(kept=3)
        self.journal = 5
        self._runs: dict[str, RunView] = {}
        self._starts: dict[tuple[str, str], tuple[StartRequest, str]] = {}
        self._settled = anyio.Event()
        self._incidents = {"i-1": incident_view()}
        self._schedules = {"nightly": schedule_view()}

    def add(self, run: RunView) -> None:
        self._runs[run.run_id] = run

    def settle(self, run_id: str, status: WorkflowStatus) -> None:
        self._runs[run_id] = msgspec.structs.replace(self._runs[run_id], status=status)
        self._settled.set()

    async def start(self, request: StartRequest) -> Started:
        self._ask("start", request)
        if request.workflow != "checkout":
            raise NotFound(f"no workflow {request.workflow!r} is served", mend="see bext-host workflows list")
        name = (request.workflow, request.key or f"none-{len(self._runs)}")
        if name in self._starts:
            earlier, run_id = self._starts[name]
            if (earlier.context, earlier.tags) != (request.context, request.tags):
                raise StartKeyReused(f"the key {request.key!r} belongs to another start", mend="take another key")
            return Started(run=self._runs[run_id], created=False, driven=self.driven)
        run = run_view(f"r-{len(self._runs) + 1}", context=request.context)
        self.add(msgspec.structs.replace(run, key=request.key, tags=request.tags))
        self._starts[name] = (request, run.run_id)
        return Started(run=self._runs[run.run_id], created=True, driven=self.driven)

    async def get(self, run_id: str) -> RunView:
        self._ask("get", run_id)
        if run_id not in self._runs:
            raise NotFound(f"no run {run_id!r}")
        return self._runs[run_id]

    async def list(self, query: RunQuery) -> Page[RunView]:
        self._ask("list", query)
        if query.cursor == "garbled":
            raise UsageError("the cursor is not one of this list")
        return Page(items=[*self._runs.values()][: query.limit], next_cursor="more")

    async def events(self, run_id: str, *, after: int = 0, limit: int = DEFAULT_LIMIT) -> Page[EventView]:
        self._ask("events", (run_id, after, limit))
        every = [
            EventView(seq=seq, at=NOW, kind="step_completed", data={"seq": seq}) for seq in range(1, self.journal + 1)
        ]
        page = [event for event in every if event.seq > after][:limit]
        return Page(items=page, next_cursor=str(page[-1].seq) if page else None)

    async def result(self, run_id: str, *, wait_ms: int = 0) -> RunView:
        self._ask("result", (run_id, wait_ms))
        run = await self.get(run_id)
        if run.status.terminal or wait_ms == 0:
            return run
        self.waiting.set()
        with anyio.move_on_after(wait_ms / 1000):
            await self._settled.wait()
        return self._runs[run_id]

    async def why(self, run_id: str) -> WhyView:
        self._ask("why", run_id)
        run = await self.get(run_id)
        next_ = [Consequence(on="runs signal r-1 approved", then="it goes on at pay")]
        return WhyView(run_id=run.run_id, status=run.status, text="It waits.", next=next_)

    async def cancel(self, run_id: str, request: CancelRequest) -> Acknowledged:
        self._ask("cancel", (run_id, request))
        status = self._runs[run_id].status
        if status.terminal:
            raise Conflict(f"the run is {status} and cannot be cancelled")
        return Acknowledged(run_id=run_id, act="cancel", driven=self.driven)

    async def plan_cancel(self, run_id: str, request: CancelRequest) -> CancelPlan:
        self._ask("plan_cancel", (run_id, request))
        return CancelPlan(
            run_id=run_id, status=WorkflowStatus.RUNNING, undo=["reserve_stock"], left_in_place=[], note="undoes 1 step"
        )

    async def retry(self, run_id: str, request: RetryRequest) -> Acknowledged:
        self._ask("retry", (run_id, request))
        return Acknowledged(run_id=run_id, act="retry", driven=self.driven)

    async def fork(self, run_id: str, request: ForkRequest) -> Started:
        self._ask("fork", (run_id, request))
        return await self.start(StartRequest(workflow="checkout", key=request.key, tags={"from": run_id}))

    async def signal(self, run_id: str, request: SignalRequest) -> Acknowledged:
        self._ask("signal", (run_id, request))
        self.signals.append(request)
        return self._flowing(run_id, "signal")

    async def pause(self, run_id: str, reason: str) -> Acknowledged:
        self._ask("pause", (run_id, reason))
        return self._flowing(run_id, "pause")

    async def resume(self, run_id: str, reason: str) -> Acknowledged:
        self._ask("resume", (run_id, reason))
        return self._flowing(run_id, "resume")

    async def incidents(
        self,
        *,
        run_id: str | None = None,
        open_only: bool = True,
        limit: int = DEFAULT_LIMIT,
        cursor: str | None = None,
    ) -> Page[IncidentView]:
        self._ask("incidents", (run_id, open_only, limit, cursor))
        return Page(items=[*self._incidents.values()][:limit])

    async def incident(self, incident_id: str) -> IncidentView:
        self._ask("incident", incident_id)
        if incident_id not in self._incidents:
            raise NotFound(f"no incident {incident_id!r}")
        return self._incidents[incident_id]

    async def resolve(self, incident_id: str, request: ResolveRequest) -> Acknowledged:
        self._ask("resolve", (incident_id, request))
        incident = await self.incident(incident_id)
        if request.action not in incident.actions:
            raise Conflict(f"{request.action} is no answer to it", mend=f"one of {', '.join(incident.actions)}")
        return Acknowledged(run_id=incident.run_id, act="resolve", driven=self.driven)

    async def approvals(
        self,
        *,
        run_id: str | None = None,
        open_only: bool = True,
        limit: int = DEFAULT_LIMIT,
        cursor: str | None = None,
    ) -> Page[ApprovalView]:
        self._ask("approvals", (run_id, open_only, limit, cursor))
        return Page(items=[APPROVAL], next_cursor=APPROVAL.id)

    async def decide(self, approval_id: str, request: DecideRequest) -> Acknowledged:
        self._ask("decide", (approval_id, request))
        return Acknowledged(run_id="r-1", act="answer", driven=True)

    async def complete(self, token: str, request: CompleteRequest) -> Acknowledged:
        self._ask("complete", (token, request))
        if token != TOKEN:
            raise Gone("the wait is over")
        return Acknowledged(run_id="r-1", act="answer", driven=True)

    async def workflows(self) -> Sequence[WorkflowView]:
        self._ask("workflows", None)
        return [
            WorkflowView(
                id="checkout", version=version, plugin="shop", digest="d", description="", steps=[{"name": "a"}]
            )
            for version in (1, 10, 2)
        ]

    async def plugins(self) -> Sequence[PluginView]:
        self._ask("plugins", None)
        return [PluginView(name="shop", distribution="shop", version="1", hooks=["run_step"], workflows=["checkout"])]

    async def schedules(self) -> Sequence[ScheduleView]:
        self._ask("schedules", None)
        return [*self._schedules.values()]

    async def schedule(self, schedule_id: str) -> ScheduleView:
        self._ask("schedule", schedule_id)
        if schedule_id not in self._schedules:
            raise NotFound(f"no schedule {schedule_id!r}")
        return self._schedules[schedule_id]

    async def fires(self, schedule_id: str, *, limit: int = DEFAULT_FIRES) -> Sequence[FireView]:
        self._ask("fires", (schedule_id, limit))
        return [FireView(at=NOW, local="2026-11-30T22:52:07+01:00")] * limit

    async def pause_schedule(self, schedule_id: str, reason: str) -> ScheduleView:
        self._ask("pause_schedule", (schedule_id, reason))
        return self._set_paused(schedule_id, paused=True)

    async def resume_schedule(self, schedule_id: str, reason: str) -> ScheduleView:
        self._ask("resume_schedule", (schedule_id, reason))
        return self._set_paused(schedule_id, paused=False)

    async def trigger_schedule(self, schedule_id: str, request: TriggerRequest) -> Started:
        self._ask("trigger_schedule", (schedule_id, request))
        return await self.start(StartRequest(workflow="checkout", key=request.key, tags={"schedule": schedule_id}))

    def _set_paused(self, schedule_id: str, *, paused: bool) -> ScheduleView:
        found = self._schedules[schedule_id]
        if found.paused is paused:
            raise Conflict(f"the schedule is {'paused already' if paused else 'not paused'}")
        self._schedules[schedule_id] = msgspec.structs.replace(found, paused=paused)
        return self._schedules[schedule_id]

    async def tokens(self) -> Sequence[TokenView]:
        self._ask("tokens", None)
        return [TOKEN_VIEW]

    async def create_token(self, request: TokenRequest) -> CreatedToken:
        self._ask("create_token", request)
        return CreatedToken(token="bext_text", made=TOKEN_VIEW)

    async def revoke_token(self, token: str, reason: str) -> TokenView:
        self._ask("revoke_token", (token, reason))
        if token != TOKEN_VIEW.name:
            raise NotFound(f"no token {token!r}")
        return TOKEN_VIEW

    async def audit(self, query: AuditQuery) -> Page[AuditView]:
        self._ask("audit", query)
        return Page(items=[AUDIT_VIEW], next_cursor="7")

    async def webhooks(self) -> Sequence[WebhookView]:
        self._ask("webhooks", None)
        return [WEBHOOK_VIEW]

    async def create_webhook(self, request: WebhookRequest) -> CreatedWebhook:
        self._ask("create_webhook", request)
        return CreatedWebhook(secret="whsec_c2VjcmV0", made=WEBHOOK_VIEW)

    async def remove_webhook(self, webhook_id: str, reason: str) -> WebhookView:
        self._ask("remove_webhook", (webhook_id, reason))
        return WEBHOOK_VIEW

    async def deliveries(self, query: DeliveryQuery) -> Page[DeliveryView]:
        self._ask("deliveries", query)
        return Page(items=[DELIVERY_VIEW], next_cursor=DELIVERY_VIEW.id)

    async def redeliver(self, delivery_id: str, reason: str) -> DeliveryView:
        self._ask("redeliver", (delivery_id, reason))
        return DELIVERY_VIEW

    async def bulk(self, request: BulkRequest, *, dry_run: bool = False) -> BulkAnswer:
        self._ask("bulk", (request, dry_run))
        return BulkAnswer(items=[BulkItem(run_id="r-1", status=WorkflowStatus.RUNNING, done=True)], dry_run=dry_run)

    async def hosts(self) -> Sequence[DriverView]:
        self._ask("hosts", None)
        return [DRIVER_VIEW]

    async def stats(self) -> StatsView:
        self._ask("stats", None)
        return StatsView(live=[], incidents=[], hosts=1)

    async def guarded(self) -> bool:
        return bool(self.callers)

    async def caller(self, bearer: str | None) -> Caller:
        """Whoever is known to `callers` by that token; without any, anybody."""
        if not self.callers:
            return ANONYMOUS
        if bearer not in self.callers:
            raise Unauthenticated("nobody knows who you are")
        return self.callers[bearer]

    def readiness(self) -> Readiness:
        return Readiness(ready=not self.reasons, reasons=self.reasons)

    def _flowing(self, run_id: str, act: str) -> Acknowledged:
        """A run that has ended takes no signal and no hold."""
        status = self._runs[run_id].status
        if status.terminal:
            raise Conflict(f"the run is {status}: no {act}")
        return Acknowledged(run_id=run_id, act=act, driven=self.driven)

    def _ask(self, call: str, given: object) -> None:
        self.asked.append((call, given))
        if self.fault is not None:
            raise self.fault


def schedule_view() -> ScheduleView:
    return ScheduleView(
        id="nightly",
        plugin="shop",
        workflow="checkout",
        version=None,
        cron="30 2 * * *",
        timezone="Europe/Madrid",
        overlap=Overlap.SKIP,
        catch_up=CatchUp.LATEST,
        context={"orders": 2**60},
        tags={},
        enabled=True,
        paused=False,
        next_at=NOW,
    )


def incident_view() -> IncidentView:
    return IncidentView(
        id="i-1",
        run_id="r-1",
        workflow="checkout",
        kind=IncidentKind.IN_DOUBT,
        call=Call.STEP,
        step="charge_card",
        visit=1,
        attempt=1,
        reason="the host died during the attempt",
        actions=[Action.DONE, Action.NOT_DONE, Action.FAIL, Action.FAIL_UNDO],
        evidence={"charge": 2**60},
        opened_at=NOW,
        resolution=Resolution(action="done", note="seen", by="ada"),
    )


def app_over(
    service: MemoryService, *, allowed_hosts: Sequence[str] = (), max_body_bytes: int = 1024 * 1024
) -> HttpApp:
    return create_http_app(
        Services(*(service,) * 10, access=service, host=service),
        metrics=lambda: "bext_up 1\n",
        allowed_hosts=allowed_hosts,
        max_body_bytes=max_body_bytes,
    )


def requests_to(app: HttpApp) -> httpx.AsyncClient:
    """A client of the app in this process. What the app raises reaches the test: nothing may get out of it."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=URL)


class Served:
    """A server in a task: its URL, and how to stop it."""

    def __init__(self, url: str, stop: Callable[[], None], stopped: anyio.Event) -> None:
        self.url = url
        self.stop = stop
        self.stopped = stopped

    @property
    def address(self) -> tuple[str, int]:
        url = httpx.URL(self.url)
        assert url.port is not None
        return url.host, url.port


@asynccontextmanager
async def served(app: HttpApp, host: str = "127.0.0.1") -> AsyncIterator[Served]:
    started, stopped = anyio.Event(), anyio.Event()

    async def serve(scope: anyio.CancelScope, door: Door) -> None:
        with scope:
            await serve_http(app, door, started=started.set)
        stopped.set()

    with opened(host, 0) as door:
        async with anyio.create_task_group() as tasks:
            scope = anyio.CancelScope()
            tasks.start_soon(serve, scope, door)
            with anyio.fail_after(5):
                await started.wait()
            yield Served(door.url, scope.cancel, stopped)
            scope.cancel()


def body_of(response: httpx.Response) -> Json:
    """The JSON of an answer, with every integer exact."""
    return msgspec.json.decode(response.content)


def each_error() -> list[BextError]:
    """One of every class of errors.py, with a message and a mend of its own."""
    kinds: list[type[BextError]] = [BextError]
    for kind in kinds:
        kinds.extend(sub for sub in kind.__subclasses__() if sub.__module__ == "bext_workflow.errors")
    return [kind(f"what {kind.__name__} says: in full", mend=f"mend {kind.__name__}") for kind in kinds]
