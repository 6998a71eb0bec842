"""What is posted outside, and where it must not lead."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bext_workflow.host.posting import Network, Post, PostFailed, permitted

LOOPBACK: list[Network] = [ipaddress.ip_network("127.0.0.0/8")]


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"),
        *("224.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1", "240.0.0.1"),
        *("::1", "::", "fe80::1", "fd00::1", "ff02::1", "2001:db8::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"),
    ],
)
def test_what_is_not_public_is_not_permitted(address: str) -> None:
    assert not permitted(ipaddress.ip_address(address), [])


@pytest.mark.parametrize("address", ["1.1.1.1", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"])
def test_what_is_public_is_permitted(address: str) -> None:
    assert permitted(ipaddress.ip_address(address), [])


def test_a_network_that_the_config_allows_is_permitted_in_every_spelling() -> None:
    inside = [ipaddress.ip_network("10.1.0.0/16")]
    for address in ("10.1.2.3", "::ffff:10.1.2.3"):
        assert permitted(ipaddress.ip_address(address), inside)
    assert not permitted(ipaddress.ip_address("10.2.0.1"), inside)


class Receiver:
    """Answers each connection with the same words, and keeps what it was sent."""

    def __init__(self, port: int, heard: list[bytes]) -> None:
        self.url = f"http://127.0.0.1:{port}/hook?a=b"
        self.port = port
        self.heard = heard


@asynccontextmanager
async def receiving(answer: bytes) -> AsyncIterator[Receiver]:
    heard: list[bytes] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(65_536))
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(hear, "127.0.0.1", 0)
    async with server:
        yield Receiver(server.sockets[0].getsockname()[1], heard)


@pytest.fixture
async def post() -> AsyncIterator[Post]:
    post = Post(LOOPBACK)
    yield post
    await post.close()


@pytest.mark.parametrize("status", [200, 204, 302, 410, 500])
async def test_the_status_is_what_was_answered_and_nobody_is_redirected(post: Post, status: int) -> None:
    answer = f"HTTP/1.1 {status} X\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n".encode()
    async with receiving(answer) as receiver:
        assert await post(receiver.url, b'{"a":1}', {"webhook-id": "m"}) == status

    (heard,) = receiver.heard
    assert heard.startswith(b"POST /hook?a=b HTTP/1.1\r\n")
    assert b"webhook-id: m\r\n" in heard


async def test_a_private_address_is_refused_before_it_is_connected_to() -> None:
    async with receiving(b"HTTP/1.1 200 X\r\nContent-Length: 0\r\n\r\n") as receiver:
        guarded = Post([])
        for url in (receiver.url, f"http://localhost:{receiver.port}/", f"http://[::ffff:127.0.0.1]:{receiver.port}/"):
            with pytest.raises(PostFailed, match="no public address"):
                await guarded(url, b"{}", {})
        await guarded.close()
    assert receiver.heard == []


async def test_a_name_is_resolved_once_and_that_address_is_connected_to(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that means another address when it is asked for again gains nothing by it."""
    asked = []

    async def resolve(host: str, port: int, **_: object) -> list[object]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1" if len(asked) == 1 else "10.0.0.1", port))]

    monkeypatch.setattr("bext_workflow.host.posting.anyio.getaddrinfo", resolve)
    async with receiving(b"HTTP/1.1 200 X\r\nContent-Length: 0\r\n\r\n") as receiver:
        assert await post(f"http://rebinding.example:{receiver.port}/", b"{}", {}) == 200

    assert asked == ["rebinding.example"]
    assert b"Host: rebinding.example:" in receiver.heard[0]


@pytest.mark.parametrize("answer", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 X\r\nContent-Length: 9\r\n\r\n"])
async def test_an_answer_that_is_none_is_a_failure(post: Post, answer: bytes) -> None:
    async with receiving(answer) as receiver:
        with pytest.raises(PostFailed):
            await post(receiver.url, b"{}", {})


async def test_nobody_there_is_a_failure(post: Post) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(PostFailed):
        await post(f"http://127.0.0.1:{port}/", b"{}", {})


async def test_an_endless_answer_is_not_read_to_its_end(post: Post) -> None:
    answer = b"HTTP/1.1 200 X\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 50_000
    async with receiving(answer) as receiver:
        assert await post(receiver.url, b"{}", {}) == 200
