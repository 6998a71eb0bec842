"""What the client does when connections fail."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable

import anyio
import httpx
import pytest

from bext_workflow.client import HttpClient
from bext_workflow.errors import NotFound, StoreUnavailable, TooManyRequests, Unavailable
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.service.protocols import CancelRequest, RunQuery, StartRequest
from tests.unit.http_support import URL, MemoryService, app_over, run_view, served

REFUSED = httpx.ConnectError("refused")
BROKEN = (httpx.ReadError("reset"), httpx.RemoteProtocolError("hung up"), httpx.WriteError("broken pipe"))


class Failing(httpx.AsyncBaseTransport):
    """A network over which every request arrives; `failures` of its answers are lost, or, `early`, of the requests."""

    def __init__(self, service: MemoryService, error: httpx.TransportError, failures: int, *, early: bool) -> None:
        self._inner = httpx.ASGITransport(app_over(service))
        self._error = error
        self._left = failures
        self._early = early
        self.keys: list[str] = []
        self.sent = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.sent += 1
        self.keys.append(request.headers.get("idempotency-key", ""))
        failing, self._left = self._left > 0, self._left - 1
        if failing and self._early:
            raise self._error
        response = await self._inner.handle_async_request(request)
        if failing:
            raise self._error
        return response


@pytest.fixture
def service() -> MemoryService:
    service = MemoryService()
    service.add(run_view("r-1"))
    return service


@pytest.mark.parametrize("error", [REFUSED, *BROKEN], ids=lambda error: type(error).__name__)
async def test_a_read_is_sent_again(service: MemoryService, error: httpx.TransportError) -> None:
    network = Failing(service, error, 2, early=True)

    async with HttpClient(URL, transport=network) as client:
        run = await client.get("r-1")

    assert run.run_id == "r-1"
    assert network.sent == 3


@pytest.mark.parametrize("key", ["order-1", None])
async def test_a_start_whose_answer_was_lost_starts_one_run(service: MemoryService, key: str | None) -> None:
    """Semantics §6: the client always sends a key, the same each time."""
    network = Failing(service, BROKEN[0], 2, early=False)

    async with HttpClient(URL, transport=network) as client:
        started = await client.start(StartRequest(workflow="checkout", key=key))
        runs = (await client.list(RunQuery())).items

    assert started.created is False
    assert [run.run_id for run in runs] == ["r-1", started.run.run_id]
    assert len(set(network.keys[:3])) == 1
    assert network.keys[0]


@pytest.mark.parametrize("error", BROKEN, ids=lambda error: type(error).__name__)
async def test_an_act_is_never_sent_twice(service: MemoryService, error: httpx.TransportError) -> None:
    network = Failing(service, error, 1, early=False)

    async with HttpClient(URL, transport=network) as client:
        with pytest.raises(Unavailable) as caught:
            await client.cancel("r-1", CancelRequest())

    assert network.sent == 1
    assert "may have accepted" in caught.value.mend


async def test_an_act_that_never_left_is_sent_again(service: MemoryService) -> None:
    network = Failing(service, REFUSED, 1, early=True)

    async with HttpClient(URL, transport=network) as client:
        await client.cancel("r-1", CancelRequest())

    assert [call for call, _ in service.asked] == ["cancel"]


async def test_a_host_that_is_silent_is_asked_once(service: MemoryService) -> None:
    network = Failing(service, httpx.ReadTimeout(""), 9, early=True)

    async with HttpClient(URL, transport=network) as client:
        with pytest.raises(Unavailable, match="ReadTimeout"):
            await client.get("r-1")

    assert network.sent == 1


async def test_an_answer_that_is_a_problem_is_not_asked_for_again(service: MemoryService) -> None:
    network = Failing(service, REFUSED, 0, early=True)

    async with HttpClient(URL, transport=network) as client:
        with pytest.raises(NotFound):
            await client.get("nothing")

    assert network.sent == 1


class Impatient(httpx.AsyncBaseTransport):
    """A host that asks for patience so often; what comes then is carried out."""

    def __init__(self, service: MemoryService, status: int, times: int) -> None:
        self._inner = httpx.ASGITransport(app_over(service))
        self._status = status
        self._left = times
        self.sent = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.sent += 1
        self._left -= 1
        if self._left < 0:
            return await self._inner.handle_async_request(request)
        slug = "too-many-requests" if self._status == 429 else "store-unavailable"
        problem = {"type": f"urn:bext:problem:{slug}", "detail": "later"}
        return httpx.Response(self._status, json=problem, headers={"Retry-After": "3"})


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits of the client, which take no time."""
    waits: list[float] = []

    async def sleep(wait_s: float) -> None:
        waits.append(wait_s)

    monkeypatch.setattr("bext_workflow.client.wire.anyio.sleep", sleep)
    return waits


