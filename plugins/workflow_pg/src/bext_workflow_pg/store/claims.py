"""Who drives what: hosts come and go, runs are claimed."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from bext_workflow.ports.store import Claimed, HostRow
from bext_workflow_pg.store import queries
from bext_workflow_pg.store.connections import Connection
from bext_workflow_pg.store.reading import load_all
from bext_workflow_pg.store.rows import host_of, host_values

_SQL = queries.load("claims.sql")


class Taken(msgspec.Struct, frozen=True):
    """A run as a claim has taken it."""

    rid: int
    fence: int
    orphan: bool


async def join(connection: Connection, host: HostRow) -> None:
    await connection.execute(_SQL["clear_hosts"], host.host_id)
    await connection.execute(_SQL["join"], *host_values(host))


async def renew(connection: Connection, host_id: str) -> bool:
    return bool(await connection.fetchval(_SQL["renew"], host_id))


async def leave(connection: Connection, host_id: str) -> None:
    await connection.execute(_SQL["leave"], host_id)


async def hosts(connection: Connection) -> list[HostRow]:
    return [host_of(row) for row in await connection.fetch(_SQL["hosts"])]


async def alive(connection: Connection, host_id: str) -> bool:
    return bool(await connection.fetchval(_SQL["alive"], host_id))


async def take(
    connection: Connection,
    owner: str,
    served: Collection[tuple[str, int]],
    now: int,
    limit: int,
    only: Collection[str] | None,
) -> list[Taken]:
    """In the order in which they are due."""
    given = [owner, *_columns(served), now, limit]
    if only is None:
        rows = await connection.fetch(_SQL["claim"], *given)
    else:
        rows = await connection.fetch(_SQL["claim_only"], *given, list(only))
    rows.sort(key=lambda row: -1 if row["wake_at"] is None else row["wake_at"])
    return [Taken(row["rid"], row["fence"], row["orphan"]) for row in rows]


async def still_taken(connection: Connection, owner: str, taken: Sequence[Taken]) -> list[Taken]:
    """Those that stand, of a claim of which nobody knows whether it was committed."""
    wanted = {one.rid: one for one in taken}
    rows = await connection.fetch(
        _SQL["claimed"], owner, list(wanted), [one.fence for one in taken], [one.orphan for one in taken]
    )
    return [wanted[row["rid"]] for row in rows]


async def whole(connection: Connection, taken: Sequence[Taken]) -> list[Claimed]:
    """The runs themselves."""
    loaded = await load_all(connection, [one.rid for one in taken])
    return [Claimed(run, one.orphan) for run, one in zip(loaded, taken, strict=True)]


async def next_wake(
    connection: Connection, served: Collection[tuple[str, int]], only: Collection[str] | None
) -> int | None:
    wake: int | None
    if only is None:
        wake = await connection.fetchval(_SQL["next_wake"], *_columns(served))
    else:
        wake = await connection.fetchval(_SQL["next_wake_only"], *_columns(served), list(only))
    return wake


async def with_acts(connection: Connection, owner: str) -> Sequence[int]:
    return [rid for (rid,) in await connection.fetch(_SQL["with_acts"], owner)]


async def owned(connection: Connection, owner: str) -> Sequence[tuple[int, str]]:
    return [(rid, run_id) for rid, run_id in await connection.fetch(_SQL["owned"], owner)]


def _columns(served: Collection[tuple[str, int]]) -> tuple[list[str], list[int]]:
    return [workflow for workflow, _ in served], [version for _, version in served]
