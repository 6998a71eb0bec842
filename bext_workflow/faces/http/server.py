"""Serving the face: uvicorn as one task of the host, which alone listens to signals."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import anyio
import uvicorn

from bext_workflow.errors import Conflict, UsageError
from bext_workflow.faces.http.app import HttpApp

GRACE_S = 3
"""How long a stopping server lets requests in progress go on."""

KEEP_ALIVE_S = 15
"""Longer than the client keeps an idle connection, so that it never sends into one that is being closed here."""


class Door(NamedTuple):
    """An address that is listened on, and its URL. Who comes before it is served waits."""

    socket: socket.socket
    url: str


@contextmanager
def opened(host: str, port: int) -> Iterator[Door]:
    """A door for the time of the block; a `port` of 0 takes a free one.

    Raises `Conflict` for an address in use and `UsageError` for one that cannot be listened on.
    """
    with _listen(host, port) as listener:
        yield Door(listener, _url(host, listener))


async def serve_http(app: HttpApp, door: Door, *, started: Callable[[], None]) -> None:
    """Serves until it is cancelled; then it answers what is in progress, within `GRACE_S` seconds, and ends.

    `started` is called once connections are accepted.
    """
    server = _Server(app, ready=started)

    async def serve() -> None:
        # Cancelled is only the wait below: the server must live on to say goodbye.
        with anyio.CancelScope(shield=True):
            await server.serve([door.socket])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve, name="http")
        try:
            await anyio.sleep_forever()
        finally:
            server.stop()
            app.close()


class _Server(uvicorn.Server):
    """uvicorn without signal handlers, with a callback when it accepts connections."""

    def __init__(self, app: HttpApp, *, ready: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="off",
                ws="none",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=GRACE_S,
            )
        )
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def stop(self) -> None:
        self.should_exit = True


def _listen(host: str, port: int) -> socket.socket:
    """A socket bound to the first address of `host`, IPv4 first: what a name of loopback usually means."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, _, _, _, address = min(addresses, key=lambda found: found[0] != socket.AF_INET)
        return socket.create_server(address, family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise Conflict(
                f"{host}:{port} is in use", mend="stop what listens there, or take another address with --listen"
            ) from None
        reason = error.strerror or str(error)
        raise UsageError(
            f"cannot listen on {host}:{port}: {reason}", mend="take another address with --listen"
        ) from None


def _url(host: str, listener: socket.socket) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listener.getsockname()[1]}"
