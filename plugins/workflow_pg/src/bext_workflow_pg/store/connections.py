"""Connections: how they are lent, and what a transaction is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeAlias, TypeVar

import asyncpg
import msgspec
from asyncpg.pool import Pool, PoolConnectionProxy

from bext_workflow_pg.store.faults import STORE_FAULTS

Connection: TypeAlias = asyncpg.Connection | PoolConnectionProxy

T = TypeVar("T")

CONNECT_S = 5.0
ACQUIRE_S = 10.0
COMMAND_S = 15.0
CLOSE_S = 2.0
"""What is waited for: a connection of one's own, one that is lent, an answer, the farewell."""

_IDLE_S = 60.0
_STATEMENTS = 256
_APPLICATION = "bext-workflow"

_PLANNED = {"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "jit": "off"}
"""Plans are made once and kept: one that was made while a table was small must not scan it when it has grown, and rows
are locked in the order in which they are handed in. To compile a plan takes longer than any of them runs.
"""


class Terms(msgspec.Struct, frozen=True):
    """What was found out about the server. `pooled`: the next transaction may reach another session of it."""

    pooled: bool
    synchronous_commit: str

    @property
    def settings(self) -> dict[str, str]:
        """What holds for every write. The server lets go by itself of what a lost client has left open."""
        return {
            "synchronous_commit": self.synchronous_commit,
            "statement_timeout": f"{COMMAND_S - 1:.0f}s",
            "idle_in_transaction_session_timeout": f"{2 * COMMAND_S:.0f}s",
            **_PLANNED,
        }

    @property
    def begin(self) -> str:
        """How a write begins. Where sessions are pooled nothing may outlive its transaction, so all is set in it."""
        if not self.pooled:
            return "BEGIN"
        return "; ".join(["BEGIN", *(f"SET LOCAL {name} = '{value}'" for name, value in self.settings.items())])

    @property
    def begin_long(self) -> str:
        """How a write begins that may take as long as it takes."""
        return f"BEGIN; SET LOCAL synchronous_commit = '{self.synchronous_commit}'"


class Lending:
    """Up to so many connections, opened when they are needed. Raises what asyncpg raises."""

    def __init__(self, pool: Pool, terms: Terms) -> None:
        self._pool = pool
        self._pooled = terms.pooled
        self._begin = terms.begin

    async def write(self, job: Callable[[Connection], Awaitable[T]], *, begin: str | None = None) -> T:
        """The job in a transaction that is durable when this returns."""
        async with self._lent() as connection:
            return await in_transaction(connection, begin or self._begin, job)

    async def write_at_once(self, job: Callable[[Connection], Awaitable[T]]) -> T:
        """A job of one statement, which is a transaction by itself: one way to the server and back instead of three."""
        if self._pooled:
            return await self.write(job)
        async with self._lent() as connection:
            return await job(connection)

    async def read(self, job: Callable[[Connection], Awaitable[T]]) -> T:
        """A job of one statement that reads: a moment of its own, and one and the same session."""
        async with self._lent() as connection:
            if self._pooled:
                return await in_transaction(connection, "BEGIN READ ONLY", job)
            return await job(connection)

    def lent(self) -> AbstractAsyncContextManager[Connection]:
        """A connection for as long as the block lasts."""
        return self._lent()

    async def close(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._pool.close()
        except (TimeoutError, *STORE_FAULTS):
            self._pool.terminate()

    @asynccontextmanager
    async def _lent(self) -> AsyncIterator[Connection]:
        connection = await self._pool.acquire(timeout=ACQUIRE_S)
        try:
            yield connection
        finally:
            await self._pool.release(connection, timeout=CLOSE_S)


async def connect(url: str) -> asyncpg.Connection:
    """A connection of one's own. Raises what asyncpg raises."""
    return await asyncpg.connect(
        url,
        timeout=CONNECT_S,
        command_timeout=COMMAND_S,
        statement_cache_size=0,
        server_settings={"application_name": _APPLICATION},
    )


async def lend(url: str, terms: Terms, *, most: int, for_steps: bool = False) -> Lending:
    """Connections to be lent. Where sessions are pooled no statement is prepared for later.

    `for_steps`: whoever borrows one makes statements of any kind, and bounds them himself.
    """
    settings = {} if terms.pooled or for_steps else terms.settings
    pool = await asyncpg.create_pool(
        url,
        min_size=0,
        max_size=most,
        max_inactive_connection_lifetime=_IDLE_S,
        timeout=CONNECT_S,
        command_timeout=None if for_steps else COMMAND_S,
        statement_cache_size=0 if terms.pooled else _STATEMENTS,
        reset=_keep,
        server_settings={"application_name": _APPLICATION, **settings},
    )
    return Lending(pool, terms)


async def in_transaction(connection: Connection, begin: str, job: Callable[[Connection], Awaitable[T]]) -> T:
    """The job between `begin` and COMMIT. Whatever interrupts it ends the transaction, if need be with its session."""
    try:
        await connection.execute(begin)
        result = await job(connection)
        await connection.execute("COMMIT")
    except BaseException as error:
        await _undo(connection, error)
        raise
    return result


async def _undo(connection: Connection, error: BaseException) -> None:
    lost = isinstance(error, OSError | TimeoutError | asyncpg.InterfaceError) or not isinstance(error, Exception)
    if not lost and not connection.is_closed():
        try:
            await connection.execute("ROLLBACK")
        except STORE_FAULTS:
            lost = True
    if lost:
        connection.terminate()


async def _keep(connection: Connection) -> None:
    """Nothing is ever set that is not for every transaction, so nothing is to be reset."""
