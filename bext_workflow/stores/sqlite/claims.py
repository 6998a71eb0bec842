"""Who drives what: hosts come and go, runs are claimed."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence

from bext_workflow.model.json import dumps
from bext_workflow.ports.store import Claimed, HostRow
from bext_workflow.stores.sqlite import queries
from bext_workflow.stores.sqlite.connection import writing
from bext_workflow.stores.sqlite.reading import load_all
from bext_workflow.stores.sqlite.rows import host_of, host_values
from bext_workflow.stores.sqlite.seat import Seat

_SQL = queries.load("claims.sql")


def join(connection: sqlite3.Connection, seat: Seat, host: HostRow) -> None:
    """Whoever has the seat is the only host there is: the rows of others are of dead ones."""
    try:
        seat.take(host)
        with writing(connection):
            connection.execute(_SQL["clear_hosts"])
            connection.execute(_SQL["insert_host"], host_values(host))
    except BaseException:
        seat.leave(host.host_id)
        raise


def leave(connection: sqlite3.Connection, seat: Seat, host_id: str) -> None:
    with writing(connection):
        connection.execute(_SQL["delete_host"], (host_id,))
    seat.leave(host_id)


def hosts(connection: sqlite3.Connection, seat: Seat) -> list[HostRow]:
    """The row of the host that has the seat; any other is a dead host's."""
    holder = seat.holder()
    return [host_of(row) for row in connection.execute(_SQL["host"], (holder,))]


def claim(
    connection: sqlite3.Connection,
    seat: Seat,
    owner: str,
    served: Collection[tuple[str, int]],
    now: int,
    limit: int,
    only: Collection[str] | None,
) -> list[Claimed]:
    """Who has the seat takes what others own, too: they are dead."""
    given = {
        "owner": owner,
        "served": _json(served),
        "now": now,
        "limit": limit,
        "alone": seat.mine(owner),
        "only": _json(only or ()),
    }
    name = "claimable" if only is None else "claimable_only"
    with writing(connection):
        found = connection.execute(_SQL[name], given).fetchall()
        if not found:
            return []
        rids = [row["rid"] for row in found]
        connection.execute(_SQL["take"], (owner, dumps(rids).decode()))
        loaded = load_all(connection, rids)
    return [Claimed(run, bool(row["orphan"])) for run, row in zip(loaded, found, strict=True)]


def next_wake(
    connection: sqlite3.Connection, seat: Seat, served: Collection[tuple[str, int]], only: Collection[str] | None
) -> int | None:
    name = "next_wake" if only is None else "next_wake_only"
    given = {"served": _json(served), "only": _json(only or ()), "holder": seat.holder() or ""}
    row = connection.execute(_SQL[name], given).fetchone()
    return None if row is None else row["wake_at"]


def with_acts(connection: sqlite3.Connection, owner: str) -> Sequence[int]:
    return [rid for (rid,) in connection.execute(_SQL["with_acts"], (owner,))]


def owned(connection: sqlite3.Connection, owner: str) -> Sequence[tuple[int, str]]:
    return [(rid, run_id) for rid, run_id in connection.execute(_SQL["owned"], (owner,))]


def _json(values: Collection[object]) -> str:
    return dumps(list(values)).decode()
