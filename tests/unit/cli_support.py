"""The service that the command line's own tests look at: its protocols over plain lists, and nothing behind them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
from msgspec.structs import replace

from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.schedule import CatchUp, Overlap, SlotResult
from bext_workflow.model.status import Action, Call, IncidentKind, WorkflowStatus
from bext_workflow.model.view import (
    PAUSED,
    ApprovalView,
    AuditView,
    Consequence,
    Decision,
    DeliveryView,
    DriverView,
    EventView,
    FireView,
    IncidentView,
    Page,
    PluginView,
    RunView,
    ScheduleView,
    SignalState,
    SignalView,
    StatsView,
    StepView,
    TokenState,
    TokenView,
    WaitView,
    WebhookView,
    WhyView,
    WorkflowView,
)
from bext_workflow.service.administration import (
    Audit,
    AuditQuery,
    CreatedToken,
    CreatedWebhook,
    DeliveryQuery,
    Hosts,
    TokenRequest,
    Tokens,
    WebhookRequest,
    Webhooks,
)
from bext_workflow.service.health import Checked, Diagnosis, Health
from bext_workflow.service.proof import Broken, Coverage, Explored, ExploredPath, Proof, ProofOptions
from bext_workflow.service.protocols import (
    DEFAULT_FIRES,
    DEFAULT_LIMIT,
    Acknowledged,
    Approvals,
    CancelPlan,
    CancelRequest,
    CompleteRequest,
    DecideRequest,
    ForkRequest,
    Operations,
    ResolveRequest,
    RetryRequest,
    RunQuery,
    Runs,
    Schedules,
    SignalRequest,
    Started,
    StartRequest,
    TriggerRequest,
    Workflows,
)
from bext_workflow.service.wiring import (
    Reached,
    Report,
    ServeOptions,
    StoreBackup,
    StoreCopy,
    StorePruned,
    StoreState,
    StoreStatus,
    Target,
    VersionPlan,
)
from tests.unit.http_support import DELIVERY_VIEW, DRIVER_VIEW, NOW, WEBHOOK_VIEW

AT = "2026-11-30T21:52:07.123Z"

PROOF = Proof(
    workflow="order",
    version=2,
    paths=[ExploredPath(name="mug", steps=["pack", "ship"])],
    steps=Explored(sites=2, faults=13, impossible=1, runs=25),
    undos=Explored(sites=2, faults=8, impossible=0, runs=16),
    waits=Explored(sites=0, faults=3, impossible=0, runs=0),
    endings=Explored(sites=0, faults=7, impossible=0, runs=0),
    pairs=3,
    pairs_there=90,
    runs=45,
    took_ms=1_234,
    coverage=Coverage(percent=50, effects=["pack: box", "ship: van"], undone=["pack: box"], stays=["mail"]),
    broken=[],
)

BROKEN = Broken(
    promise="left-behind",
    where="ship",
    message="van is done and not undone",
    case="mug@ship=cancel",
    faults=1,
    story=["call     run_step ship, attempt 1", "durable  run compensated"],
)

STEP = StepView(step="reserve", visit=1, status="completed", attempts=1, idempotency_key="k:reserve", ended_at=AT)

RUN = RunView(
    run_id="0193a4c0-0000-7000-8000-000000000001",
    workflow="checkout",
    version=1,
    status=WorkflowStatus.COMPLETED,
    step=None,
    steps=[STEP],
    context={"order_id": "o-1"},
    created_at=AT,
    updated_at=AT,
)

WAIT = WaitView(step="approve", visit=2, signal="approved", due_at=AT, opened_at=AT)

WAITING = RunView(
    run_id=RUN.run_id,
    workflow="onboarding",
    version=1,
    status=WorkflowStatus.WAITING,
    step="approve",
    steps=[StepView(step="approve", visit=2, status="waiting", attempts=0, idempotency_key="k:approve#2")],
    holds=[],
    waits=[WAIT],
    signals=[
        SignalView(name="approved", id="s-1", at=AT, state=SignalState.LATE, payload="y" * 500),
        SignalView(name="paid", id=None, at=AT, state=SignalState.KEPT, payload={"by": "\x1b[2Jada"}),
    ],
    created_at=AT,
    updated_at=AT,
)

PAUSED_RUN = msgspec.structs.replace(WAITING, status=WorkflowStatus.SUSPENDED, holds=[PAUSED], waits=[], signals=[])

INCIDENT = IncidentView(
    id="0193a4c0-0000-7000-8000-0000000000aa",
    run_id=RUN.run_id,
    workflow="checkout",
    kind=IncidentKind.COMPENSATION_FAILED,
    call=Call.UNDO,
    step="reserve",
    visit=1,
    attempt=1,
    reason="the shelf is jammed",
    actions=[Action.RETRY, Action.UNDONE],
    opened_at=AT,
)

STORE = StoreStatus(store="postgresql://db/shop", schema=1, spoken=2, state=StoreState.OLDER)


APPROVAL = ApprovalView(
    id=f"{RUN.run_id}:approve",
    run_id=RUN.run_id,
    workflow="onboarding",
    step="approve",
    visit=1,
    title="A laptop for Ada?",
    by=["ann", "bob"],
    not_by="starter",
    form=None,
    opened_at=AT,
    due_at=AT,
    closed_at=None,
    resolution=None,
)

DECISION = Decision(how="rejected", by="ann", comment="too dear")


def event(seq: int, kind: str, /, **data: Json) -> EventView:
    return EventView(seq=seq, at=AT, kind=kind, data=data)


class Shelf:
    """What the service answers with, and what it was asked."""

    def __init__(self, *runs: RunView, driven: bool = True, error: BaseException | None = None) -> None:
        self.held = runs or (RUN,)
        self.driven = driven
        self.error = error
        self.journal: list[EventView] = []
        self.incidents: list[IncidentView] = []
        self.asked: list[object] = []
        self.waited: list[int | None] = []
        self.read = anyio.Event()
        self.plans: list[VersionPlan] = []
        self.proof = PROOF
        self.diagnosis = Diagnosis(
            checked=[
                Checked(what="store", health=Health.OK, said="sqlite:bext.db"),
                Checked(what="disk", health=Health.WARNING, said="2 GiB free", mend="free some space"),
            ],
            facts={"store": {"engine": "SQLite 3.40.1"}},
        )
        self.report = Report(config="bext.config.toml", plugins=["p"], workflows=["checkout@1"], findings=[])

    def answer(self, asked: object) -> None:
        self.asked.append(asked)
        if self.error is not None:
            raise self.error

    @property
    def run(self) -> RunView:
        """The run; each look takes the next of several."""
        first, *rest = self.held
        self.held = tuple(rest) or self.held
        return first


class ShelfRuns:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    async def start(self, request: StartRequest) -> Started:
        self._shelf.answer(request)
        return Started(run=self._shelf.run, created=True, driven=self._shelf.driven)

    async def get(self, run_id: str) -> RunView:
        self._shelf.answer(run_id)
        return self._shelf.run

    async def list(self, query: RunQuery) -> Page[RunView]:
        """The cursor is the index of the next run."""
        self._shelf.answer(query)
        start = int(query.cursor or 0)
        end = start + query.limit
        more = str(end) if end < len(self._shelf.held) else None
        return Page(items=[*self._shelf.held[start:end]], next_cursor=more)

    async def events(self, run_id: str, *, after: int = 0, limit: int = DEFAULT_LIMIT) -> Page[EventView]:
        self._shelf.read.set()
        rest = [event for event in self._shelf.journal if event.seq > after]
        more = str(rest[limit - 1].seq) if len(rest) > limit else None
        return Page(items=rest[:limit], next_cursor=more)

    async def result(self, run_id: str, *, wait_ms: int = 0) -> RunView:
        self._shelf.answer(run_id)
        self._shelf.waited.append(wait_ms)
        return self._shelf.run

    async def why(self, run_id: str) -> WhyView:
        self._shelf.answer(run_id)
        next_ = [Consequence(on="runs signal 0193 approved", then="it goes on at pay")]
        return WhyView(run_id=RUN.run_id, status=WorkflowStatus.WAITING, text="It waits for Ada.", next=next_)


class ShelfOperations:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    async def cancel(self, run_id: str, request: CancelRequest) -> Acknowledged:
        return self._acknowledge(run_id, "cancel", request)

    async def plan_cancel(self, run_id: str, request: CancelRequest) -> CancelPlan:
        self._shelf.answer(request)
        return CancelPlan(
            run_id=run_id, status=WorkflowStatus.RUNNING, undo=["charge", "reserve"], left_in_place=[], note=""
        )

    async def retry(self, run_id: str, request: RetryRequest) -> Acknowledged:
        return self._acknowledge(run_id, "retry", request)

    async def fork(self, run_id: str, request: ForkRequest) -> Started:
        self._shelf.answer((run_id, request))
        return Started(run=self._shelf.run, created=True, driven=self._shelf.driven)

    async def signal(self, run_id: str, request: SignalRequest) -> Acknowledged:
        return self._acknowledge(run_id, "signal", request)

    async def pause(self, run_id: str, reason: str) -> Acknowledged:
        return self._acknowledge(run_id, "pause", reason)

    async def resume(self, run_id: str, reason: str) -> Acknowledged:
        return self._acknowledge(run_id, "resume", reason)

    async def incidents(
        self,
        *,
        run_id: str | None = None,
        open_only: bool = True,
        limit: int = DEFAULT_LIMIT,
        cursor: str | None = None,
    ) -> Page[IncidentView]:
        return Page(items=self._shelf.incidents)

    async def incident(self, incident_id: str) -> IncidentView:
        return next(iter(self._shelf.incidents))

    async def resolve(self, incident_id: str, request: ResolveRequest) -> Acknowledged:
        return self._acknowledge(RUN.run_id, "resolve", request)

    def _acknowledge(self, run_id: str, act: str, request: object) -> Acknowledged:
        self._shelf.answer(request)
        return Acknowledged(run_id=run_id, act=act, driven=self._shelf.driven)


class ShelfWorkflows:
    async def workflows(self) -> Sequence[WorkflowView]:
        steps: list[JsonObject] = [
            {"name": "reserve", "idempotent": True, "retries": {"max_attempts": 3}},
            {"name": "approve", "wait": {"signal": "ok", "into": "by", "timeout_ms": 5_400_000, "on_timeout": "end"}},
            {"name": "rest", "sleep_ms": 86_400_250, "next": "end"},
        ]
        view = WorkflowView(
            id="checkout", version=1, plugin="p", digest="d", description="", timeout_ms=1000, steps=steps
        )
        return [msgspec.structs.replace(view, version=version) for version in (1, 3, 2)]

    async def plugins(self) -> Sequence[PluginView]:
        return [PluginView(name="p", distribution="dist", version="1", hooks=["run_step"], workflows=["checkout@1"])]


SCHEDULE = ScheduleView(
    id="nightly",
    plugin="p",
    workflow="checkout",
    version=None,
    cron="30 2 * * *",
    timezone="Europe/Madrid",
    overlap=Overlap.SKIP,
    catch_up=CatchUp.LATEST,
    context={},
    tags={},
    enabled=True,
    paused=False,
    next_at=AT,
    last_slot=AT,
    last_result=SlotResult.SKIPPED,
)


class ShelfSchedules:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    async def schedules(self) -> Sequence[ScheduleView]:
        return [SCHEDULE, replace(SCHEDULE, id="weekly", paused=True), replace(SCHEDULE, id="yearly", enabled=False)]

    async def schedule(self, schedule_id: str) -> ScheduleView:
        return SCHEDULE

    async def fires(self, schedule_id: str, *, limit: int = DEFAULT_FIRES) -> Sequence[FireView]:
        self._shelf.answer((schedule_id, limit))
        return [FireView(at=AT, local="2026-11-30T22:52:07+01:00")] * limit

    async def pause_schedule(self, schedule_id: str, reason: str) -> ScheduleView:
        self._shelf.answer(("pause", schedule_id, reason))
        return replace(SCHEDULE, paused=True)

    async def resume_schedule(self, schedule_id: str, reason: str) -> ScheduleView:
        self._shelf.answer(("resume", schedule_id, reason))
        return SCHEDULE

    async def trigger_schedule(self, schedule_id: str, request: TriggerRequest) -> Started:
        self._shelf.answer((schedule_id, request))
        return Started(run=self._shelf.run, created=True, driven=self._shelf.driven)


class ShelfApprovals:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    async def approvals(
        self,
        *,
        run_id: str | None = None,
        open_only: bool = True,
        limit: int = DEFAULT_LIMIT,
        cursor: str | None = None,
    ) -> Page[ApprovalView]:
        self._shelf.answer((run_id, open_only, limit, cursor))
        return Page(items=[APPROVAL, replace(APPROVAL, id="k:b", title="", by=[], not_by=None, resolution=DECISION)])

    async def decide(self, approval_id: str, request: DecideRequest) -> Acknowledged:
        self._shelf.answer((approval_id, request))
        return Acknowledged(run_id=RUN.run_id, act="answer", driven=self._shelf.driven)

    async def complete(self, token: str, request: CompleteRequest) -> Acknowledged:
        self._shelf.answer((token, request))
        return Acknowledged(run_id=RUN.run_id, act="answer", driven=self._shelf.driven)


TOKEN_VIEW = TokenView(
    id="0193a4c0-0000-7000-8000-0000000000ff",
    name="ci",
    state=TokenState.ACTIVE,
    scopes=["start:checkout", "view"],
    roles=["finance"],
    created_at=AT,
    created_by="ada",
    expires_at=AT,
    revoked_at=None,
)


class ShelfTokens:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    async def tokens(self) -> Sequence[TokenView]:
        self._shelf.answer("tokens")
        return [TOKEN_VIEW]

    async def create_token(self, request: TokenRequest) -> CreatedToken:
        self._shelf.answer(request)
        return CreatedToken(token="bext_text", made=TOKEN_VIEW)

    async def revoke_token(self, token: str, reason: str) -> TokenView:
        self._shelf.answer((token, reason))
        return replace(TOKEN_VIEW, state=TokenState.REVOKED)


class ShelfWebhooks:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    async def webhooks(self) -> Sequence[WebhookView]:
        self._shelf.answer("webhooks")
        return [WEBHOOK_VIEW, replace(WEBHOOK_VIEW, events=[], workflows=[], removed_at=NOW)]

    async def create_webhook(self, request: WebhookRequest) -> CreatedWebhook:
        self._shelf.answer(request)
        return CreatedWebhook(secret="whsec_c2VjcmV0", made=WEBHOOK_VIEW)

    async def remove_webhook(self, webhook_id: str, reason: str) -> WebhookView:
        self._shelf.answer((webhook_id, reason))
        return WEBHOOK_VIEW

    async def deliveries(self, query: DeliveryQuery) -> Page[DeliveryView]:
        self._shelf.answer(query)
        return Page(items=[DELIVERY_VIEW])

    async def redeliver(self, delivery_id: str, reason: str) -> DeliveryView:
        self._shelf.answer((delivery_id, reason))
        return DELIVERY_VIEW


class ShelfHosts:
    async def hosts(self) -> Sequence[DriverView]:
        return [DRIVER_VIEW, replace(DRIVER_VIEW, only=RUN.run_id)]

    async def stats(self) -> StatsView:
        return StatsView(live=[], incidents=[], hosts=1)


class ShelfAudit:
    """A page of one act, and then another one."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    async def audit(self, query: AuditQuery) -> Page[AuditView]:
        self._shelf.answer(query)
        number = int(query.cursor or 0) + 1
        act = AuditView(
            id=number, at=AT, by="token:ci", act="run.cancel", run_id=RUN.run_id, about=None, reason="Ω", data={}
        )
        return Page(items=[act], next_cursor=str(number) if number < 2 else None)


