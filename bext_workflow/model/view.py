"""What faces show: the resources of the HTTP API and of `-o json`, the same for both (reference "HTTP API").

Instants are RFC 3339, UTC, with milliseconds.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Generic, TypeVar

import msgspec

from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.status import Action, Call, IncidentKind, WorkflowStatus

T = TypeVar("T")


def instant(at_ms: int) -> str:
    """`2026-11-30T21:52:07.123Z` of ms since the epoch."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def instant_or_none(at_ms: int | None) -> str | None:
    return None if at_ms is None else instant(at_ms)


class StepView(msgspec.Struct, frozen=True, kw_only=True):
    """One visit of a step.

    `status`: running, retrying, in_doubt, held, completed, failed, stopped, undoing, compensated or left_in_place.
    """

    step: str
    visit: int
    status: str
    attempts: int
    idempotency_key: str
    reason: str | None = None
    retry_at: str | None = None
    ended_at: str | None = None
    undone_at: str | None = None


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A run. In lists `steps`, `context` and `left_in_place` are absent. `holds`: incident ids."""

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
    key: str | None = None
    tags: dict[str, str] = {}
    created_at: str
    started_at: str | None = None
    updated_at: str
    ended_at: str | None = None


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the journal."""

    seq: int
    at: str
    kind: str
    data: JsonObject


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
    """A workflow that is served. `steps` hold every key of a step in the config, with the value that is in effect."""

    id: str
    version: int
    plugin: str
    digest: str
    description: str
    steps: list[JsonObject]


class PluginView(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin that the config names. `error`: why it cannot be used, and the mend; then no more is known of it."""

    name: str
    distribution: str
    version: str
    hooks: list[str]
    workflows: list[str]
    error: str | None = None


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A page of a list; `next_cursor` of None: there is no more."""

    items: list[T]
    next_cursor: str | None = None
