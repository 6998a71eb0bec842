"""Everything that only reads: one statement each, so that it sees one moment."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg
from msgspec.structs import astuple

from bext_workflow.errors import NotFound
from bext_workflow.model.json import dumps
from bext_workflow.model.status import LIVE, IncidentKind, WorkflowStatus
from bext_workflow.ports.audit import AuditFilter, AuditRow
from bext_workflow.ports.store import ApprovalRow, EventRow, IncidentRow, Loaded, RunFilter, RunRow
from bext_workflow_pg.store import queries
from bext_workflow_pg.store.connections import Connection
from bext_workflow_pg.store.rows import approval_of, audit_of, incident_of, loaded_of, run_of

_SQL = queries.load("reading.sql")
_LAST_TEXT = "\U0010ffff"
_LAST_NUMBER = 2**63 - 1
_LIVE = [status.value for status in LIVE]


async def load(connection: Connection, rid: int, after: int) -> Loaded:
    row = await connection.fetchrow(_SQL["load"], [rid], after)
    if row is None:
        raise NotFound(f"no run has the number {rid}")
    return loaded_of(row)


async def load_all(connection: Connection, rids: Sequence[int]) -> list[Loaded]:
    """Whole runs, in the order of `rids`."""
    found = {row["rid"]: loaded_of(row) for row in await connection.fetch(_SQL["load"], rids, 0)}
    return [found[rid] for rid in rids]


async def events(connection: Connection, rid: int, after: int, limit: int) -> list[EventRow]:
    return [EventRow(*row) for row in await connection.fetch(_SQL["events"], rid, after, limit)]


async def find(connection: Connection, prefix: str, limit: int) -> list[RunRow]:
    return [run_of(row) for row in await connection.fetch(_SQL["find"], prefix, limit)]


async def started(connection: Connection, key_space: str, key: str) -> RunRow | None:
    row = await connection.fetchrow(_SQL["started"], key_space, key)
    return None if row is None else run_of(row)


async def runs(connection: Connection, wanted: RunFilter, limit: int, before: str | None) -> list[RunRow]:
    rows = await connection.fetch(
        _SQL["runs"],
        [status.value for status in wanted.statuses or WorkflowStatus],
        _LAST_TEXT if before is None else before,
        limit,
        wanted.workflow,
        wanted.version,
        wanted.since,
        wanted.until,
        dumps(wanted.tags).decode(),
        wanted.incident and wanted.incident.value,
    )
    return [run_of(row) for row in rows]


async def incidents(
    connection: Connection, run_id: str | None, open_only: bool, limit: int, before: str | None
) -> list[IncidentRow]:
    rows = await _page(connection, "incidents", run_id, open_only, limit, before)
    return [incident_of(row) for row in rows]


async def open_incidents(connection: Connection) -> list[tuple[IncidentKind, int]]:
    return [(IncidentKind(kind), count) for kind, count in await connection.fetch(_SQL["open_incidents"])]


async def incident(connection: Connection, prefix: str) -> list[IncidentRow]:
    return [incident_of(row) for row in await connection.fetch(_SQL["incident"], prefix)]


async def approvals(
    connection: Connection, run_id: str | None, open_only: bool, limit: int, before: str | None
) -> list[ApprovalRow]:
    rows = await _page(connection, "approvals", run_id, open_only, limit, before)
    return [approval_of(row) for row in rows]


async def approval(connection: Connection, prefix: str) -> list[ApprovalRow]:
    return [approval_of(row) for row in await connection.fetch(_SQL["approval"], prefix)]


async def audit(
    connection: Connection, wanted: AuditFilter, limit: int, before: int | None, after: int | None
) -> list[AuditRow]:
    kind = "audit_of_run" if wanted.run_id is not None else "audit"
    rows = await connection.fetch(
        _SQL[kind if after is None else f"{kind}_after"],
        (_LAST_NUMBER if before is None else before) if after is None else after,
        limit,
        *astuple(wanted),
    )
    return [audit_of(row) for row in rows]


async def definition(
    connection: Connection, workflow: str, version: int, digest: str, policy: str | None
) -> bytes | None:
    body: bytes | None = await connection.fetchval(_SQL["definition"], workflow, version, digest, policy)
    return body


async def live_digests(connection: Connection) -> list[tuple[str, int, str, int]]:
    rows = await connection.fetch(_SQL["live_digests"], _LIVE)
    return [(workflow, version, digest, count) for workflow, version, digest, count in rows]


async def _page(
    connection: Connection, what: str, run_id: str | None, open_only: bool, limit: int, before: str | None
) -> list[asyncpg.Record]:
    """Of a thing that is open or not, of all runs or of one."""
    page = (before or _LAST_TEXT, limit)
    if run_id is not None:
        return await connection.fetch(_SQL[f"{what}_of_run"], *page, run_id, open_only)
    return await connection.fetch(_SQL[f"{what}_open" if open_only else what], *page)
