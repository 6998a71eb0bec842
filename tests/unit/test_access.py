"""Access tokens over a real store: made, sent, over, revoked."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

from bext_workflow.errors import (
    Conflict,
    NotAllowed,
    NotFound,
    StoreUnavailable,
    TooManyRequests,
    Unauthenticated,
    UsageError,
)
from bext_workflow.host.clock import SystemChance
from bext_workflow.model.access import ANONYMOUS, Caller, Right, check_scope, person
from bext_workflow.model.json import loads
from bext_workflow.service.access import TokenAccess, TokenService
from bext_workflow.service.administration import DEFAULT_EXPIRY_MS, CreatedToken, TokenRequest
from bext_workflow.service.caller import acting, current
from bext_workflow.stores import SqliteStore
from bext_workflow.testing.clock import FakeClock

SECOND = 1_000


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store() -> AsyncIterator[SqliteStore]:
    store = SqliteStore(None)
    await store.open(migrate=True)
    yield store
    await store.close()


@pytest.fixture
def tokens(store: SqliteStore, clock: FakeClock) -> TokenService:
    return TokenService(store=store, clock=clock, chance=SystemChance(1), who=lambda: person("ada"))


@pytest.fixture
def access(store: SqliteStore, clock: FakeClock) -> TokenAccess:
    return TokenAccess(store=store, clock=clock, requests_per_s=5)


async def made(tokens: TokenService, name: str = "ci", *scopes: str, expires_in_ms: int | None = None) -> CreatedToken:
    request = TokenRequest(name=name, scopes=[*scopes] or ["view"], roles=["finance"], expires_in_ms=expires_in_ms)
    return await tokens.create_token(request)


# What somebody may


@pytest.mark.parametrize(
    ("scope", "right", "workflow", "holds"),
    [
        ("view", Right.VIEW, None, True),
        ("view", Right.OPERATE, None, False),
        ("view", Right.START, None, False),
        ("start:checkout", Right.START, None, True),
        ("start:checkout", Right.START, "checkout", True),
        ("start:checkout", Right.START, "checkout2", False),
        ("start:checkout", Right.SIGNAL, "checkout", False),
        ("start:*", Right.START, "checkout", True),
        ("signal:*", Right.SIGNAL, None, True),
        ("operate", Right.VIEW, None, False),
        ("admin", Right.REVEAL, None, True),
        ("admin", Right.SIGNAL, "checkout", True),
        ("reveal", Right.VIEW, None, False),
    ],
)
def test_what_a_scope_allows(scope: str, right: Right, workflow: str | None, holds: bool) -> None:
    assert Caller(by="token:t", scopes=frozenset({scope})).may(right, workflow) is holds


def test_what_is_not_allowed_is_named() -> None:
    with pytest.raises(NotAllowed, match=r"token:t lacks the scope 'start:checkout'"):
        Caller(by="token:t", scopes=frozenset({"view"})).require(Right.START, "checkout")
    with pytest.raises(NotAllowed, match=r"lacks the scope 'operate'"):
        Caller(by="token:t", scopes=frozenset()).require(Right.OPERATE)


@pytest.mark.parametrize("scope", ["", "veiw", "start", "start:", "start:a b", "view:checkout", "admin:*", "signal:/"])
def test_what_is_no_scope(scope: str) -> None:
    with pytest.raises(UsageError):
        check_scope(scope)


async def test_who_acts_is_known_in_the_tasks_of_a_request_and_nowhere_else() -> None:
    seen = []

    async def act(caller: Caller) -> None:
        with acting(caller):
            await anyio.lowlevel.checkpoint()
            seen.append((caller, current()))

    async with anyio.create_task_group() as tasks:
        for name in ("ada", "bob"):
            tasks.start_soon(act, person(name))

    assert [asked for asked, _ in seen] == [told for _, told in seen]
    with pytest.raises(LookupError):
        current()


# Made and revoked


async def test_only_the_hash_of_a_token_is_kept(tokens: TokenService, store: SqliteStore) -> None:
    created, other = await made(tokens), await made(tokens, "other")

    assert created.token.startswith("bext_")
    assert len(created.token) == len("bext_") + 43  # 32 bytes in base64
    assert created.token != other.token
    kept = repr([*await store.tokens(), *await store.audit(limit=9), *await tokens.tokens()])
    assert created.token.removeprefix("bext_") not in kept


async def test_a_token_is_shown_without_its_text(tokens: TokenService, clock: FakeClock) -> None:
    created = await made(tokens, "ci", "view", "start:checkout", "view", expires_in_ms=SECOND)

    (shown,) = await tokens.tokens()
    assert shown == created.made
    assert (shown.name, shown.state, shown.created_by) == ("ci", "active", "ada")
    assert (shown.scopes, shown.roles) == (["view", "start:checkout"], ["finance"])
    clock.advance(SECOND)
    assert [token.state for token in await tokens.tokens()] == ["expired"]


async def test_a_name_is_free_again_once_its_token_is_revoked(tokens: TokenService) -> None:
    first = await made(tokens)
    with pytest.raises(Conflict, match="there is a token 'ci' already"):
        await made(tokens)

    await tokens.revoke_token("ci", "rotated")
    second = await made(tokens)
    await tokens.revoke_token(second.made.id[:23], "rotated")

    assert [(token.id, token.state) for token in await tokens.tokens()] == [
        (second.made.id, "revoked"),
        (first.made.id, "revoked"),
    ]
    with pytest.raises(Conflict, match="revoked already"):
        await tokens.revoke_token("ci", "")
    with pytest.raises(NotFound, match="no token 'nobody'"):
        await tokens.revoke_token("nobody", "")


async def test_acts_on_tokens_are_in_the_audit(tokens: TokenService, store: SqliteStore) -> None:
    await tokens.create_token(TokenRequest(name="ci", scopes=["view"], reason="for the build"))
    await tokens.revoke_token("ci", "it leaked")

    after, before = await store.audit(limit=9)
    assert (before.name, before.by, before.about, before.reason) == ("token.create", "ada", "token:ci", "for the build")
    assert loads(before.data)["after"]["scopes"] == ["view"]
    assert (after.name, after.by, after.about, after.reason) == ("token.revoke", "ada", "token:ci", "it leaked")


@pytest.mark.parametrize(
    "request_",
    [
        TokenRequest(name="a b", scopes=["view"]),
        TokenRequest(name="ci", scopes=[]),
        TokenRequest(name="ci", scopes=["veiw"]),
        TokenRequest(name="ci", scopes=["view"], roles=["token:ada"]),
        TokenRequest(name="ci", scopes=["view"], expires_in_ms=0),
        TokenRequest(name="ci", scopes=["view"], expires_in_ms=2**62),
    ],
)
async def test_what_makes_no_token(tokens: TokenService, request_: TokenRequest) -> None:
    with pytest.raises(UsageError):
        await tokens.create_token(request_)
    assert list(await tokens.tokens()) == []


async def test_a_token_expires_unless_it_is_told_not_to(tokens: TokenService, clock: FakeClock) -> None:
    await tokens.create_token(TokenRequest(name="ci", scopes=["view"]))
    clock.advance(DEFAULT_EXPIRY_MS - 1)
    assert (await tokens.tokens())[0].state == "active"
    clock.advance(1)
    assert (await tokens.tokens())[0].state == "expired"


# Sent


async def test_without_tokens_everybody_is_let_in_and_known_to_nobody(access: TokenAccess) -> None:
    assert not await access.guarded()
    assert await access.caller(None) == await access.caller("whatever") == ANONYMOUS
    assert ANONYMOUS.names == ()


async def test_a_token_tells_who_it_is(tokens: TokenService, access: TokenAccess) -> None:
    created = await made(tokens, "ci", "start:checkout")

    assert await access.caller(created.token) == Caller(
        by="token:ci", names=("ci", "token:ci", "finance"), scopes=frozenset({"start:checkout"})
    )


@pytest.mark.parametrize("sent", [None, "", "bext_", "bext_" + "a" * 43, "\udcff"])
async def test_what_is_no_token_is_refused(tokens: TokenService, access: TokenAccess, sent: str | None) -> None:
    await made(tokens)
    with pytest.raises(Unauthenticated):
        await access.caller(sent)


async def test_a_token_is_over_when_its_time_is(tokens: TokenService, access: TokenAccess, clock: FakeClock) -> None:
    created = await made(tokens, expires_in_ms=SECOND)
    clock.advance(SECOND - 1)
    assert (await access.caller(created.token)).by == "token:ci"
    clock.advance(1)
    with pytest.raises(Unauthenticated, match="'ci' is expired"):
        await access.caller(created.token)


async def test_a_revocation_and_the_first_token_hold_within_a_second(
    tokens: TokenService, access: TokenAccess, clock: FakeClock
) -> None:
    assert await access.caller(None) == ANONYMOUS
    created = await made(tokens)
    clock.advance(SECOND)
    assert (await access.caller(created.token)).by == "token:ci"
    with pytest.raises(Unauthenticated):
        await access.caller(None)

    await tokens.revoke_token("ci", "it leaked")
    clock.advance(SECOND)
    with pytest.raises(Unauthenticated, match="'ci' is revoked"):
        await access.caller(created.token)
    assert await access.guarded()  # for good


async def test_nobody_is_let_in_while_it_cannot_be_known_who_it_is(
    tokens: TokenService, access: TokenAccess, clock: FakeClock, store: SqliteStore
) -> None:
    created = await made(tokens)
    assert (await access.caller(created.token)).by == "token:ci"
    await store.close()
    clock.advance(SECOND)
    with pytest.raises(StoreUnavailable):
        await access.caller(created.token)


async def test_a_token_may_ask_so_often_and_another_one_too(
    tokens: TokenService, access: TokenAccess, clock: FakeClock
) -> None:
    busy, other = await made(tokens), await made(tokens, "other")
    for _ in range(5):
        await access.caller(busy.token)
    with pytest.raises(TooManyRequests, match="'ci' asks more than 5 times a second") as refused:
        await access.caller(busy.token)
    assert refused.value.retry_after_s == 1
    assert (await access.caller(other.token)).by == "token:other"

    clock.advance(200)
    await access.caller(busy.token)
    with pytest.raises(TooManyRequests):
        await access.caller(busy.token)
