"""The rules of the ledger, each as the statements that carry it out, one after the other in one transaction.

A rule yields a statement with its values and is sent the rows; so it stands here once, for every database. It returns
what it made, or raises `Refused`: then nothing may be kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Sequence
from typing import TypeAlias, TypeVar

from bext_workflow.model.json import Json
from bext_workflow_pg import sql
from bext_workflow_pg.books import Books, Entry, Kind, Stock
from bext_workflow_pg.errors import Refused
from bext_workflow_pg.order import Order

T = TypeVar("T")
Statement: TypeAlias = tuple[str, tuple[str | int | None, ...]]
Rows: TypeAlias = Sequence[Sequence[Json]]
Rule: TypeAlias = Generator[Statement, Rows, T]

ID_PREFIX = {Kind.RESERVE: "res", Kind.CHARGE: "ch", Kind.SEND: "rcpt", Kind.RELEASE: "rel", Kind.REFUND: "re"}


def reserve(key: str, order: Order) -> Rule[Entry]:
    """Takes the order's pieces out of stock."""
    if again := (yield from _again(key, Kind.RESERVE)):
        return again
    if not (yield sql.TAKE, (order.quantity, order.sku)):
        stock = yield from _stock(order.sku)
        raise Refused(f"{order.quantity} of {order.sku} ordered, {stock.available} in stock")
    return (yield from _post(key, Kind.RESERVE, order.order_id, order.sku, order.quantity))


def charge(key: str, order: Order) -> Rule[Entry]:
    """Takes the price of the order, in cents."""
    if again := (yield from _again(key, Kind.CHARGE)):
        return again
    price_cents = (yield from _stock(order.sku)).price_cents * order.quantity
    return (yield from _post(key, Kind.CHARGE, order.order_id, order.payment_method, price_cents))


def send(key: str, order: Order) -> Rule[Entry]:
    """Sends the receipt."""
    if again := (yield from _again(key, Kind.SEND)):
        return again
    return (yield from _post(key, Kind.SEND, order.order_id, order.email, 1))


def undo(key: str, kind: Kind, of: str, expected_id: str | None) -> Rule[Entry]:
    """`expected_id` is what the caller believes to undo: if the key `of` did another thing, a person must look."""
    if again := (yield from _again(key, kind)):
        return again
    yield from _refuse_undone(of)
    done = yield from _entry(sql.ENTRY_OF_KEY, of)
    if expected_id is not None and expected_id != (done and done.id):
        raise Refused(f"{expected_id} is not of {of}, which made {done.id if done else 'nothing'}")
    if done is None:
        return (yield from _post(key, kind, None, None, 0, undoes=of))
    if kind is Kind.RELEASE:
        yield sql.TAKE, (-done.amount, done.item)
    return (yield from _post(key, kind, done.order_id, done.item, -done.amount, undoes=of))


def calls(key: str) -> Rule[int]:
    """How often the key was used."""
    entry = yield from _entry(sql.ENTRY_OF_KEY, key)
    return entry.calls if entry else 0


def books() -> Rule[Books]:
    """Everything."""
    entries = yield sql.ALL_ENTRIES, ()
    stock = yield sql.ALL_STOCK, ()
    return Books(tuple(_read(row) for row in entries), tuple(Stock(*row) for row in stock))


def _again(key: str, kind: Kind) -> Rule[Entry | None]:
    """The first result of a key that was used before; the call is counted."""
    yield from _refuse_undone(key)
    yield sql.COUNT_CALL, (key,)
    first = yield from _entry(sql.ENTRY_OF_KEY, key)
    if first and first.kind is not kind:
        raise Refused(f"{key} is the key of another call: {first.kind}")
    return first


def _refuse_undone(key: str) -> Rule[None]:
    if undone := (yield from _entry(sql.UNDO_OF_KEY, key)):
        raise Refused(f"{key} has been undone by {undone.key}")


def _post(
    key: str, kind: Kind, order_id: str | None, item: str | None, amount: int, *, undoes: str | None = None
) -> Rule[Entry]:
    yield sql.POST, (key, kind.value, _id_of(kind, key), order_id, item, amount, undoes)
    (row,) = yield sql.ENTRY_OF_KEY, (key,)
    return _read(row)


def _entry(select: str, key: str) -> Rule[Entry | None]:
    rows = yield select, (key,)
    return _read(rows[0]) if rows else None


def _stock(sku: str) -> Rule[Stock]:
    rows = yield sql.STOCK_OF_SKU, (sku,)
    if not rows:
        raise Refused(f"no such SKU: {sku}")
    return Stock(*rows[0])


def _read(row: Sequence[Json]) -> Entry:
    n, key, kind, *others = row
    return Entry(n, key, Kind(kind), *others)


def _id_of(kind: Kind, key: str) -> str:
    """The id follows from the key, so that no random source is needed."""
    return f"{ID_PREFIX[kind]}_{hashlib.sha256(key.encode()).hexdigest()[:20]}"
