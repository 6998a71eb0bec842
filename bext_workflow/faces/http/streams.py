"""Server-sent events: the journal of a run as it grows, and what changes in all runs.

The events of a stream, besides those that it is about: `resync` (what the client knew last is not here any more: look
at the whole again), `end` (nothing comes any more), `bye` (the host stops: come again, with `Last-Event-ID`). A comment
is sent when nothing else was for a while, so that nobody in between closes the connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from enum import Enum
from functools import partial

import anyio
import msgspec
from fastapi import APIRouter, Request, Response
from starlette.responses import StreamingResponse

from bext_workflow.errors import NotAllowed
from bext_workflow.faces.http.access import bearer_of
from bext_workflow.faces.http.answer import ALWAYS
from bext_workflow.faces.http.longpoll import LongPolls
from bext_workflow.faces.http.openapi import documented, streamed
from bext_workflow.faces.http.reading import read_query
from bext_workflow.faces.http.shapes import NoParameters, StreamParameters
from bext_workflow.model.access import Right
from bext_workflow.model.json import INT_MAX
from bext_workflow.model.view import ChangeView, EventView, instant
from bext_workflow.service.administration import Access
from bext_workflow.service.feed import Change
from bext_workflow.service.protocols import MAX_LIMIT, HostView, Runs

MEDIA_TYPE = "text/event-stream"

LOOK_S = 0.5
"""How often the journal of a run is looked at for more: another host may write it."""

PING_S = 15.0
"""After so long without an event a comment is sent, and whoever listens must still be allowed to."""

_RETRY = b"retry: 2000\n\n"
_PING = b": ping\n\n"
_BYE = b"event: bye\ndata: {}\n\n"


class _Told(Enum):
    """What a wait may end with but news."""

    NOTHING = 0
    CLOSED = 1


class StreamRoutes:
    """The handlers."""

    def __init__(self, runs: Runs, host: HostView, access: Access, polls: LongPolls) -> None:
        self._runs = runs
        self._host = host
        self._access = access
        self._polls = polls

    def router(self) -> APIRouter:
        router = APIRouter(tags=["streams"])
        add = router.add_api_route
        add("/runs/{run_id}/events/stream", self.stream_events, methods=["GET"], **_EVENTS)
        add("/events/stream", self.stream_changes, methods=["GET"], **_CHANGES)
        return router

    async def stream_events(self, request: Request, run_id: str) -> Response:
        """Whatever is wrong with the request is said before the stream begins."""
        stated = read_query(request, StreamParameters).after
        run = await self._runs.get(run_id)
        known = request.headers.get("last-event-id", str(stated))
        after = int(known) if known.isascii() and known.isdigit() and int(known) <= INT_MAX else None
        return self._stream(request, self._events(request, run.run_id, after))

    async def stream_changes(self, request: Request) -> Response:
        read_query(request, NoParameters)
        return self._stream(request, self._changes(request, request.headers.get("last-event-id")))

    def _stream(self, request: Request, parts: AsyncIterator[bytes]) -> Response:
        return StreamingResponse(parts, media_type=MEDIA_TYPE, headers={**ALWAYS, "X-Accel-Buffering": "no"})

    async def _events(self, request: Request, run_id: str, after: int | None) -> AsyncIterator[bytes]:
        yield _RETRY
        if after is None or await self._is_ahead(run_id, after):
            yield _event("resync", b"{}")
            after = 0
        while True:
            run = await self._runs.get(run_id)  # before its events: of one that has ended then, these are all
            page = await self._runs.events(run_id, after=after, limit=MAX_LIMIT)
            for event in page.items:
                after = event.seq
                yield _event(event.kind, msgspec.json.encode(event), id=str(event.seq))
            if page.items:
                continue
            if run.status.terminal:
                yield _event("end", b"{}")
                return
            async for part in self._until(request, partial(self._grown, run_id, after)):
                yield part
                if part == _BYE:
                    return

    async def _is_ahead(self, run_id: str, after: int) -> bool:
        """Whether a journal is known that this run does not have."""
        return after > 0 and not (await self._runs.events(run_id, after=after - 1, limit=1)).items

    async def _grown(self, run_id: str, after: int) -> None:
        while True:
            if (await self._runs.events(run_id, after=after, limit=1)).items:
                return
            await anyio.sleep(LOOK_S)

    async def _changes(self, request: Request, known: str | None) -> AsyncIterator[bytes]:
        feed, prefix = self._host.feed, f"{self._host.host_id}:"
        yield _RETRY
        n = feed.last
        if known is not None:
            number = known.removeprefix(prefix)
            n = int(number) if known.startswith(prefix) and number.isdecimal() else -1
        while True:
            changes = feed.since(n)
            if changes is None:
                n = feed.last
                yield _event("resync", b"{}", id=f"{prefix}{n}")
                continue
            for change in changes:
                n = change.n
                yield _event("run", msgspec.json.encode(_view(change)), id=f"{prefix}{n}")
            async for part in self._until(request, partial(feed.news, n)):
                yield part
                if part == _BYE:
                    return

    async def _until(self, request: Request, news: Callable[[], Awaitable[None]]) -> AsyncIterator[bytes]:
        """Comments until there are news, or a farewell."""
        while True:
            match await self._polls.wait(lambda: _within(news), otherwise=_closed):
                case _Told.CLOSED:
                    yield _BYE
                    return
                case _Told.NOTHING:
                    try:
                        (await self._access.caller(bearer_of(request))).require(Right.VIEW)
                    except NotAllowed:
                        yield _BYE
                        return
                    yield _PING
                case None:
                    return


async def _within(news: Callable[[], Awaitable[None]]) -> _Told | None:
    with anyio.move_on_after(PING_S):
        await news()
        return None
    return _Told.NOTHING


async def _closed() -> _Told | None:
    return _Told.CLOSED


def _event(name: str, data: bytes, *, id: str | None = None) -> bytes:
    """One event; JSON of msgspec has no line ends."""
    head = f"event: {name}\n" if id is None else f"event: {name}\nid: {id}\n"
    return head.encode() + b"data: " + data + b"\n\n"


def _view(change: Change) -> ChangeView:
    return ChangeView(
        run_id=change.run_id,
        workflow=change.workflow,
        status=change.status,
        step=change.step,
        seq=change.seq,
        at=instant(change.at),
    )


_EVENTS = streamed(
    documented(
        "The journal of a run as it grows, as server-sent events; `Last-Event-ID` or `after` say from where on",
        EventView,
        needs=Right.VIEW,
        query=StreamParameters,
        problems=[400, 404, 409],
    )
)
_CHANGES = streamed(
    documented(
        "What this host journals of all runs, as server-sent events; `Last-Event-ID` says from where on",
        ChangeView,
        needs=Right.VIEW,
        problems=[400],
    )
)
