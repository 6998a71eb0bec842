"""Schedules over HTTP: the routes, and the client of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from bext_workflow.client import HttpClient
from bext_workflow.errors import Conflict, NotFound
from bext_workflow.service.protocols import TriggerRequest
from tests.unit.http_support import API, NOW, URL, MemoryService, app_over, body_of, requests_to, schedule_view

NIGHTLY = f"{API}/schedules/nightly"


@pytest.fixture
def service() -> MemoryService:
    return MemoryService()


@pytest.fixture
async def http(service: MemoryService) -> AsyncIterator[httpx.AsyncClient]:
    async with requests_to(app_over(service)) as client:
        yield client


@pytest.fixture
async def client(service: MemoryService) -> AsyncIterator[HttpClient]:
    async with HttpClient(URL, transport=httpx.ASGITransport(app_over(service))) as client:
        yield client


async def test_schedules_are_one_page(http: httpx.AsyncClient) -> None:
    listed = body_of(await http.get(f"{API}/schedules"))

    (nightly,) = listed["items"]
    assert listed["next_cursor"] is None
    assert nightly == {
        "id": "nightly",
        "plugin": "shop",
        "workflow": "checkout",
        "version": None,
        "cron": "30 2 * * *",
        "timezone": "Europe/Madrid",
        "overlap": "skip",
        "catch_up": "latest",
        "context": {"orders": 2**60},
        "tags": {},
        "enabled": True,
        "paused": False,
        "next_at": NOW,
        "last_slot": None,
        "last_result": None,
        "last_run_id": None,
        "buffered_slot": None,
    }
    assert body_of(await http.get(NIGHTLY)) == nightly


async def test_next_instants(http: httpx.AsyncClient, service: MemoryService) -> None:
    assert len(body_of(await http.get(f"{NIGHTLY}/next"))["items"]) == 5
    page = body_of(await http.get(f"{NIGHTLY}/next?limit=1"))

    assert page == {"items": [{"at": NOW, "local": "2026-11-30T22:52:07+01:00"}], "next_cursor": None}
    assert service.asked == [("fires", ("nightly", 5)), ("fires", ("nightly", 1))]
    for limit in ("0", "501", "x"):
        assert (await http.get(f"{NIGHTLY}/next?limit={limit}")).status_code == 400


async def test_pause_and_resume_answer_the_schedule(http: httpx.AsyncClient, service: MemoryService) -> None:
    paused = await http.post(f"{NIGHTLY}/pause", json={"reason": "the ledger moves"})
    assert (paused.status_code, body_of(paused)["paused"]) == (200, True)
    again = await http.post(f"{NIGHTLY}/pause")
    assert (again.status_code, body_of(again)["detail"]) == (409, "the schedule is paused already")
    resumed = await http.post(f"{NIGHTLY}/resume")
    assert (resumed.status_code, body_of(resumed)["paused"]) == (200, False)
    assert service.asked == [
        ("pause_schedule", ("nightly", "the ledger moves")),
        ("pause_schedule", ("nightly", "")),
        ("resume_schedule", ("nightly", "")),
    ]


async def test_trigger_answers_as_a_start(http: httpx.AsyncClient, service: MemoryService) -> None:
    answers = [
        await http.post(f"{NIGHTLY}/trigger", json={"reason": "month end"}, headers={"Idempotency-Key": "k"})
        for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [201, 200]
    assert [answer.headers.get("idempotency-replayed") for answer in answers] == [None, "true"]
    assert answers[0].headers["location"] == f"{API}/runs/r-1"
    assert body_of(answers[0])["tags"] == {"schedule": "nightly"}
    assert service.asked[0] == ("trigger_schedule", ("nightly", TriggerRequest(reason="month end", key="k")))


@pytest.mark.parametrize("act", ["pause", "resume", "trigger"])
async def test_body_of_an_act_is_read_with_care(http: httpx.AsyncClient, service: MemoryService, act: str) -> None:
    refused = await http.post(f"{NIGHTLY}/{act}", json={"reasn": "x"})
    assert (refused.status_code, body_of(refused)["mend"]) == (422, "did you mean 'reason'?")
    assert (await http.post(f"{NIGHTLY}/{act}?now=1")).status_code == 400
    assert (await http.get(f"{NIGHTLY}/{act}")).status_code == 405
    assert service.asked == []


async def test_client_gives_what_the_service_gives(client: HttpClient, service: MemoryService) -> None:
    assert await client.schedules() == await service.schedules() == [schedule_view()]
    assert await client.schedule("nightly") == schedule_view()
    assert await client.fires("nightly", limit=3) == await service.fires("nightly", limit=3)
    assert (await client.pause_schedule("nightly", "why")).paused
    with pytest.raises(Conflict, match="paused already"):
        await client.pause_schedule("nightly", "why")
    assert not (await client.resume_schedule("nightly", "why")).paused
    with pytest.raises(NotFound, match="no schedule 'x'"):
        await client.schedule("x")
    for name in ("", ".", "..", "a/b"):
        with pytest.raises(NotFound):
            await client.schedule(name)


async def test_client_gives_a_trigger_a_key_of_its_own(client: HttpClient, service: MemoryService) -> None:
    first, second = [await client.trigger_schedule("nightly", TriggerRequest(reason="why")) for _ in range(2)]
    assert (first.created, second.created) == (True, True)
    keys = {first.run.key, second.run.key}
    assert len(keys) == 2
    assert None not in keys
    again = [await client.trigger_schedule("nightly", TriggerRequest(key="k")) for _ in range(2)]
    assert [started.created for started in again] == [True, False]


async def test_trigger_is_sent_again_when_the_connection_breaks() -> None:
    keys: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["idempotency-key"])
        if len(keys) == 1:
            raise httpx.ReadError("broken")
        run = {"run_id": "r", "workflow": "w", "version": 1, "status": "PENDING", "step": None}
        return httpx.Response(201, json={**run, "created_at": "", "updated_at": ""})

    async with HttpClient(URL, transport=httpx.MockTransport(respond)) as client:
        assert (await client.trigger_schedule("nightly", TriggerRequest())).run.run_id == "r"
    assert len(keys) == 2
    assert len(set(keys)) == 1


async def test_pause_is_never_sent_twice() -> None:
    sent: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        sent.append(request.url.path)
        raise httpx.ReadError("broken")

    async with HttpClient(URL, transport=httpx.MockTransport(respond)) as client:
        for act in (client.pause_schedule, client.resume_schedule):
            with pytest.raises(Exception, match="does not answer"):
                await act("nightly", "")
    assert sent == [f"{NIGHTLY}/pause", f"{NIGHTLY}/resume"]
