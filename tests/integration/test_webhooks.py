"""Webhooks over the real thing: what a run comes to is told to a server, signed, and once more if that was away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from standardwebhooks import Webhook

from bext_workflow.model.json import JsonObject
from bext_workflow.model.view import DeliveryView
from bext_workflow.model.webhook import DeliveryState, WebhookEvent
from bext_workflow.service.administration import DeliveryQuery, WebhookRequest
from bext_workflow.service.protocols import StartRequest
from tests.integration.test_http import JAMMED, WAIT_MS, Hosted, hosted

ALLOWED = '[host.webhooks]\nallow = ["127.0.0.0/8"]\n'

APPROVAL = """
[[plugins.workflows]]
id = "purchase"
steps = [{ name = "ask", wait = { signal = "decision", approval = { title = "May we?" } } }]
"""


class Told:
    """A server that keeps what it is told, and answers as it is set to."""

    def __init__(self) -> None:
        self.status = 204
        self.bodies: list[JsonObject] = []
        self.raw: list[tuple[bytes, dict[str, str]]] = []
        self.news = asyncio.Event()

    async def hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head.splitlines()[1:])
        }
        body = await reader.readexactly(int(headers["content-length"]))
        self.raw.append((body, headers))
        self.bodies.append(json.loads(body))
        self.news.set()
        writer.write(f"HTTP/1.1 {self.status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        writer.close()

    async def until(self, count: int) -> list[JsonObject]:
        with anyio.fail_after(30):
            while len(self.bodies) < count:
                self.news.clear()
                await self.news.wait()
        return self.bodies


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[Told, str]]:
    told = Told()
    server = await asyncio.start_server(told.hear, "127.0.0.1", 0)
    async with server:
        yield told, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/bext"


async def test_what_a_run_comes_to_is_told_with_its_signature(tmp_path: Path) -> None:
    async with listening() as (told, url), hosted(tmp_path, APPROVAL, host_tables=ALLOWED) as at:
        made = await at.client.create_webhook(WebhookRequest(url=url))
        failed_only = WebhookRequest(url=url, events=[WebhookEvent.RUN_FAILED], workflows=["approval"])
        await at.client.create_webhook(failed_only)
        await until_known(at, 2)

        done = await at.order(order_id="o-1")
        undone = await at.order(order_id="o-2", payment_method="pm_declined")
        stuck = await at.order(order_id="o-3", **JAMMED)
        started = await at.client.start(StartRequest(workflow="purchase"))
        waiting = await at.client.result(started.run.run_id, wait_ms=WAIT_MS)
        bodies = await told.until(5)

        assert sorted((body["type"], body["data"]["run_id"]) for body in bodies) == sorted(
            [
                ("run.completed", done.run_id),
                ("run.compensated", undone.run_id),
                ("incident.opened", stuck.run_id),
                ("run.failed", stuck.run_id),
                ("approval.requested", waiting.run_id),
            ]
        )
        by_type = {body["type"]: body["data"] for body in bodies}
        assert by_type["run.completed"]["status"] == "COMPLETED"
        assert by_type["run.compensated"]["failure"]
        assert by_type["incident.opened"]["incident"]["step"] == "reserve_stock"
        assert by_type["approval.requested"]["approval"]["title"] == "May we?"
        assert not [body for body in bodies if "ada@example.com" in json.dumps(body)]  # no context
        for body, headers in told.raw:
            Webhook(made.secret).verify(body, headers)


async def test_what_was_not_taken_is_listed_and_can_be_sent_again(tmp_path: Path) -> None:
    async with listening() as (told, url), hosted(tmp_path, host_tables=ALLOWED) as at:
        told.status = 410
        made = await at.client.create_webhook(WebhookRequest(url=url))
        await until_known(at, 1)
        await at.order()
        await told.until(1)
        failed = await until(at, lambda delivery: delivery.state is not DeliveryState.PENDING)
        assert (failed.webhook_id, failed.status, failed.state) == (made.made.id, 410, "failed")

        told.status = 200
        await at.client.redeliver(failed.id, "it is back")
        first, second = await told.until(2)
        assert first == second
        assert {headers["webhook-id"] for _, headers in told.raw} == {failed.id}


async def test_a_private_address_is_told_nothing_unless_the_config_allows_it(tmp_path: Path) -> None:
    async with listening() as (told, url), hosted(tmp_path) as at:
        await at.client.create_webhook(WebhookRequest(url=url))
        await until_known(at, 1)
        await at.order()
        delivery = await until(at, lambda delivery: delivery.error is not None)
    assert "no public address" in str(delivery.error)
    assert told.raw == []


async def until_known(at: Hosted, count: int) -> None:
    """Until the host has seen that there are so many webhooks."""
    with anyio.fail_after(20):
        while len(at.host._shop.outbox.webhooks) < count:
            await at.client.webhooks()


async def until(at: Hosted, holds: Callable[[DeliveryView], bool]) -> DeliveryView:
    """The only delivery, once that holds of it."""
    with anyio.fail_after(20):
        while True:
            (delivery,) = (await at.client.deliveries(DeliveryQuery())).items
            if holds(delivery):
                return delivery
