"""What is written from outside a journal: acts of persons, and definitions."""

from __future__ import annotations

import secrets

from bext_workflow.errors import NotFound
from bext_workflow.ports.audit import AuditEntry
from bext_workflow.ports.store import Judge, Posted
from bext_workflow_pg.store import claims, queries
from bext_workflow_pg.store.connections import Connection
from bext_workflow_pg.store.reading import load
from bext_workflow_pg.store.wakeups import Wakeups

_SQL = queries.load("acts.sql")


async def post(connection: Connection, wakeups: Wakeups, run_id: str, judge: Judge, at: int) -> Posted:
    """The run's row is locked first, so that what is judged is what the act meets."""
    rid = await connection.fetchval(_SQL["lock_run"], run_id)
    if rid is None:
        raise NotFound(f"there is no run {run_id}")
    loaded = await load(connection, rid, 0)
    run = loaded.run
    act = judge(loaded)
    owner = run.owner if run.owner is not None and await claims.alive(connection, run.owner) else None
    if act is None:
        return Posted(run.inbox, owner)
    n = run.inbox + 1
    await connection.execute(_SQL["post"], rid, n, at, act.kind, act.by, act.data.decode())
    if act.audit is not None:
        await audit(connection, act.audit, at=at, run_id=run_id)
    await wakeups.tell(connection, owner)
    return Posted(n, owner)


async def audit(connection: Connection, entry: AuditEntry, *, at: int, run_id: str = "") -> None:
    """Remembers a person's act; for a caller that is in a transaction."""
    values = (at, entry.by, entry.name, run_id, entry.about, entry.reason, entry.data.decode())
    await connection.execute(_SQL["audit"], *values)


async def secret(connection: Connection, name: str) -> bytes:
    await connection.execute(_SQL["keep_secret"], name, secrets.token_bytes(32))
    kept: bytes = await connection.fetchval(_SQL["secret"], name)
    return kept


async def save_definition(
    connection: Connection, workflow: str, version: int, digest: str, policy: str, body: bytes
) -> None:
    await connection.execute(_SQL["save_definition"], workflow, version, digest, policy, body.decode())
