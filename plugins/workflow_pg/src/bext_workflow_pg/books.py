"""What stands in a ledger, and whether it adds up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from functools import cached_property

import msgspec


class Kind(StrEnum):
    """The five things that a service does: three for a checkout and two that undo."""

    RESERVE = "reserve"
    CHARGE = "charge"
    SEND = "send"
    RELEASE = "release"
    REFUND = "refund"


STATUS = {
    Kind.RESERVE: "reserved",
    Kind.CHARGE: "charged",
    Kind.SEND: "sent",
    Kind.RELEASE: "released",
    Kind.REFUND: "refunded",
}
UNDONE = "undone"
NOTHING_TO_UNDO = "nothing to undo"


class Entry(msgspec.Struct, frozen=True):
    """One effect of one service under one idempotency key; `n` is its place in the order of all effects.

    `item` is a SKU, a payment method or an address. `amount` counts pieces, cents or mails; an undo has that of the
    entry that it `undoes`, negated, or 0 where that entry never came. `calls` is how often the service was called.
    """

    n: int
    key: str
    kind: Kind
    id: str
    order_id: str | None
    item: str | None
    amount: int
    undoes: str | None
    calls: int
    at: str


class Stock(msgspec.Struct, frozen=True):
    """The pieces of one SKU: how many there were at first, and how many are left."""

    sku: str
    price_cents: int
    delivered: int
    available: int


class Books(msgspec.Struct, frozen=True, dict=True):
    """A ledger at one moment."""

    entries: tuple[Entry, ...]
    stock: tuple[Stock, ...]

    @cached_property
    def _undone(self) -> frozenset[str]:
        return frozenset(entry.undoes for entry in self.entries if entry.undoes is not None)

    def status(self, entry: Entry) -> str:
        """`reserved`, `charged`, `sent`, or `undone`; of an undo `released`, `refunded`, or that it found nothing."""
        if entry.key in self._undone:
            return UNDONE
        if entry.undoes is not None and entry.amount == 0:
            return NOTHING_TO_UNDO
        return STATUS[entry.kind]

    def totals(self) -> dict[str, int]:
        """How many effects of a checkout are in force, by status, and how many were undone."""
        counted = Counter(self.status(entry) for entry in self.entries if entry.undoes is None)
        return {status: counted[status] for status in ("reserved", "charged", "sent", UNDONE)}

    def faults(self) -> tuple[str, ...]:
        """Why it does not add up: each missing piece, and each order that is neither done nor undone as a whole."""
        return (*self._missing_pieces(), *self._open_orders())

    def _missing_pieces(self) -> Iterator[str]:
        taken: Counter[str | None] = Counter()
        for entry in self.entries:
            if entry.kind in (Kind.RESERVE, Kind.RELEASE):
                taken[entry.item] += entry.amount
        for stock in self.stock:
            left = stock.delivered - taken[stock.sku]
            if left != stock.available:
                yield f"{stock.sku}: {stock.available} available, but by the entries {left}"

    def _open_orders(self) -> Iterator[str]:
        in_force: dict[str | None, Counter[Kind]] = {}
        for entry in self.entries:
            if entry.undoes is None:
                effects = in_force.setdefault(entry.order_id, Counter())
                effects[entry.kind] += entry.key not in self._undone
        for order_id, effects in in_force.items():
            counts = [effects[kind] for kind in (Kind.RESERVE, Kind.CHARGE, Kind.SEND)]
            if len(set(counts)) > 1:
                yield "order {}: {} reserved, {} charged, {} sent".format(order_id, *counts)
