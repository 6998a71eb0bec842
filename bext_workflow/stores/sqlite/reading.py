"""Everything that only reads."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from msgspec.structs import asdict

from bext_workflow.errors import NotFound
from bext_workflow.model.json import dumps
from bext_workflow.model.status import LIVE, IncidentKind, WorkflowStatus
from bext_workflow.ports.audit import AuditFilter, AuditRow
from bext_workflow.ports.store import ApprovalRow, EventRow, InboxRow, IncidentRow, Loaded, RunFilter, RunRow
from bext_workflow.stores.sqlite import queries
from bext_workflow.stores.sqlite.connection import snapshot
from bext_workflow.stores.sqlite.rows import act_of, approval_of, audit_of, event_of, incident_of, run_of

_SQL = queries.load("reading.sql")
_ALL = -1
_LAST_TEXT = "\U0010ffff"
_LAST_NUMBER = 2**63 - 1
_LIVE = dumps([status.value for status in LIVE]).decode()


def load(connection: sqlite3.Connection, rid: int, after: int) -> Loaded:
    with snapshot(connection):
        row = connection.execute(_SQL["run"], (rid,)).fetchone()
        if row is None:
            raise NotFound(f"no run has the number {rid}")
        return _whole(connection, row, after)


def load_by_id(connection: sqlite3.Connection, run_id: str) -> Loaded:
    """For a caller that is in a transaction."""
    row = connection.execute(_SQL["run_by_id"], (run_id,)).fetchone()
    if row is None:
        raise NotFound(f"there is no run {run_id}")
    return _whole(connection, row, 0)


def load_all(connection: sqlite3.Connection, rids: Sequence[int]) -> list[Loaded]:
    """Whole runs, in the order of `rids`; for a caller that is in a transaction."""
    wanted = (dumps(rids).decode(),)
    events: dict[int, list[EventRow]] = {rid: [] for rid in rids}
    acts: dict[int, list[InboxRow]] = {rid: [] for rid in rids}
    for rid, *rest in connection.execute(_SQL["events_by_rids"], wanted):
        events[rid].append(EventRow(*rest))
    for rid, *rest in connection.execute(_SQL["inbox_by_rids"], wanted):
        acts[rid].append(InboxRow(*rest))
    runs = {row["rid"]: run_of(row) for row in connection.execute(_SQL["runs_by_rids"], wanted)}
    return [Loaded(runs[rid], events[rid], acts[rid]) for rid in rids]


def events(connection: sqlite3.Connection, rid: int, after: int, limit: int) -> list[EventRow]:
    return [event_of(row) for row in connection.execute(_SQL["events"], (rid, after, limit))]


def find(connection: sqlite3.Connection, prefix: str, limit: int) -> list[RunRow]:
    return [run_of(row) for row in connection.execute(_SQL["find"], {"prefix": prefix, "limit": limit})]


def started(connection: sqlite3.Connection, key_space: str, key: str) -> RunRow | None:
    row = connection.execute(_SQL["started"], (key_space, key)).fetchone()
    return None if row is None else run_of(row)


def runs(connection: sqlite3.Connection, wanted: RunFilter, limit: int, before: str | None) -> list[RunRow]:
    """A page of each status, merged: each of them is one stretch of the index."""
    given = {
        "workflow": wanted.workflow,
        "version": wanted.version,
        "since": wanted.since,
        "until": wanted.until,
        "tags": dumps(wanted.tags).decode(),
        "incident": wanted.incident and wanted.incident.value,
        "before": _LAST_TEXT if before is None else before,
        "limit": limit,
    }
    with snapshot(connection):
        found = [
            row
            for status in wanted.statuses or WorkflowStatus
            for row in connection.execute(_SQL["runs_of_status"], {**given, "status": status.value})
        ]
    found.sort(key=lambda row: str(row["run_id"]), reverse=True)
    return [run_of(row) for row in found[:limit]]


def incidents(
    connection: sqlite3.Connection, run_id: str | None, open_only: bool, limit: int, before: str | None
) -> list[IncidentRow]:
    name = "incidents_of_run" if run_id is not None else "incidents_open" if open_only else "incidents"
    given = {"run_id": run_id, "open_only": open_only, "limit": limit, "before": before or _LAST_TEXT}
    return [incident_of(row) for row in connection.execute(_SQL[name], given)]


def open_incidents(connection: sqlite3.Connection) -> list[tuple[IncidentKind, int]]:
    return [(IncidentKind(kind), count) for kind, count in connection.execute(_SQL["open_incidents"])]


def incident(connection: sqlite3.Connection, prefix: str) -> list[IncidentRow]:
    return [incident_of(row) for row in connection.execute(_SQL["incident"], {"prefix": prefix})]


def approvals(
    connection: sqlite3.Connection, run_id: str | None, open_only: bool, limit: int, before: str | None
) -> list[ApprovalRow]:
    name = "approvals_of_run" if run_id is not None else "approvals_open" if open_only else "approvals"
    given = {"run_id": run_id, "open_only": open_only, "limit": limit, "before": before or _LAST_TEXT}
    return [approval_of(row) for row in connection.execute(_SQL[name], given)]


def approval(connection: sqlite3.Connection, prefix: str) -> list[ApprovalRow]:
    return [approval_of(row) for row in connection.execute(_SQL["approval"], {"prefix": prefix})]


def audit(
    connection: sqlite3.Connection, wanted: AuditFilter, limit: int, before: int | None, after: int | None
) -> list[AuditRow]:
    kind = "audit_of_run" if wanted.run_id is not None else "audit"
    given = {
        **asdict(wanted),
        "before": _LAST_NUMBER if before is None else before,
        "after": after,
        "limit": limit,
    }
    return [audit_of(row) for row in connection.execute(_SQL[kind if after is None else f"{kind}_after"], given)]


def definition(
    connection: sqlite3.Connection, workflow: str, version: int, digest: str, policy: str | None
) -> bytes | None:
    given = {"workflow": workflow, "version": version, "digest": digest, "policy": policy}
    row = connection.execute(_SQL["definition"], given).fetchone()
    return None if row is None else row[0]


def live_digests(connection: sqlite3.Connection) -> list[tuple[str, int, str, int]]:
    return [tuple(row) for row in connection.execute(_SQL["live_digests"], (_LIVE,))]


def _whole(connection: sqlite3.Connection, row: sqlite3.Row, after: int) -> Loaded:
    rid = row["rid"]
    return Loaded(
        run_of(row),
        events(connection, rid, after, _ALL),
        [act_of(act) for act in connection.execute(_SQL["inbox"], (rid,))],
    )
