"""What is old goes, a family of runs at a time."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter

import asyncpg

from bext_workflow.model.status import WorkflowStatus
from bext_workflow.ports.audit import AuditEntry
from bext_workflow.ports.retention import Expired, Pruned
from bext_workflow_pg.store import queries
from bext_workflow_pg.store.acts import audit
from bext_workflow_pg.store.connections import Connection

_SQL = queries.load("retention.sql")
_REMOVALS = ("remove_events", "remove_acts", "remove_incidents", "remove_approvals", "remove_runs")
"""The runs' rows last: by them the others are found."""

_COUNT = (
    "SELECT count(*) + coalesce(sum((SELECT count(*) FROM runs AS below WHERE below.root = top.run_id)), 0)"  # noqa: S608
    f" FROM ({_SQL['removable']}) AS top"
)


async def prune(connection: Connection, expired: Expired, at: int, limit: int, entry: AuditEntry | None) -> Pruned:
    """For a caller that is in a transaction."""
    if not await connection.fetchval(_SQL["alone"]):
        return Pruned()
    runs: dict[WorkflowStatus, int] = {}
    room = limit
    for status, before in expired.ended_before.items():
        rids = await _chosen(connection, status, before, room, limit)
        runs[status] = await _remove(connection, rids, at)
        room = max(0, room - len(rids))
    pruned = Pruned(runs=runs, start_keys=await connection.fetchval(_SQL["forget_keys"], expired.keys_before, limit))
    if pruned and entry is not None:
        await audit(connection, entry, at=at)
    return pruned


async def prunable(connection: Connection, expired: Expired) -> Pruned:
    return Pruned(
        runs={
            status: int(await connection.fetchval(_COUNT, status.value, before, None))
            for status, before in expired.ended_before.items()
        },
        start_keys=await connection.fetchval(_SQL["count_keys"], expired.keys_before),
    )


async def _chosen(connection: Connection, status: WorkflowStatus, before: int, room: int, limit: int) -> list[int]:
    """The runs that go now: whole families, one at least, up to `room` runs.

    Their rows are locked, and looked at again then: an act may have come, or a parent may be about to undo a child.
    """
    tops = await connection.fetch(_SQL["removable"], status.value, before, room) if room else []
    if not tops:
        return []
    families = _families(
        await connection.fetch(_SQL["families"], [row["rid"] for row in tops], [row["run_id"] for row in tops])
    )
    rids: list[int] = []
    for family in families:
        if all(row["quiet"] for row in family):
            if len(rids) + len(family) > room and (rids or room < limit):
                break
            rids += [row["rid"] for row in family]
    return rids


def _families(rows: list[asyncpg.Record]) -> list[list[asyncpg.Record]]:
    by_top = itemgetter("top")
    return [list(family) for _, family in groupby(sorted(rows, key=by_top), key=by_top)]


async def _remove(connection: Connection, rids: list[int], at: int) -> int:
    if rids:
        await connection.execute(_SQL["mark_keys"], rids, at)
        for removal in _REMOVALS:
            await connection.execute(_SQL[removal], rids)
    return len(rids)
