"""What faces show: the resources of the HTTP API and of `-o json`, the same for both (reference "HTTP API").

Instants are RFC 3339, UTC, with milliseconds.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.origin import ForkedFrom
from bext_workflow.model.schedule import CatchUp, Overlap, SlotResult
from bext_workflow.model.status import Action, Call, IncidentKind, WorkflowStatus
from bext_workflow.model.webhook import DeliveryState, WebhookEvent

T = TypeVar("T")


def instant(at_ms: int) -> str:
    """`2026-11-30T21:52:07.123Z` of ms since the epoch."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_instant(text: str) -> int:
    """Ms since the epoch of an RFC 3339 instant. Raises `ValueError` for another text, and for one without a zone."""
    parsed = datetime.fromisoformat(text)
    if parsed.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return round(parsed.timestamp() * 1000)


def instant_or_none(at_ms: int | None) -> str | None:
    return None if at_ms is None else instant(at_ms)


class StepView(msgspec.Struct, frozen=True, kw_only=True):
    """One visit of a step.

    `status`: running, retrying, waiting, in_doubt, held, completed, failed, stopped, undoing, compensated or
    left_in_place. `child`: the id of the run that the step is, if it is one.
    """

    step: str
    visit: int
    branch: int = 0
    status: str
    attempts: int
    idempotency_key: str
    reason: str | None = None
    retry_at: str | None = None
    ended_at: str | None = None
    undone_at: str | None = None
    child: str | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """How an approval was closed: approved, rejected, timeout, person (who answered an incident) or stopped."""

    how: str
    by: str = ""
    comment: str = ""


