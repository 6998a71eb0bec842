"""The ledger in a PostgreSQL database, for any number of hosts."""

from __future__ import annotations

from typing import TypeVar

from bext_workflow_pg import rules, sql
from bext_workflow_pg.books import Books, Entry, Kind
from bext_workflow_pg.errors import NotALedger, Transient, Unreachable
from bext_workflow_pg.order import Order
from bext_workflow_pg.rules import Rule
from bext_workflow_pg.store import place, schema
from bext_workflow_pg.store.connections import Connection, Lending, connect, in_transaction, lend
from bext_workflow_pg.store.faults import STORE_FAULTS, unavailable

T = TypeVar("T")

CONNECTIONS = 8


class PostgresLedger:
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

    async def reserve(self, key: str, order: Order) -> Entry:
        return await self._do(rules.reserve(key, order), key)

    async def charge(self, key: str, order: Order) -> Entry:
        return await self._do(rules.charge(key, order), key)

    async def send(self, key: str, order: Order) -> Entry:
        return await self._do(rules.send(key, order), key)

    async def release(self, key: str, *, of: str, reservation_id: str | None = None) -> Entry:
        return await self._do(rules.undo(key, Kind.RELEASE, of, reservation_id), key, of)

    async def refund(self, key: str, *, of: str, charge_id: str | None = None) -> Entry:
        return await self._do(rules.undo(key, Kind.REFUND, of, charge_id), key, of)

    async def calls(self, key: str) -> int:
        return await self._do(rules.calls(key))

    async def books(self) -> Books:
        return await self._do(rules.books(), begin="BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    async def close(self) -> None:
        await self._lending.close()

    async def _do(self, rule: Rule[T], *keys: str, begin: str | None = None) -> T:
        done = False

        async def job(connection: Connection) -> T:
            nonlocal done
            result = await carry_out(connection, rule, *keys)
            done = True
            return result

        try:
            return await self._lending.write(job, begin=begin)
        except STORE_FAULTS as error:
            if done:
                raise Unreachable(f"the ledger broke off: {error}") from error
            raise Transient(f"the ledger does not answer: {error}") from error


async def carry_out(connection: Connection, rule: Rule[T], *keys: str) -> T:
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
