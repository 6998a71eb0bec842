"""What callers send: bodies and query strings. What the service already has a request for is used as it is."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from bext_workflow.model.json import INT_MAX, Json, JsonObject
from bext_workflow.model.status import IncidentKind, WorkflowStatus
from bext_workflow.model.webhook import DeliveryState
from bext_workflow.service.protocols import DEFAULT_FIRES, DEFAULT_LIMIT, MAX_LIMIT

Version: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=INT_MAX)]
Seq: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=INT_MAX)]
Limit: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=MAX_LIMIT)]
Tag: TypeAlias = Annotated[str, msgspec.Meta(description="`key=value`; a run must have all that are given")]
Instant: TypeAlias = Annotated[str, msgspec.Meta(description="RFC 3339, bounds when it was")]
Duration: TypeAlias = Annotated[str, msgspec.Meta(description="such as `500ms`, `30s`, `1m`; at most 60 s count")]


class StartBody(msgspec.Struct, frozen=True, kw_only=True):
    """A start. Its key stands in the header `Idempotency-Key`; `version` of null: the highest that is served."""

    workflow: str
    version: Version | None = None
    context: JsonObject = {}
    tags: dict[str, str] = {}


class SignalBody(msgspec.Struct, frozen=True, kw_only=True):
    """A signal; its name stands in the path. Of two with the same `id` the second is ignored."""

    payload: Json = None
    id: str | None = None


class ForkBody(msgspec.Struct, frozen=True, kw_only=True):
    """Where the new run begins: `at` the event of that number, or when the run came to `step` last; one of the two."""

    at: Seq | None = None
    step: str | None = None
    reason: str = ""


class HoldBody(msgspec.Struct, frozen=True, kw_only=True):
    """Why it is done; the reason is kept."""

    reason: str = ""


class RunsParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs; `status` and `tag` may be repeated."""

    workflow: str | None = None
    version: Version | None = None
    status: tuple[WorkflowStatus, ...] = ()
    tag: tuple[Tag, ...] = ()
    since: Instant | None = None
    until: Instant | None = None
    incident: IncidentKind | None = None
    limit: Limit = DEFAULT_LIMIT
    cursor: str | None = None


class ResultParameters(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait for the end of the run."""

    wait: Duration = "0ms"


class EventsParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a journal: what follows the seq `after` (or the last page's cursor)."""

    after: Seq = 0
    limit: Limit = DEFAULT_LIMIT


class StreamParameters(msgspec.Struct, frozen=True, kw_only=True):
    """From behind the event of which number on; the header `Last-Event-ID` says it too, and counts more."""

    after: Seq = 0


class FiresParameters(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the next planned instants."""

    limit: Limit = DEFAULT_FIRES


class CancelParameters(msgspec.Struct, frozen=True, kw_only=True):
    """`dry_run`: say what a cancel would do, and do nothing."""

    dry_run: bool = False


class IncidentsParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Which incidents; without `open_only=false` those that wait for an answer."""

    run_id: str | None = None
    open_only: bool = True
    limit: Limit = DEFAULT_LIMIT
    cursor: str | None = None


class ApprovalsParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Which approvals; without `open_only=false` those that wait for a decision."""

    run_id: str | None = None
    open_only: bool = True
    limit: Limit = DEFAULT_LIMIT
    cursor: str | None = None


class AuditParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Which acts; `oldest_first` turns the list round."""

    run_id: str | None = None
    about: Annotated[str | None, msgspec.Meta(description="such as `schedule:nightly` or `token:ci`")] = None
    by: str | None = None
    act: Annotated[str | None, msgspec.Meta(description="such as `run.cancel`")] = None
    since: Instant | None = None
    until: Instant | None = None
    oldest_first: bool = False
    limit: Limit = DEFAULT_LIMIT
    cursor: str | None = None


class DeliveriesParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Which deliveries; `run_id` is a whole id."""

    webhook_id: str | None = None
    run_id: str | None = None
    state: DeliveryState | None = None
    limit: Limit = DEFAULT_LIMIT
    cursor: str | None = None


class WorkflowParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Which version; by default the highest."""

    version: Version | None = None


class NoParameters(msgspec.Struct, frozen=True, kw_only=True):
    """The resource takes none."""
