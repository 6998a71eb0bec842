"""Rows as the port's types, and back."""

from __future__ import annotations

import sqlite3

from bext_workflow.model.json import dumps, loads
from bext_workflow.model.status import Action, Call, IncidentKind, WorkflowStatus
from bext_workflow.ports.audit import AuditRow
from bext_workflow.ports.store import ApprovalRow, EventRow, HostRow, InboxRow, IncidentRow, RunRow

_STATUSES = {status.value: status for status in WorkflowStatus}


def run_of(row: sqlite3.Row) -> RunRow:
    return RunRow(
        rid=row["rid"],
        run_id=row["run_id"],
        workflow=row["workflow"],
        version=row["version"],
        digest=row["digest"],
        status=_STATUSES[row["status"]],
        step=row["step"],
        seq=row["seq"],
        inbox=row["inbox"],
        owner=row["owner"],
        fence=row["fence"],
        wake_at=row["wake_at"],
        key=row["key"],
        tags=loads(row["tags"]),
        failure=row["failure"],
        incidents=row["incidents"],
        created_at=row["created_at"],
        started_at=row["started_at"],
        updated_at=row["updated_at"],
        ended_at=row["ended_at"],
    )


def event_of(row: sqlite3.Row) -> EventRow:
    seq, at, kind, data = row
    return EventRow(seq, at, kind, data)


def act_of(row: sqlite3.Row) -> InboxRow:
    n, at, kind, by, data = row
    return InboxRow(n, at, kind, by, data)


def incident_of(row: sqlite3.Row) -> IncidentRow:
    return IncidentRow(
        id=row["id"],
        run_id=row["run_id"],
        workflow=row["workflow"],
        kind=IncidentKind(row["kind"]),
        call=Call(row["call"]),
        step=row["step"],
        visit=row["visit"],
        attempt=row["attempt"],
        reason=row["reason"],
        actions=tuple(Action(action) for action in loads(row["actions"])),
        evidence=loads(row["evidence"]),
        traceback=row["traceback"],
        key=row["key"],
        opened_at=row["opened_at"],
        resolved_at=row["resolved_at"],
        resolution=loads(row["resolution"]),
    )


def incident_values(rid: int, incident: IncidentRow) -> tuple[object, ...]:
    """In the order of `open_incident`."""
    return (
        incident.id,
        rid,
        incident.run_id,
        incident.workflow,
        incident.kind.value,
        incident.call.value,
        incident.step,
        incident.visit,
        incident.attempt,
        incident.reason,
        dumps(list(incident.actions)).decode(),
        dumps(incident.evidence).decode(),
        incident.traceback,
        incident.key,
        incident.opened_at,
        incident.resolved_at,
        dumps(incident.resolution).decode(),
    )


def approval_of(row: sqlite3.Row) -> ApprovalRow:
    return ApprovalRow(
        id=row["id"],
        run_id=row["run_id"],
        workflow=row["workflow"],
        step=row["step"],
        visit=row["visit"],
        title=row["title"],
        by=tuple(loads(row["deciders"])),
        not_by=row["not_by"],
        form=loads(row["form"]),
        opened_at=row["opened_at"],
        due_at=row["due_at"],
        closed_at=row["closed_at"],
        resolution=loads(row["resolution"]),
    )


def approval_values(rid: int, approval: ApprovalRow) -> tuple[object, ...]:
    """In the order of `ask`."""
    return (
        approval.id,
        rid,
        approval.run_id,
        approval.workflow,
        approval.step,
        approval.visit,
        approval.title,
        dumps(list(approval.by)).decode(),
        approval.not_by,
        dumps(approval.form).decode(),
        approval.opened_at,
        approval.due_at,
        approval.closed_at,
        dumps(approval.resolution).decode(),
    )


def audit_of(row: sqlite3.Row) -> AuditRow:
    number, at, by, name, run_id, about, reason, data = row
    return AuditRow(id=number, at=at, by=by, name=name, run_id=run_id, about=about, reason=reason, data=data)


def host_of(row: sqlite3.Row) -> HostRow:
    return HostRow(
        host_id=row["host_id"],
        pid=row["pid"],
        hostname=row["hostname"],
        started_at=row["started_at"],
        served=tuple((workflow, version, digest) for workflow, version, digest in loads(row["served"])),
        only=row["only_run"],
        lease_ms=row["lease_ms"],
    )


def host_values(host: HostRow) -> tuple[object, ...]:
    """In the order of `insert_host`."""
    served = dumps(list(host.served)).decode()
    return host.host_id, host.pid, host.hostname, host.started_at, served, host.only, host.lease_ms
