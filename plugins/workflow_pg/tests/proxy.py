"""A TCP proxy before a PostgreSQL server that reads along, and cuts, holds or delays what a test says.

An exchange is what a client sends until it waits for an answer. It has a name: that of the statement in the store's SQL
files, or the statement's own words, such as COMMIT.
"""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from enum import Enum
from struct import unpack

import msgspec

from bext_workflow_pg.store import queries

_FILES = (
    "acts.sql",
    "claims.sql",
    "reading.sql",
    "schedules.sql",
    "schema.sql",
    "stepping.sql",
    "verdict.sql",
    "write.sql",
)
_NAMES = {statement: name for file in _FILES for name, statement in queries.load(file).items()}
_SSL_REQUEST = 80877103
_LOST = (OSError, asyncio.IncompleteReadError)


class Loss(Enum):
    """What is lost of an exchange: all of it, its answer, or the time in which somebody waits for it."""

    BEFORE = "before"
    AFTER = "after"
    LATE = "late"


class Cut(msgspec.Struct, frozen=True):
    """The `nth` exchange of that name, and how it gets lost. One that is late is held until `Proxy.release`.

    `behind`: counts only on a connection that has had an exchange of this name before.
    """

    name: str
    nth: int
    loss: Loss
    behind: str = ""


class Proxy:
    """On `port` of this machine, while `proxied` runs."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._links: set[_Link] = set()
        self._cut: Cut | None = None
        self.port = 0
        self.exchanges: Counter[str] = Counter()
        """How many of each name there have been since the counting began."""
        self.has_cut = False
        self.delay_s = 0.0
        """What each exchange is held up."""
        self.refuses = False
        """New connections are closed at once."""
        self.release = asyncio.Event()
        """Set: what was to be late goes on."""
        self.flowing = asyncio.Event()
        """While it is not set nothing gets through, either way, and no connection is closed."""
        self.flowing.set()

    def count(self, cut: Cut | None = None) -> None:
        """Counts from here on, up to the cut."""
        self._cut, self.has_cut = cut, False
        self.exchanges.clear()

    def cut_all(self) -> None:
        """Ends every connection."""
        for link in list(self._links):
            link.abort()

    def next(self, name: str, had: Collection[str]) -> Cut | None:
        """The cut, if it is due at this exchange; `had` are those that its connection has had before."""
        cut = self._cut
        if cut is not None and cut.behind and cut.behind not in had:
            return None
        self.exchanges[name] += 1
        if cut is None or cut.name != name or cut.nth != self.exchanges[name]:
            return None
        self._cut, self.has_cut = None, True
        return cut

    async def serve(self, client: StreamReader, to_client: StreamWriter) -> None:
        """One connection, to its end."""
        if self.refuses:
            to_client.transport.abort()
            return
        try:
            server, to_server = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            to_client.transport.abort()
            return
        link = _Link(self, client, to_client, server, to_server)
        self._links.add(link)
        try:
            await link.run()
        finally:
            self._links.discard(link)


class _Link:
    def __init__(
        self, proxy: Proxy, client: StreamReader, to_client: StreamWriter, server: StreamReader, to_server: StreamWriter
    ) -> None:
        self._proxy = proxy
        self._client, self._to_client = client, to_client
        self._server, self._to_server = server, to_server
        self._statements: dict[bytes, str] = {}
        self._drops_answer = False
        self._had: set[str] = set()
        self._answered = asyncio.Event()

    async def run(self) -> None:
        try:
            await self._begin()
            async with asyncio.TaskGroup() as ways:
                ways.create_task(self._forth())
                ways.create_task(self._back())
        except* _LOST:
            pass
        finally:
            self.abort()

    def abort(self) -> None:
        self._to_client.transport.abort()
        self._to_server.transport.abort()

    async def _begin(self) -> None:
        """The client's first words have a form of their own, and the answer to the first of them is one byte."""
        while True:
            head = await self._client.readexactly(8)
            length, code = unpack("!ii", head)
            self._to_server.write(head + await self._client.readexactly(length - 8))
            if code != _SSL_REQUEST:
                return
            self._to_client.write(await self._server.readexactly(1))

    async def _forth(self) -> None:
        waiting, name = b"", ""
        while True:
            kind, body = await _message(self._client)
            waiting += kind + (len(body) + 4).to_bytes(4, "big") + body
            name = self._name_of(kind, body) or name
            if kind == b"H":
                # It wants a first answer, and goes on.
                self._to_server.write(waiting)
                waiting = b""
            elif kind in b"QSXp":
                await self._send(waiting, name)
                waiting, name = b"", ""

    def _name_of(self, kind: bytes, body: bytes) -> str:
        """What the message says that is being done."""
        match kind:
            case b"Q":
                return _named(body.rstrip(b"\0").decode())
            case b"P":
                statement, _, rest = body.partition(b"\0")
                self._statements[statement] = _named(rest.partition(b"\0")[0].decode())
                return self._statements[statement]
            case b"B":
                return self._statements.get(body.split(b"\0", 2)[1], "")
            case _:
                return ""

    async def _send(self, exchange: bytes, name: str) -> None:
        if self._proxy.delay_s:
            await asyncio.sleep(self._proxy.delay_s)
        await self._proxy.flowing.wait()
        cut = self._proxy.next(name, self._had)
        self._had.add(name)
        match None if cut is None else cut.loss:
            case Loss.BEFORE:
                self.abort()
                return
            case Loss.LATE:
                await self._proxy.release.wait()
            case Loss.AFTER | None:
                pass
        self._drops_answer = cut is not None
        self._to_server.write(exchange)
        if cut is not None:
            await self._answered.wait()

    async def _back(self) -> None:
        while True:
            kind, body = await _message(self._server)
            await self._proxy.flowing.wait()
            if not self._drops_answer:
                self._to_client.write(kind + (len(body) + 4).to_bytes(4, "big") + body)
            elif kind == b"Z":
                self._answered.set()
                self.abort()


async def _message(reader: StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readexactly(5)
    return head[:1], await reader.readexactly(int.from_bytes(head[1:], "big") - 4)


def _named(statement: str) -> str:
    bare = statement.removesuffix(";")
    return _NAMES.get(bare, " ".join(bare.split()[:2]))


@asynccontextmanager
async def proxied(server_port: int) -> AsyncIterator[Proxy]:
    proxy = Proxy(server_port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        proxy.cut_all()
