"""The store: where runs live. One journal a run, and an index over the runs (architecture "Journal and index").

Rules for every implementation; `bext_workflow.testing.StoreContract` holds them:

* `write` is the only way to change a run's journal. Its members succeed or fail one by one; all that succeed are
  durable when it returns. It never raises for a member's sake. It raises `StoreUnavailable` when nothing could be
  judged: then the caller repeats the very same batch, and a member that had been committed after all is answered
  `Committed` (an unclear COMMIT is settled by reading the journal again).
* Members of one run are taken in their order; once one fails, the later ones with its fence fail like it.
* An append is conditional on (fence, seq, inbox): the owner's fence, the number of events that its decision knew, and
  the number of acts that it knew. A mismatch is a result, not an exception.
* Journal rows, the run's row, incidents, taken inbox rows: one transaction. No reader sees a part of it.
* `seq` and inbox numbers of a run count from 1 without gaps. Instants are ms since the epoch on `clock`'s wall.
* Text is kept byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import msgspec

from bext_workflow.model.json import Json
from bext_workflow.model.schedule import SlotResult
from bext_workflow.model.status import Action, Call, IncidentKind, WorkflowStatus
from bext_workflow.ports.audit import ALL, AuditEntry, AuditFilter, AuditRow
from bext_workflow.ports.hosting import LEASE_MS, Hear, Profile, Schema, Survey
from bext_workflow.ports.retention import Retaining
from bext_workflow.ports.tokens import AmendTokens, TokenRow
from bext_workflow.ports.webhooks import DeliveryRow, Outgoing


class EventRow(msgspec.Struct, frozen=True):
    """One event as it is kept. `data` is `model.event.encode`'s text."""

    seq: int
    at: int
    kind: str
    data: bytes


class InboxRow(msgspec.Struct, frozen=True):
    """One act from outside, the `n`-th of its run. `data` is JSON text."""

    n: int
    at: int
    kind: str
    by: str
    data: bytes


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """The index entry of a run."""

    rid: int
    run_id: str
    workflow: str
    version: int
    digest: str
    status: WorkflowStatus
    step: str | None
    seq: int
    inbox: int
    owner: str | None
    fence: int
    wake_at: int | None
    key: str | None
    tags: dict[str, str]
    failure: str | None
    incidents: int
    created_at: int
    started_at: int | None
    updated_at: int
    ended_at: int | None

    @property
    def index(self) -> Index:
        """What an append of its owner begins from, which changes nothing of the row."""
        return Index(
            status=self.status,
            step=self.step,
            wake_at=self.wake_at,
            failure=self.failure,
            started_at=self.started_at,
            ended_at=self.ended_at,
        )


class Loaded(msgspec.Struct, frozen=True):
    """A run with its events after some seq and the acts that its driver has not taken yet, read in one snapshot."""

    run: RunRow
    events: Sequence[EventRow]
    inbox: Sequence[InboxRow]


class Claimed(msgspec.Struct, frozen=True):
    """A run that is the caller's now. `orphan`: its last owner is gone without giving it back."""

    loaded: Loaded
    orphan: bool


class IncidentRow(msgspec.Struct, frozen=True, kw_only=True):
    """An incident as it is listed. `resolution` is {action, note, by} once it is resolved.

    `key` is the idempotency key of the call in question; None if it is about no step.
    """

    id: str
    run_id: str
    workflow: str
    kind: IncidentKind
    call: Call
    step: str
    visit: int
    attempt: int
    reason: str
    actions: tuple[Action, ...]
    evidence: Json = None
    traceback: str | None = None
    key: str | None = None
    opened_at: int
    resolved_at: int | None = None
    resolution: Json = None


