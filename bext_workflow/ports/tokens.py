"""Access tokens, as a store keeps them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec


class TokenRow(msgspec.Struct, frozen=True, kw_only=True):
    """An access token: not itself, but the SHA-256 of its text, in hex. A row is never removed.

    `roles`: what the `by` of an approval may call whoever holds it. Instants are ms; None: never.
    """

    id: str
    name: str
    digest: str
    scopes: tuple[str, ...]
    roles: tuple[str, ...] = ()
    created_at: int
    created_by: str
    expires_at: int | None = None
    revoked_at: int | None = None


AmendTokens: TypeAlias = Callable[[Sequence[TokenRow]], TokenRow]
"""Pure and quick: of all tokens as they are in the transaction, the row to keep; or raises `Conflict`, `NotFound`."""
