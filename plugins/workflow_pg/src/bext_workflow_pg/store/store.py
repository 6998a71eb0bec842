"""The port over two sets of connections: one for the groups of commits, one for everything else."""

from __future__ import annotations

import shlex
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import asyncpg
import msgspec

from bext_workflow.errors import ConfigError, StoreUnavailable, UsageError
from bext_workflow.model.status import IncidentKind
from bext_workflow.ports.audit import ALL, AuditEntry, AuditFilter, AuditRow
from bext_workflow.ports.copying import Page
from bext_workflow.ports.hosting import Hear, Profile, Schema, Survey
from bext_workflow.ports.retention import Expired, Pruned
from bext_workflow.ports.store import (
    Amend,
    ApprovalRow,
    Claimed,
    EventRow,
    HostRow,
    IncidentRow,
    Judge,
    Loaded,
    Member,
    Posted,
    Result,
    RunFilter,
    RunRow,
    ScheduleRow,
)
from bext_workflow.ports.tokens import AmendTokens, TokenRow
from bext_workflow.ports.transactional import StepTransaction
from bext_workflow.ports.webhooks import AmendDelivery, AmendWebhooks, DeliveryFilter, DeliveryRow, WebhookRow
from bext_workflow_pg.store import acts, claims, copying, place, reading, retention, schedules, schema, tokens, webhooks
from bext_workflow_pg.store.claims import Taken
from bext_workflow_pg.store.connections import Connection, Lending, Terms, connect, in_transaction, lend
from bext_workflow_pg.store.faults import STORE_FAULTS, unavailable
from bext_workflow_pg.store.schema import Surroundings
from bext_workflow_pg.store.stepping import PostgresStepTransaction
from bext_workflow_pg.store.wakeups import Wakeups
from bext_workflow_pg.store.write import beat, write

T = TypeVar("T")

WRITERS = 2
STEPS = 16
_OTHERS = 6

_WOKEN = Profile(poll_ms=5_000, writers=WRITERS, shared=True)
_UNTOLD = Profile(poll_ms=1_000, writers=WRITERS, shared=True)
"""Through a pooler of sessions no wake-up arrives."""


class _Open(msgspec.Struct, frozen=True):
    """What an open store works with."""

    commits: Lending
    others: Lending
    steps: Lending
    wakeups: Wakeups
    terms: Terms