class ApprovalRow(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that is asked of a person. `id` is the idempotency key of the visit that waits for it.

    `by`, `not_by`: who may decide and who may not; `form`: the JSON Schema of what comes with it. `resolution` is {how,
    by, comment} once it is closed.
    """

    id: str
    run_id: str
    workflow: str
    step: str
    visit: int
    title: str = ""
    by: tuple[str, ...] = ()
    not_by: str | None = None
    form: Json = None
    opened_at: int
    due_at: int | None = None
    closed_at: int | None = None
    resolution: Json = None


class Index(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the run's row says after an append; derived from the state, never decided by the store.

    `wake_at`: when the run has work next; None = only an act from outside moves it. `release`: the owner gives it back.
    """

    status: WorkflowStatus
    step: str | None
    wake_at: int | None
    failure: str | None = None
    started_at: int | None = None
    ended_at: int | None = None
    release: bool = False


class Create(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A new run. `owner` drives it at once (fence 1) or it waits to be claimed (None, fence 0).

    `key` is unique in its `key_space`; `fingerprint` tells whether a second start with the key asks for the same.
    `root` is the id of the topmost run above a child: it goes with that one when it is removed.
    `audit` is kept with the run, in one transaction, when a person's act begins it.
    """

    run_id: str
    workflow: str
    version: int
    digest: str
    at: int
    events: tuple[tuple[str, bytes], ...]
    index: Index
    owner: str | None = None
    key: str | None = None
    key_space: str = ""
    fingerprint: str = ""
    tags: dict[str, str] = {}
    root: str | None = None
    audit: AuditEntry | None = None


class Append(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Events of one run; none of them: only the index moves, as when its owner gives it back.

    `seq`, `inbox`, `fence`: what the decision saw. `taken`: acts up to this number are done with.

    `deliveries` are what webhooks are to be told of it.

    `asked` are approvals that are open from now on, also such as have been closed before; `decided` those that are not.

    `previous` is the index as the row holds it now, so that a store can leave indexed columns alone that do not change.
    """

    rid: int
    fence: int
    seq: int
    inbox: int
    at: int
    events: tuple[tuple[str, bytes], ...]
    index: Index
    previous: Index | None = None
    taken: int = 0
    opened: tuple[IncidentRow, ...] = ()
    resolved: tuple[tuple[str, Json], ...] = ()
    evidence: tuple[tuple[str, Json], ...] = ()
    asked: tuple[ApprovalRow, ...] = ()
    decided: tuple[tuple[str, Json], ...] = ()
    deliveries: tuple[DeliveryRow, ...] = ()


class Committed(msgspec.Struct, frozen=True, gc=False):
    """Durable. `seq` is that of the last event."""

    rid: int
    seq: int


class Existing(msgspec.Struct, frozen=True):
    """The start key is taken; `run_id` is None once that run has been removed."""

    run_id: str | None
    fingerprint: str


class LeaseLost(msgspec.Struct, frozen=True):
    """Another host drives the run, or the run is gone: whatever was decided counts for nothing."""


class Stale(msgspec.Struct, frozen=True):
    """An act has arrived in the inbox: read it and decide anew."""


class Refused(msgspec.Struct, frozen=True):
    """The store cannot take this member (too large, bad text, a constraint); the others are not affected."""

    reason: str


Member: TypeAlias = Create | Append
Result: TypeAlias = Committed | Existing | LeaseLost | Stale | Refused


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """An act from outside, as the inbox keeps it. `data` is JSON text; without `audit` it was no person's act."""

    kind: str
    by: str
    data: bytes
    audit: AuditEntry | None = None


Judge: TypeAlias = Callable[[Loaded], Act | None]
"""Pure and quick: looks at the run as it is in the transaction and returns the act, or raises `Conflict`.

None: what is asked has been done already, and nothing is written.
"""


class Posted(msgspec.Struct, frozen=True):
    """The act is durable. `owner` is the host that will see it, None if the run waits to be claimed."""

    n: int
    owner: str | None


class HostRow(msgspec.Struct, frozen=True, kw_only=True):
    """A host that is alive. `served` are the (workflow, version, digest) of the definitions that it drives.

    `only` is the id of the one run that it drives, with its children, for a command that waits for it; None: all that
    are served. `lease_ms`: how long its right to drive holds after `join` and after each `renew`, where it is one that
    runs out.
    """

    host_id: str
    pid: int
    hostname: str
    started_at: int
    lease_ms: int = LEASE_MS
    served: tuple[tuple[str, int, str], ...] = ()
    only: str | None = None


class ScheduleRow(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a schedule, by its id in the config.

    `rule` is the cron line and zone that `handled` belongs to: planned instants up to it are dealt with (None: none
    ever was). `last_slot` and `last_result` say what became of the latest of them, `buffered` is the one that waits for
    the run `last_run_id` to end.
    """

    id: str
    paused: bool = False
    rule: str = ""
    handled: int | None = None
    buffered: int | None = None
    last_slot: int | None = None
    last_result: SlotResult | None = None
    last_run_id: str | None = None
    updated_at: int = 0


Amend: TypeAlias = Callable[[ScheduleRow], ScheduleRow]
"""Pure and quick: the row as it shall be, of the row as it is in the transaction; or raises `Conflict`."""


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """All that is given must hold. `since`/`until` bound `created_at` (ms, until exclusive); `incident` is a kind."""

    workflow: str | None = None
    version: int | None = None
    statuses: tuple[WorkflowStatus, ...] = ()
    tags: dict[str, str] = {}
    since: int | None = None
    until: int | None = None
    incident: IncidentKind | None = None


@runtime_checkable
class Store(Outgoing, Retaining, Protocol):
    """A store, opened once and closed once. All calls raise `StoreUnavailable` when it does not answer."""

    @property
    def profile(self) -> Profile:
        """How it wants to be used; settled once it is open."""

    async def schema(self) -> Schema:
        """What a store that is not open has for a schema. Changes nothing."""

    async def open(self, *, migrate: bool) -> None:
        """Connects. Raises `NotMigrated` when the schema is not this code's and `migrate` is false, or is newer."""

    async def close(self) -> None:
        """Finishes what was accepted and lets go; a second call does nothing."""

    async def ping(self) -> None:
        """Returns if a write could be taken now. Cheap."""

    async def survey(self) -> Survey:
        """What it is, how large, and by which clock it goes."""

    # Hosts

    async def join(self, host: HostRow) -> None:
        """Takes the right to drive. Raises `StoreBusy`, naming the holder, where only one host may.

        Where hosts share the store the right is a lease of `host.lease_ms`, by the store's own time.
        """

    async def renew(self, host_id: str) -> bool:
        """Lets the lease run from now on again; false: it has run out, and what the host owned are orphans.

        Where only one host may drive, the right does not run out while its process lives: true.
        """

    async def leave(self, host_id: str) -> None:
        """Gives the right back. Runs that `host_id` still owns are orphans from then on."""

    async def hosts(self) -> Sequence[HostRow]:
        """The hosts that are alive: their lease holds."""

    async def listen(self, hear: Hear) -> None:
        """Tells `hear` of what others have written, until it is cancelled; returns at once if the store cannot tell.

        Wake-ups may be lost with the connection: `hear(None)` comes once the store is listened to again.
        """

    # Runs, for their driver

    async def write(self, batch: Sequence[Member]) -> Sequence[Result]:
        """Commits the members in one go; one result a member, in order. See the rules above."""

    async def claim(
        self,
        owner: str,
        served: Collection[tuple[str, int]],
        *,
        now: int,
        limit: int,
        only: Collection[str] | None = None,
    ) -> Sequence[Claimed]:
        """Makes up to `limit` runs `owner`'s: due (`wake_at` ≤ now) and nobody's, or left by an owner that is gone.

        Only runs of `served`, and only those with an id of `only` if that is given; longest due first. Each claim
        raises the fence. Claims at once share the runs out. A host whose lease has run out gets none.
        """

    async def next_wake(
        self, served: Collection[tuple[str, int]], *, only: Collection[str] | None = None
    ) -> int | None:
        """When `claim` has something to find: the earliest `wake_at` of the runs that are nobody's, or 0 for an orphan.

        Of `served` (and `only`), as in `claim`; None: nothing.
        """

    async def with_acts(self, owner: str) -> Sequence[int]:
        """The rids of `owner`'s runs that have acts in their inbox."""

    async def owned(self, owner: str) -> Sequence[tuple[int, str]]:
        """The rids and run ids of `owner`'s runs."""

    async def load(self, rid: int, *, after: int = 0) -> Loaded:
        """The run with its events after seq `after` and its whole inbox. Raises `NotFound`."""

    # Acts from outside

    async def post(self, run_id: str, judge: Judge, *, at: int) -> Posted:
        """Runs `judge` on the whole run and adds its act to the inbox, with the audit row, in one transaction.

        A run that nobody owns becomes due. Raises `NotFound`, and whatever `judge` raises.
        """

    # Schedules

    async def schedules(self) -> Sequence[ScheduleRow]:
        """Every schedule that has a row, by id."""

    async def amend_schedule(
        self, schedule_id: str, amend: Amend, *, at: int, audit: AuditEntry | None = None
    ) -> ScheduleRow:
        """Replaces the row by what `amend` makes of it, with the audit row, in one transaction; returns what stands.

        A schedule without a row is amended from an empty one. When nothing changes, nothing is written; else
        `updated_at` is `at`. Raises whatever `amend` raises.
        """

    # Reading

    async def find(self, prefix: str, *, limit: int = 2) -> Sequence[RunRow]:
        """Runs whose id begins with `prefix`."""

    async def started(self, key_space: str, key: str) -> RunRow | None:
        """The run that a start key began, if it is there."""

    async def runs(self, wanted: RunFilter, *, limit: int, before: str | None = None) -> Sequence[RunRow]:
        """Newest first (by run id, a UUIDv7), older than the run id `before`."""

    async def events(self, rid: int, *, after: int, limit: int) -> Sequence[EventRow]:
        """A run's events after a seq, in order."""

    async def incidents(
        self, *, run_id: str | None = None, open_only: bool = True, limit: int, before: str | None = None
    ) -> Sequence[IncidentRow]:
        """Newest first (by id), older than the incident `before`."""

    async def open_incidents(self) -> Sequence[tuple[IncidentKind, int]]:
        """How many incidents of each kind are open."""

    async def incident(self, prefix: str) -> Sequence[IncidentRow]:
        """Incidents whose id begins with `prefix`, two at most."""

    async def approvals(
        self, *, run_id: str | None = None, open_only: bool = True, limit: int, before: str | None = None
    ) -> Sequence[ApprovalRow]:
        """Those of the newest runs first (by id), older than the approval `before`."""

    async def approval(self, prefix: str) -> Sequence[ApprovalRow]:
        """Approvals whose id begins with `prefix`, two at most: the one of just that id first, then open ones.

        Ids are keys of visits: that of a second visit begins with that of the first.
        """

    async def audit(
        self, wanted: AuditFilter = ALL, *, limit: int, before: int | None = None, after: int | None = None
    ) -> Sequence[AuditRow]:
        """Newest first, older than the row `before`; or, with `after`, oldest first, newer than that row.

        Numbers grow in the order in which rows are written; one may be missing, or become visible late.
        """

    # Access tokens

    async def tokens(self) -> Sequence[TokenRow]:
        """Every token there ever was, by id."""

    async def amend_tokens(self, amend: AmendTokens, *, at: int, audit: AuditEntry) -> TokenRow:
        """Keeps the row that `amend` makes, a new one or in place of that with its id, with the audit row.

        One transaction, and one amendment at a time. Raises whatever `amend` raises.
        """

    # Secrets

    async def secret(self, name: str) -> bytes:
        """32 random bytes that the store keeps under that name, and made when they were first asked for."""

    # Definitions

    async def save_definition(self, workflow: str, version: int, digest: str, policy: str, body: bytes) -> None:
        """Keeps a served definition, beside those of other policy with the same graph; from now on it is the last."""

    async def definition(self, workflow: str, version: int, digest: str, *, policy: str | None = None) -> bytes | None:
        """The body of that policy, or of the one that was saved last; None if there is none."""

    async def live_digests(self) -> Sequence[tuple[str, int, str, int]]:
        """(workflow, version, digest, how many) over the runs that have not ended."""
