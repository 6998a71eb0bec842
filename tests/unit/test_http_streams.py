"""Server-sent events over a socket: replay, growth, resync, farewells."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import anyio
import httpx
import msgspec
import pytest

from bext_workflow.model.access import Caller
from bext_workflow.model.json import JsonObject
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.service.feed import Feed
from tests.unit.http_support import API, MemoryService, Served, app_over, run_view, served


class Event(NamedTuple):
    name: str
    id: str | None
    data: JsonObject


class Stream:
    """An open stream, read event by event; comments are kept aside."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.comments: list[str] = []
        self._lines = response.aiter_lines()

    async def next(self) -> Event | None:
        """The next event; None at the end of the stream."""
        fields: dict[str, str] = {}
        with anyio.fail_after(10):
            async for line in self._lines:
                if line.startswith(":"):
                    self.comments.append(line)
                elif line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif "event" in fields:
                    return Event(fields["event"], fields.get("id"), msgspec.json.decode(fields["data"]))
        return None

    async def events(self, count: int) -> list[Event]:
        found = []
        for _ in range(count):
            event = await self.next()
            assert event is not None
            found.append(event)
        return found


@pytest.fixture
def service() -> MemoryService:
    service = MemoryService()
    service.add(run_view("r-1"))
    return service


@asynccontextmanager
async def streaming(server: Served, path: str, **headers: str) -> AsyncIterator[Stream]:
    async with (
        httpx.AsyncClient(base_url=server.url, timeout=20) as http,
        http.stream(
            "GET", f"{API}{path}", headers={name.replace("_", "-"): text for name, text in headers.items()}
        ) as it,
    ):
        assert it.status_code == 200
        assert it.headers["content-type"].startswith("text/event-stream")
        assert it.headers["cache-control"] == "no-store"
        yield Stream(it)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bext_workflow.faces.http.streams.LOOK_S", 0.01)


# One run


async def test_a_journal_is_told_from_its_beginning_and_as_it_grows_to_its_end(service: MemoryService) -> None:
    async with served(app_over(service)) as server, streaming(server, "/runs/r-1/events/stream") as stream:
        assert [event.id for event in await stream.events(5)] == ["1", "2", "3", "4", "5"]

        service.journal = 6
        grown = await stream.next()
        assert grown == Event("step_completed", "6", {**grown.data, "seq": 6}) if grown else False

        service.settle("r-1", WorkflowStatus.COMPLETED)
        service.journal = 7
        last, end = await stream.events(2)
        assert (last.id, end.name) == ("7", "end")
        assert await stream.next() is None


async def test_the_journal_of_a_run_that_has_ended_is_told_to_its_end(service: MemoryService) -> None:
    service.settle("r-1", WorkflowStatus.FAILED)
    async with served(app_over(service)) as server, streaming(server, "/runs/r-1/events/stream") as stream:
        assert [event.name for event in await stream.events(6)] == ["step_completed"] * 5 + ["end"]
        assert await stream.next() is None


@pytest.mark.parametrize(("query", "known"), [("", "3"), ("?after=1", "3"), ("?after=3", None)])
async def test_a_stream_goes_on_where_it_was_left(service: MemoryService, query: str, known: str | None) -> None:
    headers = {"Last_Event_ID": known} if known else {}
    async with (
        served(app_over(service)) as server,
        streaming(server, f"/runs/r-1/events/stream{query}", **headers) as stream,
    ):
        assert [event.id for event in await stream.events(2)] == ["4", "5"]


@pytest.mark.parametrize("known", ["9", "x", "-1", str(2**70)])
async def test_who_knows_what_is_not_there_is_told_to_look_again(service: MemoryService, known: str) -> None:
    async with (
        served(app_over(service)) as server,
        streaming(server, "/runs/r-1/events/stream", Last_Event_ID=known) as stream,
    ):
        resync, first = await stream.events(2)
    assert (resync.name, first.id) == ("resync", "1")


