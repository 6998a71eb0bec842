"""Webhooks, and the outbox: written with the run, taken by one host at a time, kept for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from bext_workflow.errors import Conflict, NotFound
from bext_workflow.model.webhook import DeliveryState, WebhookEvent
from bext_workflow.ports.audit import AuditEntry
from bext_workflow.ports.store import LeaseLost, RunRow, Store
from bext_workflow.ports.webhooks import AmendDelivery, AmendWebhooks, DeliveryFilter, DeliveryRow, WebhookRow
from bext_workflow.testing.contract.base import (
    TRICKY_TEXT,
    StoreCase,
    committed,
    ended,
    following,
    run_id,
    started,
    written,
)

MADE = AuditEntry(name="webhook.create", by="ada", reason="for the shop", about=f"webhook:{run_id(1)}")

HOOK = WebhookRow(
    id=run_id(1),
    url="https://hooks.example/é",
    events=(WebhookEvent.RUN_FAILED, WebhookEvent.INCIDENT_OPENED),
    workflows=("checkout",),
    secret="whsec_c2VjcmV0",  # noqa: S106 - of this contract only
    created_at=1_000,
    created_by="ada",
)
EVERYTHING = DeliveryFilter()


def delivery(number: int = 1, *, next_at: int | None = 2_000) -> DeliveryRow:
    return DeliveryRow(
        id=run_id(number),
        webhook_id=HOOK.id,
        run_id=run_id(1),
        event=WebhookEvent.RUN_COMPLETED,
        body=TRICKY_TEXT,
        at=2_000,
        next_at=next_at,
    )


def keeping(row: WebhookRow) -> AmendWebhooks:
    return lambda _: row


def settling(row: DeliveryRow) -> AmendDelivery:
    return lambda _: row


async def told(store: Store, *deliveries: DeliveryRow) -> RunRow:
    """A run whose end is to be told."""
    run = await started(store)
    (run,) = await committed(store, replace(following(run, index=ended()), deliveries=deliveries))
    return run


async def all_of(store: Store) -> list[DeliveryRow]:
    return list(await store.deliveries(EVERYTHING, limit=99))


class WebhooksContract(StoreCase):
    async def test_every_field_of_a_webhook_is_kept(self, store: Store, other: Store) -> None:
        bare = replace(HOOK, id=run_id(2), events=(), workflows=(), removed_at=3_000)
        for row in (bare, HOOK):
            assert await store.amend_webhooks(keeping(row), at=1_000, audit=MADE) == row

        assert list(await other.webhooks()) == [HOOK, bare]
        assert [(audit.name, audit.about) for audit in await store.audit(limit=9)] == [(MADE.name, MADE.about)] * 2

    async def test_webhook_is_amended_in_place_and_a_refusal_leaves_nothing(self, store: Store) -> None:
        await store.amend_webhooks(lambda _: HOOK, at=1_000, audit=MADE)

        def remove(known: Sequence[WebhookRow]) -> WebhookRow:
            return replace(known[0], removed_at=2_000)

        def refuse(known: Sequence[WebhookRow]) -> WebhookRow:
            raise Conflict(f"not with {len(known)}")

        await store.amend_webhooks(remove, at=2_000, audit=MADE)
        with pytest.raises(Conflict, match="not with 1"):
            await store.amend_webhooks(refuse, at=3_000, audit=MADE)
        assert list(await store.webhooks()) == [replace(HOOK, removed_at=2_000)]
        assert len(await store.audit(limit=9)) == 2

    async def test_delivery_is_there_with_the_append_that_it_tells_of(self, store: Store, other: Store) -> None:
        await told(store, delivery(1), delivery(2))

        assert await all_of(other) == [delivery(2), delivery(1)]

    async def test_delivery_of_an_append_that_fails_is_not_there(self, store: Store) -> None:
        """P5"""
        run = await started(store)
        append = replace(following(run), deliveries=(delivery(),), fence=7)

        assert await written(store, [append]) == [LeaseLost()]
        assert await all_of(store) == []

    async def test_deliveries_are_taken_when_they_are_due_longest_due_first(self, store: Store) -> None:
        await told(store, delivery(1, next_at=3_000), delivery(2, next_at=1_000), delivery(3, next_at=2_000))

        taken = await store.take_deliveries(now=2_500, until=9_000, limit=1)
        assert [(row.id, row.attempts, row.next_at) for row in taken] == [(run_id(2), 1, 9_000)]
        rest = await store.take_deliveries(now=3_000, until=9_500, limit=9)
        assert {row.id for row in rest} == {run_id(1), run_id(3)}
        assert list(await store.take_deliveries(now=3_000, until=9_500, limit=9)) == []

    async def test_delivery_whose_taker_is_gone_is_taken_again(self, store: Store, other: Store) -> None:
        await told(store, delivery())
        await store.take_deliveries(now=2_000, until=9_000, limit=9)

        assert list(await other.take_deliveries(now=8_999, until=20_000, limit=9)) == []
        (again,) = await other.take_deliveries(now=9_000, until=20_000, limit=9)
        assert (again.attempts, again.next_at) == (2, 20_000)

    async def test_takers_at_once_share_the_deliveries_out(self, store: Store, other: Store) -> None:
        await told(store, *(delivery(number) for number in range(1, 21)))

        shares = await asyncio.gather(
            *(place.take_deliveries(now=2_000, until=9_000, limit=5) for place in (store, other) * 4)
        )

        taken = [row.id for share in shares for row in share]
        assert len(taken) == len(set(taken))

    async def test_every_field_of_a_delivery_is_kept(self, store: Store, other: Store) -> None:
        await told(store, delivery())
        settled = replace(
            delivery(), state=DeliveryState.FAILED, attempts=3, next_at=None, status=500, error="“no”", settled_at=5_000
        )

        assert await store.amend_delivery(run_id(1), lambda _: settled, at=5_000) == settled
        assert await all_of(other) == [settled]
        assert list(await store.take_deliveries(now=10**15, until=10**15, limit=9)) == []
        assert list(await store.audit(limit=9)) == []

    async def test_delivery_is_amended_from_what_it_is_with_its_audit_row(self, store: Store) -> None:
        await told(store, delivery())
        seen = []

        def again(row: DeliveryRow) -> DeliveryRow:
            seen.append(row)
            return replace(row, next_at=7_000)

        entry = AuditEntry(name="webhook.redeliver", by="ada", about=f"delivery:{run_id(1)}")
        await store.amend_delivery(run_id(1), again, at=6_000, audit=entry)
        with pytest.raises(NotFound):
            await store.amend_delivery(run_id(9), again, at=6_000, audit=entry)

        assert seen == [delivery()]
        (audit,) = await store.audit(limit=9)
        assert (audit.at, audit.name, audit.about) == (6_000, entry.name, entry.about)

    async def test_deliveries_are_listed_by_page_and_by_what_is_asked_for(self, store: Store) -> None:
        elsewhere = replace(delivery(3), webhook_id=run_id(7), run_id=run_id(8))
        await told(store, delivery(1), delivery(2), elsewhere)
        done = replace(delivery(1), state=DeliveryState.DELIVERED, next_at=None, settled_at=1)
        await store.amend_delivery(run_id(1), lambda _: done, at=1)

        first = await store.deliveries(EVERYTHING, limit=2)
        assert [row.id for row in first] == [run_id(3), run_id(2)]
        assert list(await store.deliveries(EVERYTHING, limit=2, before=first[-1].id)) == [done]
        for wanted, found in (
            (DeliveryFilter(webhook_id=HOOK.id), [delivery(2), done]),
            (DeliveryFilter(run_id=run_id(8)), [elsewhere]),
            (DeliveryFilter(state=DeliveryState.DELIVERED), [done]),
            (DeliveryFilter(webhook_id=run_id(7), state=DeliveryState.DELIVERED), []),
        ):
            assert list(await store.deliveries(wanted, limit=9)) == found

    async def test_deliveries_that_are_settled_are_removed_when_they_are_old(self, store: Store) -> None:
        await told(store, delivery(1), delivery(2), delivery(3))
        for number, at in ((1, 1_000), (2, 2_000)):
            done = replace(delivery(number), state=DeliveryState.DELIVERED, next_at=None, settled_at=at)
            await store.amend_delivery(run_id(number), settling(done), at=at)

        assert await store.prune_deliveries(before=1_000, limit=9) == 0
        assert await store.prune_deliveries(before=10**15, limit=1) == 1
        assert [row.id for row in await all_of(store)] == [run_id(3), run_id(2)]
        assert await store.prune_deliveries(before=10**15, limit=9) == 1
        assert await all_of(store) == [delivery(3)]
