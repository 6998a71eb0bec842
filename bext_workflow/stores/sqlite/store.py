"""The port over two threads: all writes go through one, reads through the other."""

from __future__ import annotations

import asyncio
import os
import platform
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from bext_workflow.model.status import IncidentKind
from bext_workflow.ports.audit import ALL, AuditEntry, AuditFilter, AuditRow
from bext_workflow.ports.copying import KEPT, Page
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
from bext_workflow.ports.webhooks import AmendDelivery, AmendWebhooks, DeliveryFilter, DeliveryRow, WebhookRow
from bext_workflow.stores.sqlite import acts, claims, copying, reading, retention, schedules, schema, tokens, webhooks
from bext_workflow.stores.sqlite.connection import open_reader, open_writer
from bext_workflow.stores.sqlite.faults import unavailable
from bext_workflow.stores.sqlite.seat import FileSeat, MemorySeat, Seat
from bext_workflow.stores.sqlite.worker import Worker
from bext_workflow.stores.sqlite.write import beat, write

T = TypeVar("T")

_PROFILE = Profile(poll_ms=100)
"""Commands in other processes cannot wake the host, and asking costs some µs."""


class SqliteStore:
    """`Store` over one SQLite file, or, without a path, over a database in memory (one thread, one connection)."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._place = "in memory" if path is None else str(path)
        self._seat: Seat = MemorySeat() if path is None else FileSeat(path)
        self._writer = Worker("bext-sqlite-writer", self._connect)
        self._reader = self._writer if path is None else Worker("bext-sqlite-reader", partial(open_reader, path))

    @property
    def profile(self) -> Profile:
        return _PROFILE

    async def schema(self) -> Schema:
        try:
            return await asyncio.to_thread(schema.look, self.path)
        except (sqlite3.Error, OSError) as error:
            raise unavailable(error, self._place) from error

    async def open(self, *, migrate: bool) -> None:
        """The file is this program's own: its schema is brought up to date whatever `migrate` says."""
        del migrate
        try:
            await self._writer.start()
            if self._reader is not self._writer:
                await self._reader.start()
        except BaseException as error:
            await self.close()
            if isinstance(error, sqlite3.Error):
                raise unavailable(error, self._place) from error
            raise

    async def close(self) -> None:
        """The last connection to a file also moves the WAL into it: SQLite does that by itself."""
        if self._reader is not self._writer:
            await self._reader.stop()
        await self._writer.stop()
        self._seat.drop()

    async def ping(self) -> None:
        await self._write(beat)

    async def survey(self) -> Survey:
        pages, page_bytes = await self._read(_size)
        return Survey(
            engine=f"SQLite {sqlite3.sqlite_version}",
            folder=None if self.path is None else self.path.parent,
            bytes=pages * page_bytes,
        )

    # Hosts

    async def join(self, host: HostRow) -> None:
        await self._write(partial(claims.join, seat=self._seat, host=host))

    async def renew(self, host_id: str) -> bool:
        """The seat is the lease: it is the host's as long as its process lives."""
        del host_id
        return True

    async def leave(self, host_id: str) -> None:
        await self._write(partial(claims.leave, seat=self._seat, host_id=host_id))

    async def hosts(self) -> Sequence[HostRow]:
        return await self._read(partial(claims.hosts, seat=self._seat))

    async def listen(self, hear: Hear) -> None:
        """A file tells nobody of what is written: the host asks often instead."""

    # Runs, for their driver

    async def write(self, batch: Sequence[Member]) -> Sequence[Result]:
        return await self._write(partial(write, batch=batch))

    async def claim(
        self,
        owner: str,
        served: Collection[tuple[str, int]],
        *,
        now: int,
        limit: int,
        only: Collection[str] | None = None,
    ) -> Sequence[Claimed]:
        return await self._write(
            partial(claims.claim, seat=self._seat, owner=owner, served=served, now=now, limit=limit, only=only)
        )

    async def next_wake(
        self, served: Collection[tuple[str, int]], *, only: Collection[str] | None = None
    ) -> int | None:
        return await self._write(partial(claims.next_wake, seat=self._seat, served=served, only=only))

    async def with_acts(self, owner: str) -> Sequence[int]:
        return await self._write(partial(claims.with_acts, owner=owner))

    async def owned(self, owner: str) -> Sequence[tuple[int, str]]:
        return await self._write(partial(claims.owned, owner=owner))

    async def load(self, rid: int, *, after: int = 0) -> Loaded:
        return await self._read(partial(reading.load, rid=rid, after=after))

    # Acts from outside

    async def post(self, run_id: str, judge: Judge, *, at: int) -> Posted:
        return await self._write(partial(acts.post, seat=self._seat, run_id=run_id, judge=judge, at=at))

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
        await self._write(
            partial(acts.save_definition, workflow=workflow, version=version, digest=digest, policy=policy, body=body)
        )

    async def definition(self, workflow: str, version: int, digest: str, *, policy: str | None = None) -> bytes | None:
        return await self._read(
            partial(reading.definition, workflow=workflow, version=version, digest=digest, policy=policy)
        )

    async def live_digests(self) -> Sequence[tuple[str, int, str, int]]:
        return await self._read(reading.live_digests)

    # What is old, and a copy of everything

    async def prune(self, expired: Expired, *, at: int, limit: int, audit: AuditEntry | None = None) -> Pruned:
        return await self._write(partial(retention.prune, expired=expired, at=at, limit=limit, entry=audit))

    async def prunable(self, expired: Expired) -> Pruned:
        return await self._read(partial(retention.prunable, expired=expired))

    async def backup(self, to: Path) -> None:
        await self._read(partial(retention.back_up, to=to))

    # All of it

    async def dump(self) -> AsyncGenerator[Page, None]:
        async with self._seated():
            await self._read(copying.begin)
            try:
                for table in KEPT:
                    cursor = await self._read(partial(copying.rows_of, table=table))
                    while rows := await self._read(partial(copying.page_of, cursor=cursor)):
                        yield Page(table, rows)
            finally:
                await self._read(copying.roll_back)

    async def fill(self, pages: AsyncIterator[Page]) -> None:
        async with self._seated():
            try:
                await self._write(partial(copying.begin_load, place=self._place))
                async for page in pages:
                    await self._write(partial(copying.take, page=page))
                await self._write(copying.end_load)
            finally:
                await self._write(copying.roll_back)

    @asynccontextmanager
    async def _seated(self) -> AsyncIterator[None]:
        """Has the driver's seat, so that no host takes it meanwhile. Raises `StoreBusy`."""
        seat = HostRow(host_id="copy", pid=os.getpid(), hostname=platform.node(), started_at=0)
        await self.join(seat)
        try:
            yield
        finally:
            await self.leave(seat.host_id)

    def _connect(self) -> sqlite3.Connection:
        connection = open_writer(self.path)
        try:
            schema.migrate(connection, self._place)
        except BaseException:
            connection.close()
            raise
        return connection

    async def _write(self, job: Callable[[sqlite3.Connection], T]) -> T:
        return await self._call(self._writer, job)

    async def _read(self, job: Callable[[sqlite3.Connection], T]) -> T:
        return await self._call(self._reader, job)

    async def _call(self, worker: Worker, job: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return await worker.call(job)
        except (sqlite3.Error, OSError) as error:
            raise unavailable(error, self._place) from error


def _size(connection: sqlite3.Connection) -> tuple[int, int]:
    """How many pages, of how many bytes."""
    pages, page_bytes = (connection.execute(f"PRAGMA {what}").fetchone()[0] for what in ("page_count", "page_size"))
    return pages, page_bytes