@pytest.mark.parametrize("status", [429, 503])
async def test_a_host_that_asks_for_patience_is_asked_again_when_it_says(
    service: MemoryService, slept: list[float], status: int
) -> None:
    network = Impatient(service, status, 2)
    async with HttpClient(URL, transport=network) as client:
        started = await client.start(StartRequest(workflow="checkout"))

    assert started.created
    assert (network.sent, slept) == (3, [3.0, 3.0])


async def test_patience_has_an_end(service: MemoryService, slept: list[float]) -> None:
    network = Impatient(service, 429, 9)
    async with HttpClient(URL, transport=network) as client:
        with pytest.raises(TooManyRequests) as caught:
            await client.get("r-1")

    assert (network.sent, caught.value.retry_after_s) == (3, 3)


async def test_an_act_that_was_refused_is_sent_again_and_one_that_may_have_been_taken_is_not(
    service: MemoryService, slept: list[float]
) -> None:
    async with HttpClient(URL, transport=Impatient(service, 429, 1)) as client:
        await client.cancel("r-1", CancelRequest())
    assert slept == [3.0]

    network = Impatient(service, 503, 1)
    async with HttpClient(URL, transport=network) as client:
        with pytest.raises(StoreUnavailable):
            await client.cancel("r-1", CancelRequest())
    assert network.sent == 1


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


ACTS: dict[str, Callable[[HttpClient], Awaitable[object]]] = {
    "get": lambda client: client.get("r-1"),
    "start": lambda client: client.start(StartRequest(workflow="checkout")),
    "cancel": lambda client: client.cancel("r-1", CancelRequest()),
}


@pytest.mark.parametrize("act", ACTS)
async def test_nobody_there_is_one_error_with_the_url_and_the_mend(act: str) -> None:
    url = f"http://127.0.0.1:{free_port()}"

    async with HttpClient(url) as client:
        with anyio.fail_after(5), pytest.raises(Unavailable) as caught:
            await ACTS[act](client)

    assert url in caught.value.message
    assert "bext-host serve" in caught.value.mend


async def test_a_proxy_of_the_environment_does_not_stand_before_this_machine(
    service: MemoryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")

    async with served(app_over(service)) as server, HttpClient(server.url) as client:
        assert (await client.get("r-1")).run_id == "r-1"


async def test_client_and_server_over_a_socket(service: MemoryService) -> None:
    async with served(app_over(service)) as server, HttpClient(server.url) as client:
        context = {"big": 2**63 - 1, "float": 1.0, "text": "Ω"}
        started = await client.start(StartRequest(workflow="checkout", context=context, key="süß"))
        assert started.created
        assert repr(started.run.context) == repr(context)

        async with anyio.create_task_group() as tasks:

            async def settle() -> None:
                await service.waiting.wait()
                service.settle(started.run.run_id, WorkflowStatus.COMPLETED)

            tasks.start_soon(settle)
            with anyio.fail_after(10):
                run = await client.result(started.run.run_id, wait_ms=60_000)

    assert run.status == "COMPLETED"
    assert run.key == "süß"


async def test_a_wait_is_an_error_once_its_host_has_stopped(service: MemoryService) -> None:
    async with served(app_over(service)) as server, HttpClient(server.url) as client:

        async def stop() -> None:
            await service.waiting.wait()
            server.stop()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop)
            with anyio.fail_after(10), pytest.raises(Unavailable):
                await client.result("r-1", wait_ms=60_000)
