"""The ledger in a PostgreSQL database, for any number of hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from bext_workflow.model.transaction import Database
from bext_workflow_pg import sql
from bext_workflow_pg.errors import NotALedger, Transient, Unreachable
from bext_workflow_pg.ledger import Ledger
from bext_workflow_pg.rules import Rule
from bext_workflow_pg.store import place, schema
from bext_workflow_pg.store.connections import Connection, Lending, connect, in_transaction, lend
from bext_workflow_pg.store.faults import STORE_FAULTS, unavailable

T = TypeVar("T")

CONNECTIONS = 8


class PostgresLedger(Ledger):
    """`Ledger` over connections of its own, in the schema that the URL's `search_path` leads to."""

    def __init__(self, lending: Lending) -> None:
        self._lending = lending

    @classmethod
    async def open(cls, url: str) -> PostgresLedger:
        """A new one has stock; of several that open it first, one makes it. Raises `Unreachable`."""
        return cls(await _reach(url, make=True))

    @classmethod
    async def open_for_reading(cls, url: str) -> PostgresLedger:
        """A ledger that exists, for `books`. Raises `Unreachable`, or `NotALedger`."""
        return cls(await _reach(url, make=False))

    async def carry_out(self, rule: Rule[T], *keys: str) -> T:
        return await self._transaction(rule, keys)

    async def look_up(self, rule: Rule[T]) -> T:
        return await self._transaction(rule, (), begin="BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def within(self, database: Database) -> Ledger:
        return LedgerWithin(database)

    async def close(self) -> None:
        await self._lending.close()

    async def _transaction(self, rule: Rule[T], keys: Sequence[str], begin: str | None = None) -> T:
        done = False

        async def job(connection: Connection) -> T:
            nonlocal done
            result = await _carried_out(connection, rule, keys)
            done = True
            return result

        try:
            return await self._lending.write(job, begin=begin)
        except STORE_FAULTS as error:
            if done:
                raise Unreachable(f"the ledger broke off: {error}") from error
            raise Transient(f"the ledger does not answer: {error}") from error


class LedgerWithin(Ledger):
    """`Ledger` in a transaction of the host's: what the database says of it goes to the host."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def carry_out(self, rule: Rule[T], *keys: str) -> T:
        return await _carried_out(self._database, rule, keys)

    async def look_up(self, rule: Rule[T]) -> T:
        return await _carried_out(self._database, rule, ())

    async def close(self) -> None:
        """The transaction is not this one's to end."""


async def _carried_out(connection: Database, rule: Rule[T], keys: Sequence[str]) -> T:
    """Does it in the transaction that the connection is in. Whoever uses one of these keys too comes before or after.

    Without that an effect and its undo could each miss the other.
    """
    if keys:
        await connection.execute(sql.ALONE, list(keys))
    statement, values = next(rule)
    while True:
        rows = await connection.fetch(sql.for_postgres(statement), *values)
        try:
            statement, values = rule.send([tuple(row) for row in rows])
        except StopIteration as done:
            result: T = done.value
            return result


async def _reach(url: str, *, make: bool) -> Lending:
    shown = place.shown(url)
    try:
        connection = await connect(url)
        try:
            around = await schema.look_around(connection, shown)
            if make:
                await in_transaction(connection, around.terms.begin, _make)
            elif not await connection.fetchval(sql.IS_MADE):
                raise NotALedger(f"{shown}: there is no ledger")
        finally:
            connection.terminate()
        return await lend(url, around.terms, most=CONNECTIONS)
    except ValueError:
        raise Unreachable(f"{shown}: names no database") from None
    except STORE_FAULTS as error:
        raise Unreachable(unavailable(error, shown).message) from error


async def _make(connection: Connection) -> None:
    await connection.execute(sql.ALONE, [sql.TABLES])
    if not await connection.fetchval(sql.IS_MADE):
        await connection.execute(sql.POSTGRES_SCHEMA)
