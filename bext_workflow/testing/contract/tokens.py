"""What is kept of access tokens, and who amends it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from bext_workflow.errors import Conflict
from bext_workflow.ports.audit import AuditEntry, AuditRow
from bext_workflow.ports.store import Store
from bext_workflow.ports.tokens import AmendTokens, TokenRow
from bext_workflow.testing.contract.base import StoreCase, run_id

MADE = AuditEntry(
    name="token.create", by="ada@example", reason="the “ledger” asks", about="token:ci", data=b'{"before":null}'
)

CI = TokenRow(
    id=run_id(1),
    name="ci",
    digest="d1",
    scopes=("start:checkout", "view"),
    roles=("finance",),
    created_at=1_000,
    created_by="ada@example",
    expires_at=9_000,
)


def keeping(row: TokenRow) -> AmendTokens:
    return lambda _: row


def unless_named(row: TokenRow) -> AmendTokens:
    """Keeps the row if none of its name is known."""

    def amend(known: Sequence[TokenRow]) -> TokenRow:
        if any(other.name == row.name for other in known):
            raise Conflict("it is there already")
        return row

    return amend


class TokensContract(StoreCase):
    async def test_every_field_of_a_token_is_kept(self, store: Store, other: Store) -> None:
        bare = replace(CI, id=run_id(2), digest="d2", scopes=(), roles=(), expires_at=None, revoked_at=7_000)
        for row in (bare, CI):
            assert await store.amend_tokens(keeping(row), at=1_000, audit=MADE) == row

        assert list(await other.tokens()) == [CI, bare]

    async def test_token_is_amended_in_place_of_that_with_its_id(self, store: Store) -> None:
        seen: list[Sequence[TokenRow]] = []

        def revoke(known: Sequence[TokenRow]) -> TokenRow:
            seen.append(known)
            return replace(known[0], revoked_at=2_000)

        await store.amend_tokens(keeping(CI), at=1_000, audit=MADE)
        await store.amend_tokens(revoke, at=2_000, audit=MADE)

        assert [list(known) for known in seen] == [[CI]]
        assert list(await store.tokens()) == [replace(CI, revoked_at=2_000)]

    async def test_token_and_its_audit_row_come_together(self, store: Store) -> None:
        await store.amend_tokens(keeping(CI), at=1_500, audit=MADE)

        (audit,) = await store.audit(limit=9)
        assert audit == AuditRow(
            id=audit.id,
            at=1_500,
            by="ada@example",
            name="token.create",
            run_id="",
            about="token:ci",
            reason="the “ledger” asks",
            data=b'{"before":null}',
        )

    async def test_amendment_that_is_refused_leaves_nothing(self, store: Store) -> None:
        def refuse(known: Sequence[TokenRow]) -> TokenRow:
            raise Conflict(f"not with {len(known)}")

        with pytest.raises(Conflict, match="not with 0"):
            await store.amend_tokens(refuse, at=1_000, audit=MADE)

        assert (list(await store.tokens()), list(await store.audit(limit=9))) == ([], [])

    async def test_amendments_of_tokens_come_one_after_the_other(self, store: Store, other: Store) -> None:
        rows = [replace(CI, id=run_id(number), digest=f"d{number}") for number in range(1, 5)]

        results = await asyncio.gather(
            *(
                place.amend_tokens(unless_named(row), at=1_000, audit=MADE)
                for row, place in zip(rows, (store, other) * 2, strict=True)
            ),
            return_exceptions=True,
        )

        assert [type(result) for result in results].count(Conflict) == 3
        assert len(await store.tokens()) == len(await store.audit(limit=9)) == 1
