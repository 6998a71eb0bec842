"""Why a member of a batch did not hold: read once, after it has been rolled back."""

from __future__ import annotations

import sqlite3

from bext_workflow.ports.store import Append, Committed, Create, Existing, LeaseLost, Member, Refused, Result, Stale
from bext_workflow.stores.sqlite import queries
from bext_workflow.stores.sqlite.faults import MEMBER_FAULTS

_SQL = queries.load("verdict.sql")


def why_not(connection: sqlite3.Connection, member: Member, reason: str) -> Result:
    """`reason` is what the database said, if it said anything."""
    try:
        if isinstance(member, Create):
            return _why_not_created(connection, member, reason)
        return _why_not_appended(connection, member, reason)
    except MEMBER_FAULTS:
        # What cannot be kept cannot be asked for either.
        return Refused(reason)


def _why_not_created(connection: sqlite3.Connection, create: Create, reason: str) -> Result:
    row = connection.execute(_SQL["rid_of"], (create.run_id,)).fetchone()
    if row is not None:
        # Ours, if an earlier COMMIT went through and its answer was lost (P6).
        ours = _holds(connection, row["rid"], 0, create)
        return Committed(row["rid"], len(create.events)) if ours else Refused(f"there is a run {create.run_id} already")
    row = connection.execute(_SQL["start_key"], (create.key_space, create.key)).fetchone()
    if row is not None:
        return Existing(row["run_id"] if row["removed_at"] is None else None, row["fingerprint"])
    return Refused(reason)


def _why_not_appended(connection: sqlite3.Connection, append: Append, reason: str) -> Result:
    row = connection.execute(_SQL["standing"], (append.rid,)).fetchone()
    if row is None:
        return LeaseLost()
    given_back = row["owner"] is None
    fenced_off = row["fence"] != append.fence
    if _was_committed(connection, append, row["seq"], given_back) and (append.index.release or not fenced_off):
        return Committed(append.rid, append.seq + len(append.events))
    if fenced_off or given_back:
        return LeaseLost()
    if row["inbox"] != append.inbox:
        return Stale()
    return Refused(reason) if row["seq"] == append.seq else LeaseLost()


def _was_committed(connection: sqlite3.Connection, append: Append, seq: int, given_back: bool) -> bool:
    """Whether this very append stands in the store: an earlier COMMIT went through and its answer was lost (P6)."""
    if append.events:
        return _holds(connection, append.rid, append.seq, append)
    return append.index.release and given_back and seq == append.seq


def _holds(connection: sqlite3.Connection, rid: int, after: int, member: Member) -> bool:
    rows = connection.execute(_SQL["events_between"], (rid, after, after + len(member.events)))
    return [tuple(row) for row in rows] == [(member.at, kind, data) for kind, data in member.events]