class ShelfReached:
    def __init__(self, shelf: Shelf, url: str | None) -> None:
        self._shelf = shelf
        self.runs: Runs = ShelfRuns(shelf)
        self.operations: Operations = ShelfOperations(shelf)
        self.workflows: Workflows = ShelfWorkflows()
        self.schedules: Schedules = ShelfSchedules(shelf)
        self.approvals: Approvals = ShelfApprovals(shelf)
        self.tokens: Tokens = ShelfTokens(shelf)
        self.audit: Audit = ShelfAudit(shelf)
        self.webhooks: Webhooks = ShelfWebhooks(shelf)
        self.hosts: Hosts = ShelfHosts()
        self.url: str | None = url

    async def drive(self, run_id: str, *, wait_ms: int | None) -> RunView:
        """What is in the journal is there to be read while the run is driven."""
        self._shelf.waited.append(wait_ms)
        if self._shelf.journal:
            with anyio.fail_after(5):
                await self._shelf.read.wait()
        return self._shelf.run


class ShelfWiring:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self.targets: list[Target] = []
        self.served: list[ServeOptions] = []
        self.proved: list[tuple[str, int | None, ProofOptions]] = []

    @asynccontextmanager
    async def reach(self, target: Target) -> AsyncIterator[Reached]:
        self.targets.append(target)
        yield ShelfReached(self._shelf, target.url)

    async def check(self, target: Target, *, strict: bool) -> Report:
        self.targets.append(target)
        return self._shelf.report

    async def plan(self, target: Target) -> Sequence[VersionPlan]:
        self.targets.append(target)
        return self._shelf.plans

    async def prove(self, target: Target, workflow: str, version: int | None, options: ProofOptions) -> Proof:
        self.targets.append(target)
        self.proved.append((workflow, version, options))
        return self._shelf.proof

    def config(self, target: Target) -> JsonObject:
        self.targets.append(target)
        return {"host": {"listen": "127.0.0.1:7420"}, "plugins": [{"name": "p"}]}

    async def store_status(self, target: Target) -> StoreStatus:
        self.targets.append(target)
        return STORE

    async def copy_store(self, target: Target, to: str) -> StoreCopy:
        self.targets.append(target)
        return StoreCopy(store=STORE.store, to=to, rows={"runs": 3, "journal": 12})

    async def diagnose(self, target: Target) -> Diagnosis:
        self.targets.append(target)
        return self._shelf.diagnosis

    async def prune_store(self, target: Target, *, dry_run: bool) -> StorePruned:
        self.targets.append(target)
        return StorePruned(store=STORE.store, dry_run=dry_run, runs={"COMPLETED": 2, "FAILED": 0}, start_keys=1)

    async def back_up_store(self, target: Target, to: Path) -> StoreBackup:
        self.targets.append(target)
        return StoreBackup(store=STORE.store, to=str(to), bytes=4_096)

    async def migrate_store(self, target: Target) -> StoreStatus:
        self.targets.append(target)
        return replace(STORE, schema=2, state=StoreState.READY)

    def openapi(self) -> JsonObject:
        return {"openapi": "3.1.0", "paths": {}}

    async def serve(self, target: Target, options: ServeOptions) -> None:
        self.targets.append(target)
        self.served.append(options)

    def scaffold(self, folder: Path) -> Sequence[Path]:
        return [folder / "bext.config.toml"]
