"""Access tokens: made, listed and revoked; and who it is that sends one.

A token is 32 random bytes as text. The store keeps its SHA-256: nothing slower is needed to guard what cannot be
guessed. The first token puts a guard before the API for good, whatever becomes of that token.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence

import anyio
from msgspec.structs import replace

from bext_workflow.errors import Conflict, NotFound, Unauthenticated, UsageError
from bext_workflow.model.access import ANONYMOUS, BY_TOKEN, Caller, check_label, check_scope
from bext_workflow.model.json import JsonObject, dumps
from bext_workflow.model.view import TokenState, TokenView, instant, instant_or_none
from bext_workflow.ports.audit import AuditEntry
from bext_workflow.ports.clock import Chance, Clock
from bext_workflow.ports.store import Store
from bext_workflow.ports.tokens import TokenRow
from bext_workflow.service.administration import CreatedToken, TokenRequest
from bext_workflow.service.caller import Who
from bext_workflow.service.rates import Rates

PREFIX = "bext_"
"""What a token begins with, so that one that got lost in a file is known for what it is."""

TRUSTED_MS = 1_000
"""How long a host goes by what it has read of the tokens: a revoked one may be good for so long."""

MAX_EXPIRY_MS = 10 * 366 * 86_400_000
_RANDOM_BYTES = 32
_SHORTEST_ID = 8


class TokenService:
    """`service.administration.Tokens` over a store."""

    def __init__(self, *, store: Store, clock: Clock, chance: Chance, who: Who) -> None:
        self._store = store
        self._clock = clock
        self._chance = chance
        self._who = who

    async def tokens(self) -> Sequence[TokenView]:
        now = self._clock.now()
        return [_view(row, now) for row in reversed(await self._store.tokens())]

    async def create_token(self, request: TokenRequest) -> CreatedToken:
        _check(request)
        by, now = self._who().by, self._clock.now()
        text = PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
        made = TokenRow(
            id=self._chance.new_id(),
            name=request.name,
            digest=_digest(text),
            scopes=tuple(dict.fromkeys(request.scopes)),
            roles=tuple(dict.fromkeys(request.roles)),
            created_at=now,
            created_by=by,
            expires_at=None if request.expires_in_ms is None else now + request.expires_in_ms,
        )

        def amend(known: Sequence[TokenRow]) -> TokenRow:
            if any(row.name == made.name and row.revoked_at is None for row in known):
                raise Conflict(
                    f"there is a token {made.name!r} already", mend="revoke that one first, or take another name"
                )
            return made

        after: JsonObject = {
            "scopes": list(made.scopes),
            "roles": list(made.roles),
            "expires_at": instant_or_none(made.expires_at),
        }
        entry = _entry("token.create", made.name, by, request.reason, {"id": made.id, "before": None, "after": after})
        row = await self._store.amend_tokens(amend, at=now, audit=entry)
        return CreatedToken(token=text, made=_view(row, now))

    async def revoke_token(self, token: str, reason: str) -> TokenView:
        by, now = self._who().by, self._clock.now()
        found = _find(await self._store.tokens(), token)

        def amend(known: Sequence[TokenRow]) -> TokenRow:
            row = next(row for row in known if row.id == found.id)
            if row.revoked_at is not None:
                raise Conflict(f"the token {row.name!r} has been revoked already")
            return replace(row, revoked_at=now)

        data: JsonObject = {"id": found.id, "before": {"revoked": False}, "after": {"revoked": True}}
        entry = _entry("token.revoke", found.name, by, reason, data)
        return _view(await self._store.amend_tokens(amend, at=now, audit=entry), now)


class TokenAccess:
    """`service.administration.Access` over a store, which it asks once in `TRUSTED_MS` at most.

    `requests_per_s`: how many of one token are let in a second; so many at once, too.
    """

    def __init__(self, *, store: Store, clock: Clock, requests_per_s: int) -> None:
        self._store = store
        self._clock = clock
        self._rates = Rates(clock, per_s=requests_per_s)
        self._reading = anyio.Lock()
        self._read_at: float | None = None
        self._known: Mapping[str, TokenRow] = {}

    async def guarded(self) -> bool:
        await self._refresh()
        return bool(self._known)

    async def caller(self, bearer: str | None) -> Caller:
        if not await self.guarded():
            return ANONYMOUS
        if bearer is None:
            raise Unauthenticated("this host wants to know who asks", mend="send Authorization: Bearer TOKEN")
        row = self._known.get(_digest(bearer))
        if row is None:
            raise Unauthenticated("the token is none of this host", mend="send one of `bext-host tokens create`")
        state = _state(row, self._clock.now())
        if state is not TokenState.ACTIVE:
            raise Unauthenticated(f"the token {row.name!r} is {state}", mend="ask for another one")
        self._rates.take(row.id, f"the token {row.name!r}")
        return caller_of(row)

    async def _refresh(self) -> None:
        """Reads the tokens unless they are fresh. Who comes while they are read waits for that very reading."""
        if self._is_fresh():
            return
        async with self._reading:
            if self._is_fresh():
                return
            began_at = self._clock.monotonic()
            self._known = {row.digest: row for row in await self._store.tokens()}
            self._read_at = began_at

    def _is_fresh(self) -> bool:
        return self._read_at is not None and self._clock.monotonic() - self._read_at < TRUSTED_MS / 1000


def caller_of(row: TokenRow) -> Caller:
    """Who holds the token."""
    by = BY_TOKEN + row.name
    return Caller(by=by, names=(row.name, by, *row.roles), scopes=frozenset(row.scopes))


def _check(request: TokenRequest) -> None:
    check_label(request.name, "token")
    if not request.scopes:
        raise UsageError("a token without a scope may do nothing", mend="give at least one, such as view")
    for scope in request.scopes:
        check_scope(scope)
    for role in request.roles:
        check_label(role, "role")
    if request.expires_in_ms is not None and not 1 <= request.expires_in_ms <= MAX_EXPIRY_MS:
        raise UsageError(
            f"the token would expire in {request.expires_in_ms} ms", mend="use 1 ms to ten years, or no expiry"
        )


def _find(known: Sequence[TokenRow], wanted: str) -> TokenRow:
    """The token of that name that is not revoked, or of that id or the beginning of one."""
    named = [row for row in known if row.name == wanted]
    live = [row for row in named if row.revoked_at is None]
    if named:
        return (live or named)[-1]
    found = [row for row in known if len(wanted) >= _SHORTEST_ID and row.id.startswith(wanted)]
    if not found:
        raise NotFound(f"no token {wanted!r}", mend="`tokens list` shows them; give its name, or its id")
    if len(found) > 1:
        raise Conflict(f"more than one token begins with {wanted!r}", mend="give more of the id")
    return found[0]


def _entry(name: str, token: str, by: str, reason: str, data: JsonObject) -> AuditEntry:
    return AuditEntry(name=name, by=by, reason=reason, about=BY_TOKEN + token, data=dumps(data))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _state(row: TokenRow, now: int) -> TokenState:
    if row.revoked_at is not None:
        return TokenState.REVOKED
    return TokenState.EXPIRED if row.expires_at is not None and row.expires_at <= now else TokenState.ACTIVE


def _view(row: TokenRow, now: int) -> TokenView:
    return TokenView(
        id=row.id,
        name=row.name,
        state=_state(row, now),
        scopes=list(row.scopes),
        roles=list(row.roles),
        created_at=instant(row.created_at),
        created_by=row.created_by,
        expires_at=instant_or_none(row.expires_at),
        revoked_at=instant_or_none(row.revoked_at),
    )
