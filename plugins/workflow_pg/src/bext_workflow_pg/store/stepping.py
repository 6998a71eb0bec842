"""Transactions that steps work in, and that the checkpoints of these steps commit (semantics §6).

The run's row is touched by the checkpoint only: while the step works, acts can be posted to the run, and the condition
of the append tells what has come. A savepoint before it takes back what it locked when it does not hold.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress

import asyncpg

from bext_workflow.errors import StoreUnavailable
from bext_workflow.model.transaction import Database
from bext_workflow.ports.store import Append, Committed, LeaseLost, Refused, Result, Stale
from bext_workflow_pg.store import columns, queries
from bext_workflow_pg.store.connections import CLOSE_S, COMMAND_S, Connection, Lending
from bext_workflow_pg.store.faults import MEMBER_FAULTS, STORE_FAULTS, unavailable
from bext_workflow_pg.store.verdict import why_not_appended
from bext_workflow_pg.store.wakeups import Wakeups
from bext_workflow_pg.store.write import change_with

_SQL = queries.load("stepping.sql")
_WRITE = queries.load("write.sql")
_MARGIN_MS = 5_000

_ROLLED_BACK = (*MEMBER_FAULTS, asyncpg.TransactionRollbackError, asyncpg.RaiseError)
"""Answers to COMMIT that say for certain that nothing was committed."""

_LET_GO = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
)


class PostgresStepTransaction:
    """`StepTransaction` on a connection that is lent for as long as it stands."""

    def __init__(
        self, connection: Connection, lent: AsyncExitStack, others: Lending, wakeups: Wakeups, place: str
    ) -> None:
        self._connection = connection
        self._transaction = connection.transaction()
        self._lent = lent
        self._others = others
        self._wakeups = wakeups
        self._place = place
        self._over = False

    @property
    def database(self) -> Database:
        return self._connection

    def broken_by(self, error: BaseException) -> bool:
        return isinstance(error, _LET_GO) or (isinstance(error, STORE_FAULTS) and self._gone())

    async def begin(self, synchronous_commit: str, timeout_ms: int) -> None:
        """Raises what asyncpg raises."""
        bound = str(timeout_ms + _MARGIN_MS if timeout_ms else 0)
        async with asyncio.timeout(COMMAND_S):
            await self._transaction.start()
            await self._connection.execute(_SQL["settings"], synchronous_commit, bound)

    async def commit(self, append: Append) -> Result:
        try:
            async with asyncio.timeout(COMMAND_S):
                refused = await self._appended(append)
                if isinstance(refused, Stale):
                    return refused
                if refused is None:
                    await self._transaction.commit()
                    self._over = True
        except _ROLLED_BACK as error:
            refused = Refused(str(error))
        except STORE_FAULTS as error:
            raise unavailable(error, self._place) from error
        if refused is None:
            return Committed(append.rid, append.seq + len(append.events))
        await self.end()
        return refused

    async def settle(self, append: Append) -> bool:
        """Whoever commits the run's row still, holds its lock: behind it, what is read is what came of that."""
        await self.end()

        async def job(connection: Connection) -> Result:
            await connection.execute(_SQL["lock"], append.rid)
            (result,) = await why_not_appended(connection, [append])
            return result

        try:
            return isinstance(await self._others.write(job), Committed)
        except STORE_FAULTS as error:
            raise unavailable(error, self._place) from error

    async def end(self) -> None:
        over, self._over = self._over, True
        # A connection that is lost has gone back to the pool by itself, and whatever is asked of it is refused.
        with suppress(*STORE_FAULTS):
            if not over:
                await self._roll_back()
        with suppress(*STORE_FAULTS):
            await self._lent.aclose()

    async def _roll_back(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._transaction.rollback()
        except STORE_FAULTS:
            self._connection.terminate()

    def _gone(self) -> bool:
        try:
            return self._connection.is_closed()
        except asyncpg.InterfaceError:
            return True

    async def _appended(self, append: Append) -> LeaseLost | Refused | Stale | None:
        """None: it holds, and is written."""
        try:
            await self._connection.execute(_SQL["savepoint"])
        except asyncpg.InFailedSQLTransactionError:
            return Refused("a statement of the step failed, and with it the transaction")
        except asyncpg.NoActiveSQLTransactionError:
            return Refused("the step has ended the transaction itself")
        if await self._connection.fetch(_WRITE["advance"], *columns.of_appends([append])):
            await change_with(self._connection, self._wakeups, append)
            return None
        await self._connection.execute(_SQL["back"])
        try:
            (result,) = await self._others.read(lambda connection: why_not_appended(connection, [append]))
        except MEMBER_FAULTS as error:
            return Refused(str(error))
        if isinstance(result, LeaseLost | Stale | Refused):
            return result
        # It cannot be there already: this transaction alone would have brought it.
        raise StoreUnavailable(f"the store {self._place} has {result!r} that nobody wrote")
