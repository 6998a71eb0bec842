"""What is kept of schedules."""

from __future__ import annotations

from msgspec.structs import astuple, replace

from bext_workflow.ports.audit import AuditEntry
from bext_workflow.ports.store import Amend, ScheduleRow
from bext_workflow_pg.store import queries
from bext_workflow_pg.store.acts import audit
from bext_workflow_pg.store.connections import Connection
from bext_workflow_pg.store.rows import schedule_of

_SQL = queries.load("schedules.sql")
_LOCK = 0x62787363
"""With a hash of the schedule's id: the lock under which its row is amended, or made."""


async def schedules(connection: Connection) -> list[ScheduleRow]:
    return [schedule_of(row) for row in await connection.fetch(_SQL["schedules"])]


async def amend(
    connection: Connection, schedule_id: str, change: Amend, at: int, entry: AuditEntry | None
) -> ScheduleRow:
    await connection.fetchval(_SQL["lock_schedule"], _LOCK, schedule_id)
    row = await connection.fetchrow(_SQL["schedule"], schedule_id)
    before = ScheduleRow(id=schedule_id) if row is None else schedule_of(row)
    after = change(before)
    if after == before:
        return before
    after = replace(after, updated_at=at)
    await connection.execute(_SQL["save_schedule"], *astuple(after))
    if entry is not None:
        await audit(connection, entry, at=at)
    return after
