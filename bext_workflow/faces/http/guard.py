"""What is checked before any route is looked for, and what is caught after: Host, Origin, size, faults of our own."""

from __future__ import annotations

import logging
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bext_workflow.errors import BextError, UsageError
from bext_workflow.faces.http.problem import BodyTooLarge, HostRefused, OriginRefused, problem_response

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
READING_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

log = logging.getLogger("bext_workflow.http")


class Guard:
    """An ASGI application before another one.

    A page in a browser reaches a server on loopback too. The Host list stops the one that rebinds its own name to
    127.0.0.1, the Origin check the one that posts across origins.
    """

    def __init__(self, app: ASGIApp, *, allowed_hosts: Collection[str], max_body_bytes: int) -> None:
        self._app = app
        self._hosts = LOOPBACK_NAMES | {_bracketed(name.lower()) for name in allowed_hosts}
        self._max_body = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await problem_response(refusal)(scope, receive, send)
            return
        try:
            await self._app(scope, _bounded(receive, self._max_body), send)
        except ClientDisconnect:
            return
        except Exception:
            # The application has answered 500 by now and hands the error on to whoever logs it.
            log.exception("%s %r failed", scope["method"], scope["path"])

    def _refusal(self, scope: Scope) -> BextError | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        if _without_port(host) not in self._hosts:
            return HostRefused(f"this host is not {host!r}", mend="use the address that it listens on")
        origin = headers.get("origin")
        if scope["method"] not in READING_METHODS and origin is not None and urlsplit(origin).netloc.lower() != host:
            return OriginRefused(f"a page of {origin!r} may not act here", mend="act from this host's own pages")
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            return UsageError("the address holds a NUL character", mend="leave it out")
        length = headers.get("content-length", "0")
        return _too_large(self._max_body) if length.isdecimal() and int(length) > self._max_body else None


def _bounded(receive: Receive, limit: int) -> Receive:
    """A `receive` that raises `BodyTooLarge` as soon as more than `limit` bytes have come."""
    seen = 0

    async def bounded() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise _too_large(limit)
        return message

    return bounded


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(
        f"the body is over the limit of {limit} bytes", mend="keep large data elsewhere and put a reference to it here"
    )


def _without_port(host: str) -> str:
    """`[::1]` of `[::1]:7420`."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() and not host.endswith("]") else host


def _bracketed(name: str) -> str:
    """A name as it stands in a Host header."""
    return f"[{name}]" if ":" in name and not name.startswith("[") else name
