"""The server on a real socket: what only a connection shows."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket

import anyio
import httpx
import pytest

from bext_workflow.errors import Conflict, UsageError
from bext_workflow.faces.http.server import GRACE_S, opened
from bext_workflow.model.status import WorkflowStatus
from tests.unit.http_support import API, MemoryService, app_over, body_of, run_view, served


async def test_it_says_where_it_listens_once_it_answers() -> None:
    async with served(app_over(MemoryService())) as server, httpx.AsyncClient(base_url=server.url) as http:
        response = await http.get("/livez")

    assert response.status_code == 200
    assert httpx.URL(server.url).host == "127.0.0.1"
    assert httpx.URL(server.url).port != 0
    assert "server" not in response.headers


def ipv6_is_here() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("localhost", "http://localhost:"),
        pytest.param("::1", "http://[::1]:", marks=pytest.mark.skipif(not ipv6_is_here(), reason="no IPv6 here")),
    ],
)
async def test_it_listens_on_a_name_and_on_ipv6(host: str, shown: str) -> None:
    async with served(app_over(MemoryService()), host) as server, httpx.AsyncClient() as http:
        assert server.url.startswith(shown)
        assert (await http.get(f"{server.url}/livez")).status_code == 200


def open_door(host: str, port: int) -> None:
    with opened(host, port):
        pytest.fail("it must not open")


def test_an_address_in_use_is_one_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(Conflict, match=f"127.0.0.1:{port} is in use") as caught:
            open_door("127.0.0.1", port)
    assert "--listen" in caught.value.mend


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid"])
def test_an_address_that_is_not_here_is_one_clear_error(host: str) -> None:
    with pytest.raises(UsageError, match=f"cannot listen on {host}:1234"):
        open_door(host, 1234)


async def test_a_stop_answers_the_requests_that_wait() -> None:
    """P50: a long poll of a minute does not hold the drain; it is answered with the run as it is."""
    service = MemoryService()
    service.add(run_view("r-1"))
    answers: list[httpx.Response] = []

    async with served(app_over(service)) as server:

        async def wait_for_result() -> None:
            async with httpx.AsyncClient(base_url=server.url) as http:
                answers.append(await http.get(f"{API}/runs/r-1/result?wait=60s", timeout=90))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait_for_result)
            await service.waiting.wait()
            server.stop()
            with anyio.fail_after(GRACE_S):
                await server.stopped.wait()

    assert [(answer.status_code, body_of(answer)["status"]) for answer in answers] == [(200, "RUNNING")]


async def test_a_poll_that_comes_while_the_server_stops_does_not_wait() -> None:
    service = MemoryService()
    service.add(run_view("r-1"))
    app = app_over(service)
    app.close()

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
        with anyio.fail_after(5):
            response = await http.get(f"{API}/runs/r-1/result?wait=60s")

    assert body_of(response)["status"] == "RUNNING"


async def test_a_result_is_answered_when_the_run_ends() -> None:
    service = MemoryService()
    service.add(run_view("r-1"))

    async def settle() -> None:
        await service.waiting.wait()
        service.settle("r-1", WorkflowStatus.COMPENSATED)

    async with served(app_over(service)) as server, anyio.create_task_group() as tasks:
        tasks.start_soon(settle)
        async with httpx.AsyncClient(base_url=server.url) as http:
            with anyio.fail_after(10):
                response = await http.get(f"{API}/runs/r-1/result?wait=60s", timeout=90)

    assert body_of(response)["status"] == "COMPENSATED"


async def test_a_caller_that_never_finishes_does_not_hold_the_stop() -> None:
    """P50: the stop is bounded, whoever is connected; nothing is left open behind it."""
    async with served(app_over(MemoryService())) as server:
        _, writer = await asyncio.open_connection(*server.address)
        writer.write(b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        writer.write(b"Content-Length: 9\r\n\r\n{")
        await writer.drain()
        async with httpx.AsyncClient(base_url=server.url) as http:
            await http.get("/livez")

        server.stop()
        with anyio.fail_after(GRACE_S + 2):
            await server.stopped.wait()
        writer.close()
    gc.collect()


async def test_an_idle_connection_does_not_hold_the_stop() -> None:
    async with served(app_over(MemoryService())) as server, httpx.AsyncClient(base_url=server.url) as http:
        await http.get("/livez")

        server.stop()
        with anyio.fail_after(GRACE_S / 2):
            await server.stopped.wait()


async def test_signals_are_left_to_the_host() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    async with served(app_over(MemoryService())):
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


async def test_the_answer_413_arrives_although_the_body_was_not_read() -> None:
    async with served(app_over(MemoryService())) as server, httpx.AsyncClient(base_url=server.url) as http:
        for _ in range(20):
            response = await http.post(
                f"{API}/runs", content=b"x" * 2_000_000, headers={"Content-Type": "application/json"}
            )
            assert response.status_code == 413


async def test_nothing_is_printed_or_logged_by_the_server(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    async with served(app_over(MemoryService())) as server, httpx.AsyncClient(base_url=server.url) as http:
        await http.get("/livez")
        await http.get("/nowhere")

    assert capfd.readouterr() == ("", "")
    assert [record.message for record in caplog.records if record.name.startswith("uvicorn")] == []