class PostgresStore:
    """`Store` over one schema of a PostgreSQL database: that which the URL's `search_path` leads to."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._place = place.shown(url)
        self._open: _Open | None = None
        self._unclear: tuple[Taken, ...] = ()
        """Claimed, if the COMMIT went through whose answer was lost."""

    @property
    def profile(self) -> Profile:
        return _UNTOLD if self._open is not None and self._open.terms.pooled else _WOKEN

    async def schema(self) -> Schema:
        return Schema((await self._look_around(migrate=False)).found, schema.LATEST)

    async def open(self, *, migrate: bool) -> None:
        around = await self._look_around(migrate=migrate)
        schema.refuse_other(around.found, self._place)
        self._open = _Open(
            commits=await lend(self._url, around.terms, most=WRITERS),
            others=await lend(self._url, around.terms, most=_OTHERS),
            steps=await lend(self._url, around.terms, most=STEPS, for_steps=True),
            wakeups=Wakeups(around.channel),
            terms=around.terms,
        )

    async def close(self) -> None:
        now, self._open = self._open, None
        if now is not None:
            await now.commits.close()
            await now.others.close()
            await now.steps.close()

    async def ping(self) -> None:
        await self._write(beat)

    async def survey(self) -> Survey:
        return await self._read(partial(schema.survey, pooled=self._at_work().terms.pooled))

    # Hosts

    async def join(self, host: HostRow) -> None:
        await self._write(partial(claims.join, host=host))

    async def renew(self, host_id: str) -> bool:
        return await self._write(partial(claims.renew, host_id=host_id))

    async def leave(self, host_id: str) -> None:
        await self._write(partial(claims.leave, host_id=host_id))

    async def hosts(self) -> Sequence[HostRow]:
        return await self._read(claims.hosts)

    async def listen(self, hear: Hear) -> None:
        now = self._at_work()
        if not now.terms.pooled:
            await now.wakeups.listen(self._url, hear)

    # Runs, for their driver

    async def write(self, batch: Sequence[Member]) -> Sequence[Result]:
        now = self._at_work()
        with self._told():
            return await write(now.commits, now.wakeups, batch)

    @property
    def step_transactions(self) -> int:
        return STEPS

    async def begin(self, *, timeout_ms: int) -> StepTransaction:
        now = self._at_work()
        lent = AsyncExitStack()
        with self._told():
            connection = await lent.enter_async_context(now.steps.lent())
            transaction = PostgresStepTransaction(connection, lent, now.others, now.wakeups, self._place)
            try:
                await transaction.begin(now.terms.synchronous_commit, timeout_ms)
            except BaseException:
                connection.terminate()
                await lent.aclose()
                raise
        return transaction

    async def claim(
        self,
        owner: str,
        served: Collection[tuple[str, int]],
        *,
        now: int,
        limit: int,
        only: Collection[str] | None = None,
    ) -> Sequence[Claimed]:
        """What an earlier claim may have taken without an answer comes first: nobody else drives it."""
        if self._unclear:
            return await self._settle(owner)
        taken: list[Taken] = []

        async def take(connection: Connection) -> Sequence[Claimed]:
            taken.extend(await claims.take(connection, owner, served, now, limit, only))
            return await claims.whole(connection, taken)

        try:
            return await self._write(take)
        except BaseException:
            self._unclear += tuple(taken)
            raise

    async def _settle(self, owner: str) -> Sequence[Claimed]:
        unclear, self._unclear = self._unclear, ()

        async def look(connection: Connection) -> Sequence[Claimed]:
            return await claims.whole(connection, await claims.still_taken(connection, owner, unclear))

        try:
            return await self._write(look)
        except BaseException:
            self._unclear += unclear
            raise

    async def next_wake(
        self, served: Collection[tuple[str, int]], *, only: Collection[str] | None = None
    ) -> int | None:
        if self._unclear:
            return 0
        return await self._read(partial(claims.next_wake, served=served, only=only))

    async def with_acts(self, owner: str) -> Sequence[int]:
        return await self._read(partial(claims.with_acts, owner=owner))

    async def owned(self, owner: str) -> Sequence[tuple[int, str]]:
        return await self._read(partial(claims.owned, owner=owner))

    async def load(self, rid: int, *, after: int = 0) -> Loaded:
        return await self._read(partial(reading.load, rid=rid, after=after))

    # Acts from outside

    async def post(self, run_id: str, judge: Judge, *, at: int) -> Posted:
        wakeups = self._at_work().wakeups
        return await self._write(partial(acts.post, wakeups=wakeups, run_id=run_id, judge=judge, at=at))

    # Schedules

    async def schedules(self) -> Sequence[ScheduleRow]:
        return await self._read(schedules.schedules)

    async def amend_schedule(
        self, schedule_id: str, amend: Amend, *, at: int, audit: AuditEntry | None = None
    ) -> ScheduleRow:
        return await self._write(partial(schedules.amend, schedule_id=schedule_id, change=amend, at=at, entry=audit))

    # Reading

    async def find(self, prefix: str, *, limit: int = 2) -> Sequence[RunRow]:
        return await self._read(partial(reading.find, prefix=prefix, limit=limit))

    async def started(self, key_space: str, key: str) -> RunRow | None:
        return await self._read(partial(reading.started, key_space=key_space, key=key))

    async def runs(self, wanted: RunFilter, *, limit: int, before: str | None = None) -> Sequence[RunRow]:
        return await self._read(partial(reading.runs, wanted=wanted, limit=limit, before=before))

    async def events(self, rid: int, *, after: int, limit: int) -> Sequence[EventRow]:
        return await self._read(partial(reading.events, rid=rid, after=after, limit=limit))

    async def incidents(
        self, *, run_id: str | None = None, open_only: bool = True, limit: int, before: str | None = None
    ) -> Sequence[IncidentRow]:
        return await self._read(
            partial(reading.incidents, run_id=run_id, open_only=open_only, limit=limit, before=before)
        )

    async def open_incidents(self) -> Sequence[tuple[IncidentKind, int]]:
        return await self._read(reading.open_incidents)

    async def incident(self, prefix: str) -> Sequence[IncidentRow]:
        return await self._read(partial(reading.incident, prefix=prefix))

    async def approvals(
        self, *, run_id: str | None = None, open_only: bool = True, limit: int, before: str | None = None
    ) -> Sequence[ApprovalRow]:
        return await self._read(
            partial(reading.approvals, run_id=run_id, open_only=open_only, limit=limit, before=before)
        )

    async def approval(self, prefix: str) -> Sequence[ApprovalRow]:
        return await self._read(partial(reading.approval, prefix=prefix))

    async def audit(
        self, wanted: AuditFilter = ALL, *, limit: int, before: int | None = None, after: int | None = None
    ) -> Sequence[AuditRow]:
        return await self._read(partial(reading.audit, wanted=wanted, limit=limit, before=before, after=after))

    # Access tokens

    async def tokens(self) -> Sequence[TokenRow]:
        return await self._read(tokens.tokens)

    async def amend_tokens(self, amend: AmendTokens, *, at: int, audit: AuditEntry) -> TokenRow:
        return await self._write(partial(tokens.amend, change=amend, at=at, entry=audit))

    # Outside

    async def webhooks(self) -> Sequence[WebhookRow]:
        return await self._read(webhooks.webhooks)

    async def amend_webhooks(self, amend: AmendWebhooks, *, at: int, audit: AuditEntry) -> WebhookRow:
        return await self._write(partial(webhooks.amend_webhooks, change=amend, at=at, entry=audit))

    async def deliveries(
        self, wanted: DeliveryFilter, *, limit: int, before: str | None = None
    ) -> Sequence[DeliveryRow]:
        return await self._read(partial(webhooks.deliveries, wanted=wanted, limit=limit, before=before))

    async def take_deliveries(self, *, now: int, until: int, limit: int) -> Sequence[DeliveryRow]:
        return await self._write(partial(webhooks.take, now=now, until=until, limit=limit))

    async def amend_delivery(
        self, delivery_id: str, amend: AmendDelivery, *, at: int, audit: AuditEntry | None = None
    ) -> DeliveryRow:
        return await self._write(
            partial(webhooks.amend_delivery, delivery_id=delivery_id, change=amend, at=at, entry=audit)
        )

    async def prune_deliveries(self, *, before: int, limit: int) -> int:
        return await self._write(partial(webhooks.prune, before=before, limit=limit))

    # Secrets

    async def secret(self, name: str) -> bytes:
        return await self._write(partial(acts.secret, name=name))

    # Definitions

    async def save_definition(self, workflow: str, version: int, digest: str, policy: str, body: bytes) -> None:
        save = partial(acts.save_definition, workflow=workflow, version=version, digest=digest)
        await self._write(partial(save, policy=policy, body=body))

    async def definition(self, workflow: str, version: int, digest: str, *, policy: str | None = None) -> bytes | None:
        wanted = partial(reading.definition, workflow=workflow, version=version, digest=digest, policy=policy)
        return await self._read(wanted)

    async def live_digests(self) -> Sequence[tuple[str, int, str, int]]:
        return await self._read(reading.live_digests)

    # What is old, and a copy of everything

    async def prune(self, expired: Expired, *, at: int, limit: int, audit: AuditEntry | None = None) -> Pruned:
        return await self._write(partial(retention.prune, expired=expired, at=at, limit=limit, entry=audit))

    async def prunable(self, expired: Expired) -> Pruned:
        return await self._read(partial(retention.prunable, expired=expired))

    async def backup(self, to: Path) -> None:
        raise UsageError(
            f"the store {self._place} is copied by PostgreSQL's own tools",
            mend=f'run pg_dump --format=custom --file={shlex.quote(str(to))} "$DATABASE_URL", where that is its URL',
        )

    # All of it

    async def dump(self) -> AsyncGenerator[Page, None]:
        async with self._own_connection() as connection, aclosing(copying.dump(connection)) as pages:
            async for page in pages:
                yield page

    async def fill(self, pages: AsyncIterator[Page]) -> None:
        terms = self._at_work().terms
        take = partial(copying.fill, pages=pages, place=self._place)
        async with self._own_connection() as connection:
            await in_transaction(connection, terms.begin_long, take)

    @asynccontextmanager
    async def _own_connection(self) -> AsyncIterator[asyncpg.Connection]:
        with self._told():
            connection = await connect(self._url)
            try:
                yield connection
            finally:
                connection.terminate()

    async def _look_around(self, *, migrate: bool) -> Surroundings:
        """Looks at the server and the schema, and brings that up to date if it is told to."""
        with self._told():
            try:
                connection = await connect(self._url)
            except ValueError:
                raise ConfigError(
                    f"the URL {self._place!r} names no database",
                    path="host.store",
                    mend="write postgresql://USER@HOST:PORT/DATABASE, special characters of a password as %XX",
                ) from None  # the driver quotes what it cannot read, which may be a part of the password
            try:
                around = await schema.look_around(connection, self._place)
                if migrate:
                    around = await schema.migrate(connection, around)
            finally:
                connection.terminate()
        return around

    async def _write(self, job: Callable[[Connection], Awaitable[T]]) -> T:
        with self._told():
            return await self._at_work().others.write(job)

    async def _read(self, job: Callable[[Connection], Awaitable[T]]) -> T:
        with self._told():
            return await self._at_work().others.read(job)

    def _at_work(self) -> _Open:
        if self._open is None:
            raise StoreUnavailable("the store is closed")
        return self._open

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Whatever the database or the way there says is said to the caller in the port's words."""
        try:
            yield
        except STORE_FAULTS as error:
            raise unavailable(error, self._place) from error
