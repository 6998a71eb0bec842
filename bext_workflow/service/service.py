"""The service over a store: `Runs` and `Operations`, with or without a host in this process."""

from __future__ import annotations

from bext_workflow.core.input import ActInput, Resolve, Signalled
from bext_workflow.core.state import Plan, State
from bext_workflow.core.waiting import refuse_signal
from bext_workflow.errors import Conflict, Gone, InvalidJson, NotFound, StartKeyReused, Unavailable, UsageError
from bext_workflow.model.access import Right
from bext_workflow.model.definition import WorkflowDefinition
from bext_workflow.model.event import RunCreated
from bext_workflow.model.journal import decode
from bext_workflow.model.json import EMPTY, Document, Json, detach
from bext_workflow.model.names import NAME_RULE, is_name
from bext_workflow.model.run import newest_first
from bext_workflow.model.status import Action
from bext_workflow.model.view import EventView, IncidentView, Page, RunView, WhyView
from bext_workflow.model.wait import MAX_SIGNAL_BYTES
from bext_workflow.ports.audit import AuditEntry
from bext_workflow.ports.clock import Chance, Clock
from bext_workflow.ports.store import (
    Committed,
    Existing,
    IncidentRow,
    Loaded,
    Posted,
    Refused,
    RunFilter,
    RunRow,
    Store,
)
from bext_workflow.service import views
from bext_workflow.service.acting import Build, folded, foreseen, judge_of
from bext_workflow.service.builds import Certain, cancel_of, pause_of, reopen_of, resume_of
from bext_workflow.service.caller import Who
from bext_workflow.service.catalog import Catalog
from bext_workflow.service.definitions import Definitions
from bext_workflow.service.engine import Engine, stands_still
from bext_workflow.service.forking import check_fork, forked_run, forks_space, position, refuse_live, refuse_other_fork
from bext_workflow.service.paging import checked_cursor, checked_instant, checked_limit, page_of
from bext_workflow.service.payloads import check_payload
from bext_workflow.service.protocols import (
    DEFAULT_LIMIT,
    Acknowledged,
    CancelPlan,
    CancelRequest,
    ForkRequest,
    ResolveRequest,
    RetryRequest,
    RunQuery,
    SignalRequest,
    Started,
    StartRequest,
)
from bext_workflow.service.sight import Sight
from bext_workflow.service.starting import NewRun, callers_space, fingerprint_of
from bext_workflow.service.steps import Journal
from bext_workflow.service.why import why

MAX_KEY = 200
MAX_TAGS = 50

_POLL_MS = 50


