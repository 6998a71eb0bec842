"""Deliveries: signed, sent, tried again over days, kept, removed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import anyio
import pytest
from msgspec.structs import replace
from standardwebhooks import Webhook

from bext_workflow.app.logs import logger_for
from bext_workflow.errors import Conflict, NotFound, UsageError
from bext_workflow.host.clock import SystemChance
from bext_workflow.host.courier import KEPT_MS, TAKEN_MS, Courier
from bext_workflow.host.outbox import Outbox
from bext_workflow.host.posting import PostFailed
from bext_workflow.host.telemetry import HostTelemetry
from bext_workflow.host.trouble import Trouble
from bext_workflow.model.access import person
from bext_workflow.model.view import DeliveryView
from bext_workflow.model.webhook import RETRY_WAITS_MS, DeliveryState, WebhookEvent
from bext_workflow.ports import telemetry as names
from bext_workflow.service.administration import DeliveryQuery, WebhookRequest
from bext_workflow.service.webhooks import MAX_WEBHOOKS, WebhookService
from bext_workflow.stores import SqliteStore
from bext_workflow.testing.clock import FakeClock
from bext_workflow.testing.contract.base import host, run_id
from bext_workflow.testing.contract.webhooks import delivery, told

DAY_MS = 86_400_000
URL = "https://hooks.example/bext"
BODY = '{"é":1.0,"n":1152921504606846976}'.encode()
FOREVER = timedelta(days=36_500)


class Receiver:
    """Whoever is told. It answers one after the other; the last answer stays."""

    def __init__(self, *answers: int | PostFailed) -> None:
        self.answers = answers
        self.heard: list[tuple[str, bytes, Mapping[str, str]]] = []

    async def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        self.heard.append((url, body, headers))
        answer = self.answers[min(len(self.heard), len(self.answers)) - 1]
        if isinstance(answer, PostFailed):
            raise answer
        return answer


class Desk:
    """A store, a courier that looks when it is told to, and the service."""

    def __init__(self, store: SqliteStore, clock: FakeClock, receiver: Receiver) -> None:
        self.store, self.clock, self.receiver = store, clock, receiver
        self.telemetry = HostTelemetry(logger_for("json", -1))
        self.draining = asyncio.Event()
        chance = SystemChance(3)
        self.courier = Courier(
            store=store,
            outbox=Outbox(store, chance),
            clock=clock,
            telemetry=self.telemetry,
            trouble=Trouble(self.telemetry),
            draining=self.draining,
            send=receiver,
        )
        self.service = WebhookService(store=store, clock=clock, chance=chance, who=lambda: person("ada"))

    async def looks(self) -> None:
        """Once, to the end of what it began."""
        async with anyio.create_task_group() as tasks:
            await self.courier._look(tasks)

    async def due(self) -> str:
        """A webhook to which something is due; its secret."""
        made = await self.service.create_webhook(WebhookRequest(url=URL))
        await self.store.join(host())
        now = self.clock.now()
        row = replace(delivery(), webhook_id=made.made.id, body=BODY, next_at=now, at=now)
        await told(self.store, row)
        return made.secret

    async def deliveries(self) -> Sequence[DeliveryView]:
        return (await self.service.deliveries(DeliveryQuery())).items


@asynccontextmanager
async def desk(*answers: int | PostFailed) -> AsyncIterator[Desk]:
    store = SqliteStore(None)
    await store.open(migrate=True)
    try:
        yield Desk(store, FakeClock(), Receiver(*answers))
    finally:
        await store.close()


async def test_a_delivery_is_signed_as_standard_webhooks_say(monkeypatch: pytest.MonkeyPatch) -> None:
    async with desk(204) as at:
        secret = await at.due()
        await at.looks()

        ((url, body, headers),) = at.receiver.heard
        assert url == URL
        monkeypatch.setattr("standardwebhooks.webhooks.timedelta", lambda **_: FOREVER)
        Webhook(secret).verify(body, dict(headers), json_parse=False)
        assert (headers["webhook-id"], body) == (run_id(1), BODY)
        assert int(headers["webhook-timestamp"]) == at.clock.now() // 1000
        (taken,) = await at.deliveries()
        assert (taken.state, taken.status, taken.attempts, taken.next_at) == ("delivered", 204, 1, None)
        await at.looks()
        assert len(at.receiver.heard) == 1


async def test_what_is_not_taken_is_tried_again_over_three_days_and_then_no_more() -> None:
    async with desk(500, PostFailed("nobody there"), 302) as at:
        await at.due()
        begun = at.clock.now()
        for wait_ms in (*RETRY_WAITS_MS, 0):
            await at.looks()
            await at.looks()  # nothing before its time
            at.clock.advance(wait_ms)

        assert len(at.receiver.heard) == len(RETRY_WAITS_MS) + 1 == 10
        assert at.clock.now() - begun > 3 * DAY_MS
        (failed,) = await at.deliveries()
        assert (failed.state, failed.status, failed.error) == ("failed", 302, "it was answered 302")
        assert at.telemetry.value(names.DELIVERIES, result="retried") == 9
        assert at.telemetry.value(names.DELIVERIES, result="failed") == 1
        assert {headers["webhook-id"] for _, _, headers in at.receiver.heard} == {run_id(1)}


async def test_why_it_was_not_taken_is_shown_while_it_is_tried() -> None:
    async with desk(PostFailed("hooks.example is 10.0.0.1, which is no public address")) as at:
        await at.due()
        await at.looks()
        (pending,) = await at.deliveries()
    assert pending.state is DeliveryState.PENDING
    assert (pending.status, pending.attempts) == (None, 1)
    assert "no public address" in str(pending.error)
    assert pending.next_at is not None


async def test_who_says_gone_is_not_asked_again() -> None:
    async with desk(410) as at:
        await at.due()
        await at.looks()
        (gone,) = await at.deliveries()
    assert (gone.state, gone.status, gone.next_at) == ("failed", 410, None)


async def test_a_delivery_that_a_dead_host_took_is_sent_again() -> None:
    async with desk(200) as at:
        await at.due()
        now = at.clock.now()
        await at.store.take_deliveries(now=now, until=now + TAKEN_MS, limit=9)
        await at.looks()
        assert at.receiver.heard == []
        at.clock.advance(TAKEN_MS)
        await at.looks()
        (taken,) = await at.deliveries()
    assert (taken.state, taken.attempts) == ("delivered", 2)


async def test_a_person_sends_it_again_from_the_first_attempt_on() -> None:
    async with desk(410, 200) as at:
        await at.due()
        await at.looks()
        (failed,) = await at.deliveries()
        again = await at.service.redeliver(failed.id, "it is back")
        assert (again.state, again.attempts, again.settled_at) == ("pending", 0, None)
        await at.looks()
        (taken,) = await at.deliveries()
        assert (taken.state, taken.attempts) == ("delivered", 1)
        audit, _ = await at.store.audit(limit=9)
        assert (audit.name, audit.by, audit.about) == ("webhook.redeliver", "ada", f"delivery:{failed.id}")
        with pytest.raises(NotFound):
            await at.service.redeliver(run_id(99), "")


async def test_a_removed_webhook_is_told_nothing_any_more() -> None:
    async with desk(200) as at:
        await at.due()
        other = await at.service.create_webhook(WebhookRequest(url=URL))
        hook = next(hook for hook in await at.service.webhooks() if hook.id != other.made.id)
        await at.service.remove_webhook(hook.id, "moved")
        await at.looks()
        (dropped,) = await at.deliveries()
        assert (dropped.state, dropped.error) == ("failed", "the webhook has been removed")
        assert at.receiver.heard == []
        with pytest.raises(Conflict, match="removed already"):
            await at.service.remove_webhook(hook.id, "moved")


async def test_nothing_is_taken_while_the_host_drains() -> None:
    async with desk(200) as at:
        await at.due()
        at.draining.set()
        await at.looks()
        assert at.receiver.heard == []


async def test_what_is_settled_is_removed_after_a_week() -> None:
    async with desk(200) as at:
        await at.due()
        await at.looks()
        at.clock.advance(KEPT_MS)
        await at.looks()
        assert len(await at.deliveries()) == 1
        at.clock.advance(3_600_000)
        await at.looks()
        assert await at.deliveries() == []


# The service


async def test_a_webhook_is_shown_without_its_secret() -> None:
    async with desk(200) as at:
        request = WebhookRequest(url=URL, events=[WebhookEvent.RUN_FAILED] * 2, workflows=["checkout"], reason="shop")
        made = await at.service.create_webhook(request)
        (shown,) = await at.service.webhooks()
        assert shown == made.made
        assert (shown.events, shown.workflows, shown.created_by) == (["run.failed"], ["checkout"], "ada")
        (audit,) = await at.store.audit(limit=9)
        assert (audit.name, audit.about, audit.reason) == ("webhook.create", f"webhook:{shown.id}", "shop")
        assert made.secret.startswith("whsec_")
        assert made.secret.removeprefix("whsec_") not in repr(shown) + repr(audit)


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "hooks.example",
            "ftp://hooks.example/",
            "https://",
            "https:///x",
            "http://[::1",
            "http://h:x/",
            "http://h:0/",
        ),
        *("https://ada:pw@hooks.example/", "https://hooks.example/#a", "https://hooks.example/ä", "https://h/ b"),
        "https://hooks.example/" + "x" * 2_000,
    ],
)
async def test_what_is_no_url_to_tell(url: str) -> None:
    async with desk(200) as at:
        with pytest.raises(UsageError):
            await at.service.create_webhook(WebhookRequest(url=url))


async def test_there_are_not_too_many() -> None:
    async with desk(200) as at:
        made = await at.service.create_webhook(WebhookRequest(url=URL))
        for _ in range(MAX_WEBHOOKS - 1):
            await at.service.create_webhook(WebhookRequest(url=URL))
        with pytest.raises(Conflict, match="50 webhooks already"):
            await at.service.create_webhook(WebhookRequest(url=URL))
        await at.service.remove_webhook(made.made.id, "")
        await at.service.create_webhook(WebhookRequest(url=URL))
