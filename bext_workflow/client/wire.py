"""Requests and answers: what is sent again, how an answer is read, which error a problem is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TypeVar

import anyio
import httpx
import msgspec

from bext_workflow import errors
from bext_workflow.errors import BextError, InvalidJson, NotAllowed, NotFound, TooManyRequests, Unavailable, UsageError
from bext_workflow.model.json import Json, JsonObject, dumps, verify

T = TypeVar("T")

PREFIX = "/api/v1"

POLL_MS = 30_000
"""The longest that one request waits for a result."""

RETRY_WAITS_S = (0.1, 0.3)
"""The waits before a request is sent again."""

_STREAM_TIMEOUT = httpx.Timeout(10, read=45)
"""A host lets nobody wait for longer than 15 s without a word."""

_TIMEOUT = httpx.Timeout(10, read=10 + POLL_MS / 1000)
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout)
"""Failures after which nothing has happened at the other end."""

_BROKEN = (*_NOT_SENT, httpx.NetworkError, httpx.RemoteProtocolError)
"""Failures of a connection: a request that may happen twice is sent again."""

_REFUSED = frozenset({429})
"""The statuses that say that nothing has happened."""

_LATER = _REFUSED | {503}
"""The statuses after which a request that may happen twice is sent again."""

_LONGEST_WAIT_S = 5.0

_BY_SLUG: Mapping[str, type[BextError]] = {
    kind.slug: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, BextError)
}


class _Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What the client reads of a problem (RFC 9457)."""

    type: str
    detail: str
    mend: str = ""


