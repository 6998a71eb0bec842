"""Why members of a batch did not hold: read once, for all of them."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

from bext_workflow.ports.store import Append, Committed, Create, Existing, LeaseLost, Member, Refused, Result, Stale
from bext_workflow_pg.store import queries
from bext_workflow_pg.store.connections import Connection

_SQL = queries.load("verdict.sql")
_HELD_BACK = "the store did not take it, and nothing stands in its way"


async def why_not_created(connection: Connection, creates: Sequence[Create], reason: str = "") -> list[Result]:
    """`reason` is what the database said, if it said anything."""
    rows = await connection.fetch(
        _SQL["begun"],
        [create.run_id for create in creates],
        [create.key_space for create in creates],
        [create.key for create in creates],
        [len(create.events) for create in creates],
    )
    return [_of_create(row, create, reason) for row, create in zip(rows, creates, strict=True)]


async def why_not_appended(connection: Connection, appends: Sequence[Append], reason: str = "") -> list[Result]:
    """`reason` is what the database said, if it said anything."""
    rows = await connection.fetch(
        _SQL["standing"],
        [append.rid for append in appends],
        [append.seq for append in appends],
        [append.seq + len(append.events) for append in appends],
    )
    return [_of_append(row, append, reason) for row, append in zip(rows, appends, strict=True)]


def _of_create(row: asyncpg.Record, create: Create, reason: str) -> Result:
    if row["rid"] is not None:
        # Ours, if an earlier COMMIT went through and its answer was lost (P6).
        ours = _holds(row, create)
        return Committed(row["rid"], len(create.events)) if ours else Refused(f"there is a run {create.run_id} already")
    if row["run_id"] is not None:
        return Existing(row["run_id"] if row["removed_at"] is None else None, row["fingerprint"])
    return Refused(reason or _HELD_BACK)


def _of_append(row: asyncpg.Record, append: Append, reason: str) -> Result:
    if row["rid"] is None:
        return LeaseLost()
    given_back = row["owner"] is None
    fenced_off = row["fence"] != append.fence
    if _was_committed(row, append) and (append.index.release or not fenced_off):
        return Committed(append.rid, append.seq + len(append.events))
    if fenced_off or given_back:
        return LeaseLost()
    if row["inbox"] != append.inbox:
        return Stale()
    return Refused(reason or _HELD_BACK) if row["seq"] == append.seq else LeaseLost()


def _was_committed(row: asyncpg.Record, append: Append) -> bool:
    """Whether this very append stands in the store: an earlier COMMIT went through and its answer was lost (P6)."""
    if append.events:
        return _holds(row, append)
    return append.index.release and row["owner"] is None and row["seq"] == append.seq


def _holds(row: asyncpg.Record, member: Member) -> bool:
    stored = [(at, kind, data) for at, kind, data in row["events"]]
    return stored == [(member.at, kind, data) for kind, data in member.events]
