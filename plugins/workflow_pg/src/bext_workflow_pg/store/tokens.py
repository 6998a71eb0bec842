"""What is kept of access tokens."""

from __future__ import annotations

import asyncpg

from bext_workflow.model.json import dumps, loads
from bext_workflow.ports.audit import AuditEntry
from bext_workflow.ports.tokens import AmendTokens, TokenRow
from bext_workflow_pg.store import queries
from bext_workflow_pg.store.acts import audit
from bext_workflow_pg.store.connections import Connection

_SQL = queries.load("tokens.sql")


async def tokens(connection: Connection) -> list[TokenRow]:
    return [_token_of(row) for row in await connection.fetch(_SQL["tokens"])]


async def amend(connection: Connection, change: AmendTokens, at: int, entry: AuditEntry) -> TokenRow:
    await connection.execute(_SQL["lock_tokens"])
    row = change(await tokens(connection))
    await connection.execute(_SQL["save_token"], *_values(row))
    await audit(connection, entry, at=at)
    return row


def _token_of(row: asyncpg.Record) -> TokenRow:
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