class Wire:
    """The connection to one host."""

    def __init__(self, url: str, token: str | None, transport: httpx.AsyncBaseTransport | None) -> None:
        self._url = url
        base = _base_url(url)
        self._http = httpx.AsyncClient(
            base_url=base,
            headers={b"Authorization": b"Bearer " + header_value(token, "token")} if token else None,
            timeout=_TIMEOUT,
            transport=transport,
            # No proxy stands before this machine itself; without TLS there is no need to load certificates (70 ms).
            trust_env=base.host not in _LOOPBACK,
            verify=base.scheme == "https",
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def send(
        self,
        method: str,
        path: str,
        *,
        parameters: Mapping[str, Json] | None = None,
        body: JsonObject | None = None,
        headers: Mapping[bytes, bytes] | None = None,
        repeatable: bool = False,
    ) -> httpx.Response:
        """A successful answer. Raises the `BextError` that a problem stands for, `Unavailable`, and `InvalidJson`."""
        given = {name: _text(value) for name, value in (parameters or {}).items() if value is not None}
        content = None if body is None else _json(body)
        sent = {**(headers or {}), **({} if body is None else {b"Content-Type": b"application/json"})}
        worth_repeating = _BROKEN if repeatable else _NOT_SENT
        asks_for_patience = _LATER if repeatable else _REFUSED
        waits = iter(RETRY_WAITS_S)
        while True:
            try:
                response = await self._http.request(
                    method, f"{PREFIX}{path}", params=given, content=content, headers=sent
                )
            except httpx.TransportError as error:
                wait = next(waits, None) if isinstance(error, worth_repeating) else None
                if wait is None:
                    raise self._unanswered(error, repeatable=repeatable) from error
                await anyio.sleep(wait)
            else:
                if response.is_success:
                    return response
                wait = next(waits, None) if response.status_code in asks_for_patience else None
                if wait is None:
                    raise self._error_of(response)
                await anyio.sleep(max(wait, _retry_after_s(response)))

    async def stream(self, path: str, *, last_event_id: str) -> AsyncIterator[tuple[str, bytes]]:
        """The (event, data) of a stream of server-sent events, to its end. Raises what `send` raises.

        A connection that fails, or is silent for longer than the host ever is, ends it with `Unavailable`.
        """
        try:
            async with self._http.stream(
                "GET", f"{PREFIX}{path}", headers={"Last-Event-ID": last_event_id}, timeout=_STREAM_TIMEOUT
            ) as response:
                if not response.is_success:
                    await response.aread()
                    raise self._error_of(response)
                name, data = "", b""
                async for line in response.aiter_lines():
                    field, _, value = line.partition(": ")
                    match field:
                        case "event":
                            name = value
                        case "data":
                            data = value.encode()
                        case "" if not line and name:
                            yield name, data
                            name, data = "", b""
        except httpx.TransportError as error:
            raise self._unanswered(error, repeatable=True) from error

    def decode(self, response: httpx.Response, kind: type[T]) -> T:
        """The view that an answer holds; numbers exactly as they were sent."""
        return self.read(response.content, kind)

    def read(self, text: bytes, kind: type[T]) -> T:
        """As `decode`, of a text that has come."""
        try:
            return msgspec.json.decode(text, type=kind)
        except msgspec.DecodeError as error:
            raise self._foreign(f"its answer cannot be read: {error}") from error

    def _unanswered(self, error: httpx.TransportError, *, repeatable: bool) -> Unavailable:
        reason = str(error) or type(error).__name__
        if repeatable or isinstance(error, _NOT_SENT):
            mend = f"start it with `bext-host serve`, or check the URL {self._url}"
        else:
            mend = "the host may have accepted the act: look at the run before you repeat it"
        return Unavailable(f"the host at {self._url} does not answer: {reason}", mend=mend)

    def _error_of(self, response: httpx.Response) -> BextError:
        try:
            problem = msgspec.json.decode(response.content, type=_Problem)
        except msgspec.DecodeError:
            return self._foreign(f"it answered {response.status_code} without a problem")
        kind = _BY_SLUG.get(problem.type.rpartition(":")[2]) or _by_status(response.status_code)
        if kind is InvalidJson:
            path, _, reason = problem.detail.partition(": ")
            return InvalidJson(reason, path=path, mend=problem.mend)
        if kind is TooManyRequests:
            return TooManyRequests(problem.detail, mend=problem.mend, retry_after_s=int(_retry_after_s(response)) or 1)
        return kind(problem.detail, mend=problem.mend)

    def _foreign(self, reason: str) -> Unavailable:
        return Unavailable(
            f"what answers at {self._url} is no host of this version: {reason}",
            mend="check the URL; `bext-host serve` says its own",
        )


def header_value(text: str, what: str) -> bytes:
    """`text` as a header carries it. Raises `UsageError` for what no header can carry."""
    if not text or not text.isprintable() or text != text.strip():
        raise UsageError(
            f"the {what} cannot be sent in an HTTP header", mend="use printable text without spaces around it"
        )
    return text.encode()


def _retry_after_s(response: httpx.Response) -> float:
    """When the host would like to be asked again, as far as anybody wants to wait here."""
    stated = response.headers.get("Retry-After", "")
    return min(float(stated), _LONGEST_WAIT_S) if stated.isascii() and stated.isdecimal() else 0.0


def _by_status(status: int) -> type[BextError]:
    """The error for a problem that only the HTTP face knows."""
    match status:
        case 401 | 403:
            return NotAllowed
        case 404:
            return NotFound
        case _ if status < 500:
            return UsageError
        case _:
            return BextError


def _base_url(url: str) -> httpx.URL:
    try:
        base = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise UsageError(f"{url!r} is not a URL: {error}", mend="write http://HOST:PORT") from None
    if base.scheme not in {"http", "https"} or not base.host or base.query or base.fragment:
        raise UsageError(f"{url!r} is not the URL of a host", mend="write http://HOST:PORT")
    return base


def _json(body: JsonObject) -> bytes:
    verify(body)
    return dumps(body)


def _text(value: Json) -> Json:
    """A query parameter as the server reads it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return [str(item) for item in value] if isinstance(value, list | tuple) else str(value)
