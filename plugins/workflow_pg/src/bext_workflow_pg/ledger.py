"""The ledger: the warehouse, the card processor and the mail service of the checkout, in one SQLite file.

It keeps the promises that a saga needs from the services that it calls:

* the same key has its effect once; every further call returns the first result,
* an undo of what never happened is remembered, and what comes after its undo is refused: a payment cannot arrive
  after its refund,
* an effect that was answered is on the disk.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bext_workflow.model.json import Json
from bext_workflow_pg import sql
from bext_workflow_pg.books import Books, Entry, Kind, Stock
from bext_workflow_pg.database import open_database, open_for_reading
from bext_workflow_pg.errors import Refused, Transient, Unreachable
from bext_workflow_pg.order import Order

ID_PREFIX = {Kind.RESERVE: "res", Kind.CHARGE: "ch", Kind.SEND: "rcpt", Kind.RELEASE: "rel", Kind.REFUND: "re"}


class Ledger:
    """Safe to use from many threads and processes at once.

    Every effect raises `Refused` or `Transient` when it is certain that nothing was done, and `Unreachable` when it is
    not.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._lock = threading.Lock()

    @classmethod
    def open(cls, location: str) -> Ledger:
        """The ledger in a file, or `":memory:"`; a new one has stock."""
        return cls(open_database(location))

    @classmethod
    def open_for_reading(cls, location: str) -> Ledger:
        """A ledger that exists, for `books`."""
        return cls(open_for_reading(location))

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def reserve(self, key: str, order: Order) -> Entry:
        """Takes the order's pieces out of stock."""
        with self._transaction():
            if again := self._again(key, Kind.RESERVE):
                return again
            stock = self._stock(order.sku)
            if stock.available < order.quantity:
                raise Refused(f"{order.quantity} of {order.sku} ordered, {stock.available} in stock")
            return self._post(key, Kind.RESERVE, order.order_id, order.sku, order.quantity)

    def charge(self, key: str, order: Order) -> Entry:
        """Takes the price of the order, in cents."""
        with self._transaction():
            if again := self._again(key, Kind.CHARGE):
                return again
            price_cents = self._stock(order.sku).price_cents * order.quantity
            return self._post(key, Kind.CHARGE, order.order_id, order.payment_method, price_cents)

    def send(self, key: str, order: Order) -> Entry:
        """Sends the receipt."""
        with self._transaction():
            return self._again(key, Kind.SEND) or self._post(key, Kind.SEND, order.order_id, order.email, 1)

    def release(self, key: str, *, of: str, reservation_id: str | None = None) -> Entry:
        """Puts back what was reserved under the key `of`, if anything was."""
        return self._undo(key, Kind.RELEASE, of, reservation_id)

    def refund(self, key: str, *, of: str, charge_id: str | None = None) -> Entry:
        """Gives back what was charged under the key `of`, if anything was."""
        return self._undo(key, Kind.REFUND, of, charge_id)

    def calls(self, key: str) -> int:
        """How often a service was called with this key and did not refuse."""
        with self._lock:
            entry = self._entry(sql.ENTRY_OF_KEY, key)
        return entry.calls if entry else 0

    def books(self) -> Books:
        """Everything, as of one moment."""
        with self._transaction("BEGIN"):
            entries = self._db.execute(sql.ALL_ENTRIES).fetchall()
            stock = self._db.execute(sql.ALL_STOCK).fetchall()
        return Books(tuple(_entry(row) for row in entries), tuple(Stock(*row) for row in stock))

    def _undo(self, key: str, kind: Kind, of: str, expected_id: str | None) -> Entry:
        """`expected_id` is what the caller believes to undo: if the key `of` did another thing, a person must look."""
        with self._transaction():
            if again := self._again(key, kind):
                return again
            self._refuse_undone(of)
            done = self._entry(sql.ENTRY_OF_KEY, of)
            if expected_id is not None and expected_id != (done and done.id):
                raise Refused(f"{expected_id} is not of {of}, which made {done.id if done else 'nothing'}")
            if done is None:
                return self._post(key, kind, None, None, 0, undoes=of)
            return self._post(key, kind, done.order_id, done.item, -done.amount, undoes=of)

    def _again(self, key: str, kind: Kind) -> Entry | None:
        """The first result of a key that was used before; the call is counted."""
        self._refuse_undone(key)
        self._db.execute(sql.COUNT_CALL, (key,))
        first = self._entry(sql.ENTRY_OF_KEY, key)
        if first and first.kind is not kind:
            raise Refused(f"{key} is the key of another call: {first.kind}")
        return first

    def _refuse_undone(self, key: str) -> None:
        if undo := self._entry(sql.UNDO_OF_KEY, key):
            raise Refused(f"{key} has been undone by {undo.key}")

    def _post(
        self, key: str, kind: Kind, order_id: str | None, item: str | None, amount: int, *, undoes: str | None = None
    ) -> Entry:
        if kind in (Kind.RESERVE, Kind.RELEASE):
            self._db.execute(sql.TAKE, (amount, item))
        self._db.execute(sql.POST, (key, kind, _id_of(kind, key), order_id, item, amount, undoes))
        return _entry(self._db.execute(sql.ENTRY_OF_KEY, (key,)).fetchone())

    def _entry(self, select: str, key: str) -> Entry | None:
        row = self._db.execute(select, (key,)).fetchone()
        return None if row is None else _entry(row)

    def _stock(self, sku: str) -> Stock:
        row = self._db.execute(sql.STOCK_OF_SKU, (sku,)).fetchone()
        if row is None:
            raise Refused(f"no such SKU: {sku}")
        return Stock(*row)

    @contextmanager
    def _transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
        with self._lock:
            try:
                self._db.execute(begin)
            except sqlite3.OperationalError as error:
                raise Transient(f"the ledger does not answer: {error}") from error
            try:
                yield
                self._db.execute("COMMIT")
            except sqlite3.OperationalError as error:
                raise Unreachable(f"the ledger broke off: {error}") from error
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")


def _entry(row: Sequence[Json]) -> Entry:
    n, key, kind, *others = row
    return Entry(n, key, Kind(kind), *others)


def _id_of(kind: Kind, key: str) -> str:
    """The id follows from the key, so that no random source is needed."""
    return f"{ID_PREFIX[kind]}_{hashlib.sha256(key.encode()).hexdigest()[:20]}"
