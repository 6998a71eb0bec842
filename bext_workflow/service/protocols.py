"""What faces are given. The service implements it over a store, `client` over HTTP: a face cannot tell which.

All calls raise the errors of `bext_workflow.errors`; ids may be shortened to a prefix that only one has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.status import Action, IncidentKind, WorkflowStatus
from bext_workflow.model.view import (
    ApprovalView,
    EventView,
    FireView,
    IncidentView,
    Page,
    PluginView,
    RunView,
    ScheduleView,
    WhyView,
    WorkflowView,
)
from bext_workflow.service.feed import Feed

DEFAULT_LIMIT = 50
MAX_LIMIT = 500
DEFAULT_FIRES = 5


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