class Service:
    """What a person or a program may ask. `who` tells who is asking."""

    def __init__(
        self,
        *,
        store: Store,
        engine: Engine,
        catalog: Catalog,
        clock: Clock,
        chance: Chance,
        context_bytes: int,
        who: Who,
    ) -> None:
        self._store = store
        self._engine = engine
        self._definitions = Definitions(store, catalog, engine)
        self._clock = clock
        self._chance = chance
        self._context_bytes = context_bytes
        self._who = who

    # Runs

    async def start(self, request: StartRequest) -> Started:
        self._who().require(Right.START, request.workflow)
        return await self.start_in(callers_space(request.workflow), request)

    async def start_in(self, key_space: str, request: StartRequest, *, audit: AuditEntry | None = None) -> Started:
        """A start whose key is in another space than the callers' (semantics §6), or that the audit remembers."""
        definition = await self._definitions.to_start(request.workflow, request.version)
        context = detach(request.context, max_bytes=self._context_bytes, what="the context")
        _check_labels(request)
        await self._definitions.keep(definition)
        created = RunCreated(
            run_id=self._chance.new_id(),
            workflow=definition.id,
            version=definition.version,
            digest=definition.digest,
            context=context if context.value else EMPTY,
            tags=request.tags,
            key=request.key,
            by=self._who().by,
            children=await self._definitions.children_of(definition),
            policy=definition.policy,
        )
        new = NewRun(
            created=created,
            first_step=definition.first,
            at=self._clock.now(),
            fingerprint=fingerprint_of(context.value, request.tags),
            key_space=key_space,
            audit=audit,
        )
        return await self._started(new)

    async def get(self, run_id: str) -> RunView:
        row = await self.find(run_id)
        plan, loaded = await self._load(row)
        journal = _journal(loaded)
        return views.whole(loaded.run, folded(plan, loaded), journal, loaded.inbox)

    async def list(self, query: RunQuery) -> Page[RunView]:
        limit = checked_limit(query.limit)
        wanted = RunFilter(
            workflow=query.workflow,
            version=query.version,
            statuses=query.status,
            tags=query.tags,
            since=checked_instant(query.since, "since"),
            until=checked_instant(query.until, "until"),
            incident=query.incident,
        )
        rows = await self._store.runs(wanted, limit=limit + 1, before=checked_cursor(query.cursor))
        return page_of([views.summary(row) for row in rows], limit, lambda run: run.run_id)

    async def events(self, run_id: str, *, after: int = 0, limit: int = DEFAULT_LIMIT) -> Page[EventView]:
        bound = checked_limit(limit)
        row = await self.find(run_id)
        rows = await self._store.events(row.rid, after=after, limit=bound + 1)
        return page_of([views.event_view(event) for event in rows], bound, lambda event: str(event.seq))

    async def result(self, run_id: str, *, wait_ms: int = 0) -> RunView:
        row = await self.find(run_id)
        left_ms = wait_ms
        while stands_still(row.status) and left_ms > 0 and await self._acts_wait(row):
            await self._clock.sleep(min(left_ms, _POLL_MS))
            left_ms -= _POLL_MS
            row = await self.find(row.run_id)
        if not stands_still(row.status) and left_ms > 0:
            await self._engine.settled(row.run_id, wait_ms=left_ms)
        return await self.get(row.run_id)

    async def why(self, run_id: str) -> WhyView:
        row = await self.find(run_id)
        plan, loaded = await self._load(row)
        hosts = {host.host_id for host in await self._store.hosts()}
        sight = Sight(
            state=folded(plan, loaded),
            journal=_journal(loaded),
            driven=loaded.run.owner in hosts,
            now=self._clock.now(),
        )
        return why(sight, inbox=loaded.inbox, served=await self._engine.served())

    # Operations

    async def cancel(self, run_id: str, request: CancelRequest) -> Acknowledged:
        row, by = await self.find(run_id), self._who().by
        return await self.act_on(row, cancel_of(request, by), reason=request.reason, act="cancel")

    async def plan_cancel(self, run_id: str, request: CancelRequest) -> CancelPlan:
        row, by = await self.find(run_id), self._who().by
        after = await self.foresee(row, cancel_of(request, by))
        steps = after.plan.definition.by_name
        done = [entry.step for entry in newest_first(after.pending) if not steps[entry.step].waits]
        return CancelPlan(
            run_id=row.run_id,
            status=row.status,
            undo=done if request.compensate else [],
            left_in_place=[] if request.compensate else done[::-1],
            note="a step that is running now goes on to its end first, and is undone too if it completes",
        )

    async def retry(self, run_id: str, request: RetryRequest) -> Acknowledged:
        row, by = await self.find(run_id), self._who().by
        return await self.act_on(row, reopen_of(request, by), reason=request.reason, act="retry")

    async def fork(self, run_id: str, request: ForkRequest) -> Started:
        check_fork(request)
        _check_key(request.key)
        row = await self.find(run_id)
        if request.key is not None:
            known = await self._store.started(forks_space(row.run_id), request.key)
            if known is not None:
                return await self._forked_before(known, request)
        refuse_live(row)
        await self._definitions.refuse_other_graph(row.workflow, row.version, row.digest)
        plan, loaded = await self._load(row)
        journal = _journal(loaded)
        state = position(plan, journal, request)
        new_id, now = self._chance.new_id(), self._clock.now()
        return await self._started(forked_run(state, run_id=new_id, at=now, by=self._who().by, request=request))

    async def signal(self, run_id: str, request: SignalRequest) -> Acknowledged:
        row, caller = await self.find(run_id), self._who()
        caller.require(Right.SIGNAL, row.workflow)
        _check_signal(request)

        def build(state: State, act: int) -> ActInput | None:
            if request.id is not None and request.id in state.signal_ids:
                return None
            refuse_signal(state)
            _check_asked(state, request)
            at = self._clock.now()
            return Signalled(act=act, by=caller.by, at=at, name=request.name, payload=request.payload, id=request.id)

        return await self.act_on(row, build, reason="", act="signal")

    async def pause(self, run_id: str, reason: str) -> Acknowledged:
        row, by = await self.find(run_id), self._who().by
        return await self.act_on(row, pause_of(reason, by), reason=reason, act="pause")

    async def resume(self, run_id: str, reason: str) -> Acknowledged:
        row, by = await self.find(run_id), self._who().by
        return await self.act_on(row, resume_of(reason, by), reason=reason, act="resume")

    async def incidents(
        self,
        *,
        run_id: str | None = None,
        open_only: bool = True,
        limit: int = DEFAULT_LIMIT,
        cursor: str | None = None,
    ) -> Page[IncidentView]:
        bound = checked_limit(limit)
        whole_id = (await self.find(run_id)).run_id if run_id is not None else None
        rows = await self._store.incidents(
            run_id=whole_id, open_only=open_only, limit=bound + 1, before=checked_cursor(cursor)
        )
        return page_of([views.incident_view(row) for row in rows], bound, lambda incident: incident.id)

    async def incident(self, incident_id: str) -> IncidentView:
        return views.incident_view(await self._find_incident(incident_id))

    async def resolve(self, incident_id: str, request: ResolveRequest) -> Acknowledged:
        incident = await self._find_incident(incident_id)
        _check_answer(request)
        updates = detach(request.context_updates, max_bytes=self._context_bytes, what="context_updates")
        undo_data = self._undo_data(request.undo_data)
        row, by = await self.find(incident.run_id), self._who().by

        def build(state: State, act: int) -> ActInput:
            return Resolve(
                act=act,
                by=by,
                incident=incident.id,
                action=request.action,
                note=request.note,
                updates=updates,
                next=request.next,
                undo_data=undo_data,
            )

        if incident.resolved_at is not None:
            raise Conflict(f"incident {incident.id} has been resolved already", mend="look at the run again")
        return await self.act_on(row, build, reason=request.note, act="resolve")

    # How

    async def _started(self, new: NewRun) -> Started:
        written, result = await self._engine.create(new)
        driven = await self._engine.served() is not None
        match result:
            case Committed():
                return Started(run=views.just_created(written), created=True, driven=driven)
            case Existing(run_id=None):
                raise Gone(
                    f"the start key {new.created.key!r} belongs to a run that has been removed",
                    mend="use a new key for a new run",
                )
            case Existing(run_id=str(run_id), fingerprint=fingerprint):
                if fingerprint != new.fingerprint:
                    raise StartKeyReused(
                        f"the start key {new.created.key!r} was used for run {run_id} with another context or tags",
                        mend="use a new key for a new run, or the same context and tags",
                    )
                return Started(run=await self.get(run_id), created=False, driven=driven)
            case Refused(reason=reason):
                raise InvalidJson(f"the store refused the start: {reason}")
            case _:
                raise Unavailable(f"the store answered a start with {type(result).__name__}")

    async def _forked_before(self, known: RunRow, request: ForkRequest) -> Started:
        _, loaded = await self._load(known)
        refuse_other_fork(_journal(loaded), request)
        driven = await self._engine.served() is not None
        return Started(run=await self.get(known.run_id), created=False, driven=driven)

    async def act_on(self, row: RunRow, build: Build, *, reason: str, act: str, by: str | None = None) -> Acknowledged:
        """Posts an act, of who is asking unless it is `by` another, judged against the run as it is.

        Raises what `build` and the core's rules raise.
        """
        plan = Plan(definition=await self._definition_of(row))
        now = self._clock.now()
        judge = judge_of(plan, build, by=by or self._who().by, reason=reason, now=now)
        posted: Posted = await self._store.post(row.run_id, judge, at=now)
        self._engine.wake()
        driven = posted.owner is not None or await self._engine.served() is not None
        return Acknowledged(run_id=row.run_id, act=act, driven=driven)

    async def _acts_wait(self, row: RunRow) -> bool:
        """Whether a host is yet to take an act of this run: then the run need not stay as it stands."""
        return bool((await self._store.load(row.rid, after=row.seq)).inbox) and await self._engine.served() is not None

    async def foresee(self, row: RunRow, build: Certain) -> State:
        """The run as it would be with that act. Raises what `act_on` would raise, and changes nothing."""
        plan, loaded = await self._load(row)
        return foreseen(plan, loaded, build, now=self._clock.now()).state

    async def _definition_of(self, row: RunRow) -> WorkflowDefinition:
        return await self._definitions.kept(row.workflow, row.version, row.digest)

    async def _load(self, row: RunRow) -> tuple[Plan, Loaded]:
        return Plan(definition=await self._definition_of(row)), await self._store.load(row.rid)

    async def find(self, prefix: str) -> RunRow:
        """The one run whose id begins so. Raises `NotFound`, `Conflict`."""
        found = await self._store.find(prefix) if prefix else []
        if not found:
            raise NotFound(f"no run {prefix!r}", mend="`runs list` shows the runs")
        if len(found) > 1 and found[0].run_id != prefix:
            raise Conflict(f"more than one run begins with {prefix!r}", mend="give more of the id")
        return found[0]

    async def _find_incident(self, prefix: str) -> IncidentRow:
        found = await self._store.incident(prefix) if prefix else []
        if not found:
            raise NotFound(f"no incident {prefix!r}", mend="`incidents list` shows the open ones")
        if len(found) > 1:
            raise Conflict(f"more than one incident begins with {prefix!r}", mend="give more of the id")
        return found[0]

    def _undo_data(self, value: Json) -> Json:
        held: Document = detach({"undo_data": value}, max_bytes=self._context_bytes, what="undo_data")
        return held.value["undo_data"]


