"""What is written from outside a journal: acts of persons, and definitions."""

from __future__ import annotations

import secrets
import sqlite3

from bext_workflow.ports.audit import AuditEntry
from bext_workflow.ports.store import Judge, Posted
from bext_workflow.stores.sqlite import queries
from bext_workflow.stores.sqlite.connection import writing
from bext_workflow.stores.sqlite.reading import load_by_id
from bext_workflow.stores.sqlite.seat import Seat

_SQL = queries.load("acts.sql")


def post(connection: sqlite3.Connection, seat: Seat, run_id: str, judge: Judge, at: int) -> Posted:
    with writing(connection):
        loaded = load_by_id(connection, run_id)
        run = loaded.run
        owner = run.owner if run.owner is not None and run.owner == seat.holder() else None
        act = judge(loaded)
        if act is None:
            return Posted(run.inbox, owner)
        n = run.inbox + 1
        data = act.data.decode()
        connection.execute(_SQL["insert_act"], (run.rid, n, at, act.kind, act.by, data))
        if act.audit is not None:
            audit(connection, act.audit, at=at, run_id=run_id)
        connection.execute(_SQL["count_act"], {"n": n, "at": at, "rid": run.rid})
    return Posted(n, owner)


def audit(connection: sqlite3.Connection, entry: AuditEntry, *, at: int, run_id: str = "") -> None:
    """Remembers a person's act; for a caller that is in a transaction."""
    values = (at, entry.by, entry.name, run_id, entry.about, entry.reason, entry.data.decode())
    connection.execute(_SQL["insert_audit"], values)


def secret(connection: sqlite3.Connection, name: str) -> bytes:
    with writing(connection):
        connection.execute(_SQL["keep_secret"], (name, secrets.token_bytes(32)))
        (value,) = connection.execute(_SQL["secret"], (name,)).fetchone()
    kept: bytes = value
    return kept


def save_definition(
    connection: sqlite3.Connection, workflow: str, version: int, digest: str, policy: str, body: bytes
) -> None:
    given = {"workflow": workflow, "version": version, "digest": digest, "policy": policy, "body": body.decode()}
    with writing(connection):
        connection.execute(_SQL["save_definition"], given)
