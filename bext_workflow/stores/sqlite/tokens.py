"""What is kept of access tokens."""

from __future__ import annotations

import sqlite3

from bext_workflow.model.json import dumps, loads
from bext_workflow.ports.audit import AuditEntry
from bext_workflow.ports.tokens import AmendTokens, TokenRow
from bext_workflow.stores.sqlite import queries
from bext_workflow.stores.sqlite.acts import audit
from bext_workflow.stores.sqlite.connection import writing

_SQL = queries.load("tokens.sql")


def tokens(connection: sqlite3.Connection) -> list[TokenRow]:
    return [_token_of(row) for row in connection.execute(_SQL["tokens"])]


def amend(connection: sqlite3.Connection, change: AmendTokens, at: int, entry: AuditEntry) -> TokenRow:
    with writing(connection):
        row = change(tokens(connection))
        connection.execute(_SQL["save_token"], _values(row))
        audit(connection, entry, at=at)
    return row


def _token_of(row: sqlite3.Row) -> TokenRow:
    return TokenRow(
        id=row["id"],
        name=row["name"],
        digest=row["digest"],
        scopes=tuple(loads(row["scopes"])),
        roles=tuple(loads(row["roles"])),
        created_at=row["created_at"],
        created_by=row["created_by"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
    )


def _values(row: TokenRow) -> tuple[object, ...]:
    """In the order of `save_token`."""
    return (
        row.id,
        row.name,
        row.digest,
        dumps(list(row.scopes)).decode(),
        dumps(list(row.roles)).decode(),
        row.created_at,
        row.created_by,
        row.expires_at,
        row.revoked_at,
    )