def _journal(loaded: Loaded) -> Journal:
    return [(decode(event.kind, event.data), event.at) for event in loaded.events]


def _check_answer(request: ResolveRequest) -> None:
    if not request.note.strip():
        raise UsageError("an answer needs a note", mend="say in a few words why you decided so")
    brings = request.context_updates or request.next is not None or request.undo_data is not None
    if brings and request.action is not Action.DONE:
        raise UsageError(
            f"context updates, next and undo data belong to the answer done, not to {request.action}",
            mend="drop them, or answer done",
        )


def _check_key(key: str | None) -> None:
    if key is not None and not 1 <= len(key) <= MAX_KEY:
        raise UsageError(f"the start key has {len(key)} characters", mend=f"use 1 to {MAX_KEY}")


def _check_labels(request: StartRequest) -> None:
    _check_key(request.key)
    if len(request.tags) > MAX_TAGS:
        raise UsageError(f"{len(request.tags)} tags", mend=f"use at most {MAX_TAGS}")
    labels = {"key": request.key or "", "tags": request.tags}
    detach(labels, max_bytes=65_536, what="key and tags")


def _check_signal(request: SignalRequest) -> None:
    if not is_name(request.name):
        raise UsageError(f"{request.name!r} cannot name a signal", mend=f"use {NAME_RULE}")
    detach({"payload": request.payload, "id": request.id}, max_bytes=MAX_SIGNAL_BYTES, what="the payload")


def _check_asked(state: State, request: SignalRequest) -> None:
    """What the workflow declares of the waits for that signal holds for its payload (semantics §9)."""
    asked = state.plan.definition.asked.get(request.name)
    if asked is None:
        return
    if asked.approval is not None:
        raise Conflict(
            f"{request.name!r} is a decision, and no signal",
            mend="`approvals approve` or `approvals reject` it",
        )
    check_payload(asked.schema, request.payload, at="$.payload")