async def test_what_is_wrong_is_said_before_the_stream_begins(service: MemoryService) -> None:
    async with served(app_over(service)) as server, httpx.AsyncClient(base_url=server.url) as http:
        assert (await http.get(f"{API}/runs/nothing/events/stream")).status_code == 404
        assert (await http.get(f"{API}/runs/r-1/events/stream?after=x")).status_code == 400
        assert (await http.get(f"{API}/events/stream?after=1")).status_code == 400


# All of them


def tell(service: MemoryService, run_id: str = "r-1", status: WorkflowStatus = WorkflowStatus.RUNNING) -> None:
    service.feed.tell(run_id=run_id, workflow="checkout", status=status, step="pay", seq=4, at=1_796_088_727_123)


async def test_changes_are_told_as_they_come(service: MemoryService) -> None:
    tell(service)
    async with served(app_over(service)) as server, streaming(server, "/events/stream") as stream:
        tell(service, "r-2", WorkflowStatus.COMPLETED)
        change = await stream.next()

    assert change == Event(
        "run",
        "host-a:2",
        {
            "run_id": "r-2",
            "workflow": "checkout",
            "status": "COMPLETED",
            "step": "pay",
            "seq": 4,
            "at": "2026-12-01T01:32:07.123Z",
        },
    )


async def test_changes_are_told_again_to_who_missed_them(service: MemoryService) -> None:
    for _ in range(4):
        tell(service)
    async with (
        served(app_over(service)) as server,
        streaming(server, "/events/stream", Last_Event_ID="host-a:2") as stream,
    ):
        assert [event.id for event in await stream.events(2)] == ["host-a:3", "host-a:4"]


@pytest.mark.parametrize("known", ["host-a:0", "host-a:9", "host-b:3", "x", "host-a:", "host-a:-1"])
async def test_who_missed_too_much_is_told_to_look_again(service: MemoryService, known: str) -> None:
    for _ in range(4):
        tell(service)
    async with (
        served(app_over(service)) as server,
        streaming(server, "/events/stream", Last_Event_ID=known) as stream,
    ):
        resync = await stream.next()
        tell(service)
        change = await stream.next()
    assert resync == Event("resync", "host-a:4", {})
    assert change is not None
    assert change.id == "host-a:5"


def test_a_feed_keeps_the_last_changes_in_order() -> None:
    feed = Feed(kept=2)
    assert (feed.since(0), feed.since(1)) == ([], None)
    for seq in range(1, 4):
        feed.tell(run_id="r", workflow="w", status=WorkflowStatus.RUNNING, step=None, seq=seq, at=0)
    assert [change.seq for change in feed.since(1) or ()] == [2, 3]
    assert [change.seq for change in feed.since(2) or ()] == [3]
    assert (feed.since(0), feed.since(3), feed.since(4)) == (None, [], None)


# Farewells


@pytest.mark.parametrize("path", ["/runs/r-1/events/stream?after=5", "/events/stream"])
async def test_a_host_that_stops_says_bye(service: MemoryService, path: str) -> None:
    async with served(app_over(service)) as server, streaming(server, path) as stream:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_stop, server)
            bye = await stream.next()
            assert await stream.next() is None
        with anyio.fail_after(5):
            await server.stopped.wait()
    assert bye is not None
    assert bye.name == "bye"


async def _stop(server: Served) -> None:
    server.stop()


@pytest.mark.parametrize("path", ["/runs/r-1/events/stream?after=5", "/events/stream"])
async def test_a_silent_stream_is_kept_alive_as_long_as_its_token_is_good(
    service: MemoryService, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bext_workflow.faces.http.streams.PING_S", 0.02)
    service.callers = {"t": Caller(by="token:t", scopes=frozenset({"view"}))}
    async with (
        served(app_over(service)) as server,
        streaming(server, path, Authorization="Bearer t") as stream,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(_revoke_after_pings, service, stream)
        bye = await stream.next()
    assert bye is not None
    assert bye.name == "bye"
    assert len(stream.comments) >= 2


async def _revoke_after_pings(service: MemoryService, stream: Stream) -> None:
    while True:
        if len(stream.comments) >= 2:
            service.callers = {"other": Caller(by="token:other")}
            return
        await anyio.sleep(0.01)
