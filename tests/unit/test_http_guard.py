from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.http_support import API, MemoryService, app_over, body_of, requests_to

START = {"workflow": "checkout"}


@pytest.fixture
def service() -> MemoryService:
    return MemoryService()


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.1:7420", "localhost:1", "LocalHost", "[::1]:7420", "[::1]", "bext.lan:80", "[fd00::1]"],
)
async def test_a_name_of_this_host_is_let_in(service: MemoryService, host: str) -> None:
    async with requests_to(app_over(service, allowed_hosts=["Bext.lan", "fd00::1"])) as http:
        assert (await http.get("/livez", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:7420", "127.0.0.1.evil.example", "localhost.", "", "127.0.0.1:7420:1", "::1"]
)
async def test_a_forged_host_is_refused_everywhere(service: MemoryService, host: str) -> None:
    """A page that rebinds its DNS name to loopback still sends its own name."""
    async with requests_to(app_over(service)) as http:
        for method, path in (("GET", "/livez"), ("GET", f"{API}/runs"), ("POST", f"{API}/runs")):
            response = await http.request(method, path, headers={"Host": host})
            assert response.status_code == 421
            assert body_of(response)["type"] == "urn:bext:problem:host-not-allowed"
    assert service.asked == []


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "http://localhost:7420", "garbage", ""]
)
async def test_a_page_of_another_origin_may_not_act(service: MemoryService, origin: str) -> None:
    async with requests_to(app_over(service)) as http:
        for path in ("runs", "runs/r-1/cancel", "runs/r-1/retry", "incidents/i-1/resolve"):
            response = await http.post(f"{API}/{path}", json=START, headers={"Origin": origin})
            assert response.status_code == 403
            assert body_of(response)["type"] == "urn:bext:problem:origin-not-allowed"
    assert service.asked == []


async def test_a_page_of_this_origin_may_act_and_no_page_is_let_read_across_origins(service: MemoryService) -> None:
    async with requests_to(app_over(service)) as http:
        same = await http.post(f"{API}/runs", json=START, headers={"Origin": "http://127.0.0.1:7420"})
        other = await http.get(f"{API}/runs", headers={"Origin": "http://evil.example"})
        asked_before = await http.options(f"{API}/runs", headers={"Origin": "http://evil.example"})

    assert same.status_code == 201
    assert other.status_code == 200
    for response in (same, other, asked_before):
        assert not [name for name in response.headers if name.startswith("access-control-")]


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp", ""]
)
async def test_a_body_of_another_content_type_is_refused(service: MemoryService, content_type: str) -> None:
    async with requests_to(app_over(service)) as http:
        for path in ("runs", "runs/r-1/cancel", "runs/r-1/retry", "incidents/i-1/resolve"):
            response = await http.post(f"{API}/{path}", content=b"{}", headers={"Content-Type": content_type})
            assert response.status_code == 415
            assert "application/json" in body_of(response)["mend"]
    assert service.asked == []


async def test_a_body_without_a_content_type_is_refused(service: MemoryService) -> None:
    async with requests_to(app_over(service)) as http:
        assert (await http.post(f"{API}/runs", content=b"{}")).status_code == 415


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON"])
async def test_json_is_json_however_it_is_written(service: MemoryService, content_type: str) -> None:
    async with requests_to(app_over(service)) as http:
        body = b'{"workflow": "checkout"}'
        response = await http.post(f"{API}/runs", content=body, headers={"Content-Type": content_type})

    assert response.status_code == 201


LIMIT = 1000
JSON = {"Content-Type": "application/json"}


def body_of_size(size: int) -> bytes:
    frame = b'{"workflow": "checkout", "context": {"a": ""}}'
    return frame.replace(b'""', b'"' + b"x" * (size - len(frame)) + b'"')


async def test_a_body_may_be_as_large_as_the_limit(service: MemoryService) -> None:
    async with requests_to(app_over(service, max_body_bytes=LIMIT)) as http:
        assert (await http.post(f"{API}/runs", content=body_of_size(LIMIT), headers=JSON)).status_code == 201
        refused = await http.post(f"{API}/runs", content=body_of_size(LIMIT + 1), headers=JSON)

    assert refused.status_code == 413
    assert str(LIMIT) in body_of(refused)["detail"]
    assert len(service.asked) == 1


async def test_a_body_of_unknown_length_is_cut_off_at_the_limit(service: MemoryService) -> None:
    """The limit holds while the body streams in: of an endless one, little more than the limit is read."""
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 100
            yield b"x" * 100

    async with requests_to(app_over(service, max_body_bytes=LIMIT)) as http:
        response = await http.post(f"{API}/runs", content=endless(), headers=JSON)

    assert response.status_code == 413
    assert sent <= LIMIT + 200


async def test_a_body_that_says_it_is_too_large_is_not_read_at_all(service: MemoryService) -> None:
    read = False

    async def body() -> AsyncIterator[bytes]:
        nonlocal read
        read = True
        yield body_of_size(LIMIT + 1)

    async with requests_to(app_over(service, max_body_bytes=LIMIT)) as http:
        response = await http.post(f"{API}/runs", content=body(), headers={**JSON, "Content-Length": str(LIMIT + 1)})

    assert response.status_code == 413
    assert not read