class ApprovalView(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that is asked of a person. `by`: who may decide (empty: anybody), `not_by`: who may not.

    `form` is the JSON Schema of what comes with the decision; `due_at` of null: it has no bound.
    """

    id: str
    run_id: str
    workflow: str
    step: str
    visit: int
    title: str
    by: list[str]
    not_by: str | None
    form: Json
    opened_at: str
    due_at: str | None
    closed_at: str | None
    resolution: Decision | None


class WaitView(msgspec.Struct, frozen=True, kw_only=True):
    """A wait that is open. `signal` of None: only time ends it; `due_at` of None: only the signal does.

    `approval`: the id of the decision that it waits for, if that is what it is.
    """

    step: str
    visit: int
    signal: str | None
    due_at: str | None
    opened_at: str
    approval: str | None = None


class SignalState(StrEnum):
    """What has become of a signal.

    WAITING: accepted, and no host has taken it up yet. TAKEN: by a wait. LATE: it lost to the timer of the wait that
    wanted it, and no other takes it. KEPT: for a wait that may come.
    """

    WAITING = "waiting"
    TAKEN = "taken"
    LATE = "late"
    KEPT = "kept"


class SignalView(msgspec.Struct, frozen=True, kw_only=True):
    """A signal that was accepted, `at` that time.

    `state`: waiting (no host has taken it up yet), taken (by a wait), late (it lost to its wait's timer) or kept.
    """

    name: str
    id: str | None
    at: str
    state: SignalState
    payload: Json


PAUSED = "paused"
"""What `holds` says of a run that a person has paused."""


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A run. In lists what is large or many is absent: `steps`, `context`, `waits` and the like.

    `holds`: incident ids, and `paused`. `signals` are in the order in which they were accepted. `parent`: the id of the
    run that this one is a sub-workflow of. `forked_from`: {run_id, seq} of where it began, if that was in another run.
    """

    run_id: str
    workflow: str
    version: int
    status: WorkflowStatus
    step: str | None
    steps: list[StepView] | msgspec.UnsetType = msgspec.UNSET
    context: JsonObject | msgspec.UnsetType = msgspec.UNSET
    failure: str | None = None
    left_in_place: list[str] | msgspec.UnsetType = msgspec.UNSET
    holds: list[str] | msgspec.UnsetType = msgspec.UNSET
    waits: list[WaitView] | msgspec.UnsetType = msgspec.UNSET
    signals: list[SignalView] | msgspec.UnsetType = msgspec.UNSET
    parent: str | msgspec.UnsetType | None = msgspec.UNSET
    forked_from: ForkedFrom | msgspec.UnsetType | None = msgspec.UNSET
    key: str | None = None
    tags: dict[str, str] = {}
    created_at: str
    started_at: str | None = None
    updated_at: str
    ended_at: str | None = None


class Consequence(msgspec.Struct, frozen=True, kw_only=True):
    """What follows if something happens: a command, an event, a time."""

    on: str
    then: str


class WhyView(msgspec.Struct, frozen=True, kw_only=True):
    """Why a run stands where it does: what it waits for, since when, what holds it; and what may happen next."""

    run_id: str
    status: WorkflowStatus
    text: str
    next: list[Consequence]


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the journal."""

    seq: int
    at: str
    kind: str
    data: JsonObject


class ChangeView(msgspec.Struct, frozen=True, kw_only=True):
    """Where an append has left a run; `seq` is the number of its last event."""

    run_id: str
    workflow: str
    status: WorkflowStatus
    step: str | None
    seq: int
    at: str


class Resolution(msgspec.Struct, frozen=True, kw_only=True):
    """How an incident was answered."""

    action: str
    note: str
    by: str


class IncidentView(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a person must decide; `actions` are the answers that it takes.

    `idempotency_key`: what the call in question handed to the services that it calls; None if it is about no step.
    """

    id: str
    run_id: str
    workflow: str
    kind: IncidentKind
    call: Call
    step: str
    visit: int
    attempt: int
    idempotency_key: str | None = None
    reason: str
    actions: list[Action]
    evidence: Json = None
    traceback: str | None = None
    opened_at: str
    resolved_at: str | None = None
    resolution: Resolution | None = None


class WorkflowView(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow that is served; `timeout_ms` bounds a whole run (0: no bound).

    `steps` hold every key of a step in the config, with the value that is in effect.
    """

    id: str
    version: int
    plugin: str
    digest: str
    description: str
    timeout_ms: int = 0
    steps: list[JsonObject]


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule of the config, and how it stands.

    `next_at`: its next planned instant, null while it is paused or not enabled. `last_result` says what became of the
    one before, `last_slot`: started, skipped, buffered, missed or failed. `buffered_slot` waits for the run
    `last_run_id` to end.
    """

    id: str
    plugin: str
    workflow: str
    version: int | None
    cron: str
    timezone: str
    overlap: Overlap
    catch_up: CatchUp
    context: JsonObject
    tags: dict[str, str]
    enabled: bool
    paused: bool
    next_at: str | None = None
    last_slot: str | None = None
    last_result: SlotResult | None = None
    last_run_id: str | None = None
    buffered_slot: str | None = None


class FireView(msgspec.Struct, frozen=True, kw_only=True):
    """A planned instant of a schedule; `local` is the same instant in the schedule's time zone."""

    at: str
    local: str


class AuditView(msgspec.Struct, frozen=True, kw_only=True):
    """An act of a person or a program: who, what, why. `about` is what it is about but a run, such as `token:ci`.

    `data`: what was asked, or what stood `before` and `after`.
    """

    id: int
    at: str
    by: str
    act: str
    run_id: str | None
    about: str | None
    reason: str
    data: JsonObject


class WebhookView(msgspec.Struct, frozen=True, kw_only=True):
    """Who is told of what: of all `events`, and of all `workflows`, where none is named. Its secret is not shown."""

    id: str
    url: str
    events: list[WebhookEvent]
    workflows: list[str]
    created_at: str
    created_by: str
    removed_at: str | None


class DeliveryView(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a webhook is told: `body`, as it is sent. `id` is what the receiver gets as `webhook-id`.

    `state`: pending (it is tried at `next_at`), delivered or failed. `attempts` since it was sent first, or sent again
    by a person; `status` and `error` are of the last one.
    """

    id: str
    webhook_id: str
    run_id: str
    event: WebhookEvent
    body: JsonObject
    at: str
    state: DeliveryState
    attempts: int
    next_at: str | None
    status: int | None
    error: str | None
    settled_at: str | None


class DriverView(msgspec.Struct, frozen=True, kw_only=True):
    """A host that is alive. `serves`: the workflows and versions that it drives; `only`: the one run, for a command."""

    host_id: str
    hostname: str
    pid: int
    started_at: str
    serves: list[str]
    only: str | None


class LiveCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many runs of a workflow and version have not ended."""

    workflow: str
    version: int
    runs: int


class IncidentCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many incidents of a kind are open."""

    kind: IncidentKind
    open: int


class StatsView(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is to do: live runs by workflow and version, open incidents by kind, and the hosts for it."""

    live: list[LiveCount]
    incidents: list[IncidentCount]
    hosts: int


class TokenState(StrEnum):
    """Whether an access token is good."""

    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


class TokenView(msgspec.Struct, frozen=True, kw_only=True):
    """An access token, without its text. `state`: active, expired or revoked; `expires_at` of null: never."""

    id: str
    name: str
    state: TokenState
    scopes: list[str]
    roles: list[str]
    created_at: str
    created_by: str
    expires_at: str | None
    revoked_at: str | None


class PluginView(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin that the config names. `error`: why it cannot be used, and the mend; then no more is known of it."""

    name: str
    distribution: str
    version: str
    isolation: str = "inline"
    hooks: list[str]
    workflows: list[str]
    error: str | None = None


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A page of a list; `next_cursor` of None: there is no more."""

    items: list[T]
    next_cursor: str | None = None
