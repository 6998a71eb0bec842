"""What is kept of schedules."""

from __future__ import annotations

import sqlite3

from msgspec.structs import astuple, replace

from bext_workflow.model.schedule import SlotResult
from bext_workflow.ports.audit import AuditEntry
from bext_workflow.ports.store import Amend, ScheduleRow
from bext_workflow.stores.sqlite import queries
from bext_workflow.stores.sqlite.acts import audit
from bext_workflow.stores.sqlite.connection import writing

_SQL = queries.load("schedules.sql")


def schedules(connection: sqlite3.Connection) -> list[ScheduleRow]:
    return [_schedule_of(row) for row in connection.execute(_SQL["schedules"])]


def amend(
    connection: sqlite3.Connection, schedule_id: str, change: Amend, at: int, entry: AuditEntry | None
) -> ScheduleRow:
    with writing(connection):
        row = connection.execute(_SQL["schedule"], (schedule_id,)).fetchone()
        before = ScheduleRow(id=schedule_id) if row is None else _schedule_of(row)
        after = change(before)
        if after == before:
            return before
        after = replace(after, updated_at=at)
        connection.execute(_SQL["save_schedule"], astuple(after))
        if entry is not None:
            audit(connection, entry, at=at)
    return after


def _schedule_of(row: sqlite3.Row) -> ScheduleRow:
    return ScheduleRow(
        id=row["id"],
        paused=bool(row["paused"]),
        rule=row["rule"],
        handled=row["handled"],
        buffered=row["buffered"],
        last_slot=row["last_slot"],
        last_result=None if row["last_result"] is None else SlotResult(row["last_result"]),
        last_run_id=row["last_run_id"],
        updated_at=row["updated_at"],
    )
