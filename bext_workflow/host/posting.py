"""The way out: a POST to an address of somebody else's choosing, which must not lead back inside.

The name is resolved once, and that very address is connected to: a second look-up could find another one. What is no
address of the public internet is refused, unless the config allows its network. Nobody is redirected, and no proxy of
the environment is used.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

import anyio
import httpcore
import httpx

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_SocketOption: TypeAlias = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]

TIMEOUTS = {"connect": 5.0, "read": 10.0, "write": 10.0, "pool": 5.0}
ATTEMPT_S = 20.0
MOST_CONNECTIONS = 20
_READ_BYTES = 16_384
_BY_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class PostFailed(Exception):
    """Nobody took it; the message says why."""


class Post:
    """Sends; to be closed with `close`."""

    def __init__(self, allowed: Sequence[Network]) -> None:
        self._allowed = allowed

    async def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        """The status of the answer. Raises `PostFailed`."""
        try:
            with anyio.fail_after(ATTEMPT_S):
                async with self._pool.stream(
                    "POST", url, headers=list(headers.items()), content=body, extensions={"timeout": TIMEOUTS}
                ) as response:
                    return await _status_of(response)
        except TimeoutError:
            raise PostFailed(f"no answer within {ATTEMPT_S:.0f} s") from None
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError) as error:
            raise PostFailed(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        if "_pool" in vars(self):
            await self._pool.aclose()

    @cached_property
    def _pool(self) -> httpcore.AsyncConnectionPool:
        return httpcore.AsyncConnectionPool(
            ssl_context=httpx.create_ssl_context(),
            max_connections=MOST_CONNECTIONS,
            # A connection that is kept would be to an address that was looked up long ago.
            max_keepalive_connections=0,
            network_backend=GuardedNetwork(self._allowed),
        )


class GuardedNetwork(httpcore.AsyncNetworkBackend):
    """Connects to what it has resolved itself, and to no address that is not permitted."""

    def __init__(self, allowed: Sequence[Network]) -> None:
        self._allowed = allowed
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[_SocketOption] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        address = await _resolved(host, port)
        if not permitted(address, self._allowed):
            raise httpcore.ConnectError(
                f"{host} is {address}, which is no public address, and [host.webhooks] allow does not list it"
            )
        return await self._inner.connect_tcp(str(address), port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


def permitted(address: _Address, allowed: Sequence[Network]) -> bool:
    """Whether anything may be sent there."""
    real = _real(address)
    if any(real in network for network in allowed):
        return True
    return real.is_global and not real.is_multicast and not real.is_reserved


def _real(address: _Address) -> _Address:
    """The IPv4 address that an IPv6 one stands for, if it does: it leads to the same place."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _BY_NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


async def _resolved(host: str, port: int) -> _Address:
    """The first address that the system knows for the name."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return ipaddress.ip_address(found[0][4][0].partition("%")[0])


async def _status_of(response: httpcore.Response) -> int:
    """Reads of the answer no more than it takes to be polite."""
    read = 0
    async for part in response.aiter_stream():
        read += len(part)
        if read > _READ_BYTES:
            break
    return response.status
