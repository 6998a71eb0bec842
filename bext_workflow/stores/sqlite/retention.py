"""What is old goes, a family of runs at a time."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from bext_workflow.errors import Conflict
from bext_workflow.model.json import dumps
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.ports.audit import AuditEntry
from bext_workflow.ports.retention import Expired, Pruned
from bext_workflow.stores.sqlite import queries
from bext_workflow.stores.sqlite.acts import audit
from bext_workflow.stores.sqlite.connection import snapshot, writing

_SQL = queries.load("retention.sql")
_REMOVALS = ("remove_events", "remove_acts", "remove_incidents", "remove_approvals", "remove_runs")
"""The runs' rows last: by them the others are found."""

_COUNT = (
    "SELECT count(*) + coalesce(sum((SELECT count(*) FROM runs AS below WHERE below.root = top.run_id)), 0)"  # noqa: S608
    f" FROM ({_SQL['removable']}) AS top"
)
_ALL = -1


def prune(connection: sqlite3.Connection, expired: Expired, at: int, limit: int, entry: AuditEntry | None) -> Pruned:
    if not _anything(connection, expired):
        return Pruned()  # no write lock for that
    with writing(connection):
        pruned = Pruned(
            runs={status: _remove(connection, rids, at) for status, rids in _chosen(connection, expired, limit)},
            start_keys=connection.execute(_SQL["forget_keys"], (expired.keys_before, limit)).rowcount,
        )
        if pruned and entry is not None:
            audit(connection, entry, at=at)
    return pruned


def prunable(connection: sqlite3.Connection, expired: Expired) -> Pruned:
    with snapshot(connection):
        return Pruned(
            runs={status: _count(connection, status, before) for status, before in expired.ended_before.items()},
            start_keys=connection.execute(_SQL["count_keys"], (expired.keys_before,)).fetchone()[0],
        )


def back_up(connection: sqlite3.Connection, to: Path) -> None:
    """The copy gets its name when it is whole and on the disk. It is for its owner's eyes only, as the store is."""
    if to.exists():
        raise Conflict(f"the file {to} is there already", mend="give the backup a name of its own")
    draft = to.with_name(f"{to.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        with closing(sqlite3.connect(draft)) as copy:
            connection.backup(copy)
        os.fsync(descriptor)
        draft.rename(to)
    except BaseException:
        draft.unlink()
        raise
    finally:
        os.close(descriptor)


def _anything(connection: sqlite3.Connection, expired: Expired) -> bool:
    runs = any(_tops(connection, *of, 1) for of in expired.ended_before.items())
    return runs or connection.execute(_SQL["some_key"], (expired.keys_before,)).fetchone() is not None


def _chosen(connection: sqlite3.Connection, expired: Expired, limit: int) -> Iterator[tuple[WorkflowStatus, list[int]]]:
    """Of each status the runs that go now: whole families, one at least, up to `limit` runs in all."""
    room = limit
    for status, before in expired.ended_before.items():
        rids: list[int] = []
        for rid, run_id in _tops(connection, status, before, room) if room > 0 else ():
            family = [rid, *(below for (below,) in connection.execute(_SQL["below"], (run_id,)))]
            if len(family) > room and room < limit:
                room = 0
                break
            rids += family
            room -= len(family)
        yield status, rids


def _tops(connection: sqlite3.Connection, status: WorkflowStatus, before: int, limit: int) -> list[tuple[int, str]]:
    given = {"status": status.value, "before": before, "limit": limit}
    return [(rid, run_id) for rid, run_id in connection.execute(_SQL["removable"], given)]


def _remove(connection: sqlite3.Connection, rids: list[int], at: int) -> int:
    gone = dumps(rids).decode()
    connection.execute(_SQL["mark_keys"], {"at": at, "rids": gone})
    for removal in _REMOVALS:
        connection.execute(_SQL[removal], (gone,))
    return len(rids)


def _count(connection: sqlite3.Connection, status: WorkflowStatus, before: int) -> int:
    given = {"status": status.value, "before": before, "limit": _ALL}
    return int(connection.execute(_COUNT, given).fetchone()[0])
