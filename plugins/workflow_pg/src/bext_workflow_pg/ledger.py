"""The ledger: the warehouse, the card processor and the mail service of the checkout, whichever database keeps it.

It keeps the promises that a saga needs from the services that it calls:

* the same key has its effect once; every further call returns the first result,
* an undo of what never happened is remembered, and what comes after its undo is refused: a payment cannot arrive
  after its refund,
* an effect that was answered is on the disk.
"""

from __future__ import annotations

from typing import Protocol

from bext_workflow_pg.books import Books, Entry
from bext_workflow_pg.order import Order


class Ledger(Protocol):
    """Safe to use from many tasks, and over one database from many processes, at once.

    Every effect raises `Refused` or `Transient` when it is certain that nothing was done, and `Unreachable` when it is
    not.
    """

    async def reserve(self, key: str, order: Order) -> Entry:
        """Takes the order's pieces out of stock."""

    async def charge(self, key: str, order: Order) -> Entry:
        """Takes the price of the order, in cents."""

    async def send(self, key: str, order: Order) -> Entry:
        """Sends the receipt."""

    async def release(self, key: str, *, of: str, reservation_id: str | None = None) -> Entry:
        """Puts back what was reserved under the key `of`, if anything was."""

    async def refund(self, key: str, *, of: str, charge_id: str | None = None) -> Entry:
        """Gives back what was charged under the key `of`, if anything was."""

    async def calls(self, key: str) -> int:
        """How often a service was called with this key and did not refuse."""

    async def books(self) -> Books:
        """Everything, as of one moment."""

    async def close(self) -> None:
        """Lets go of the database."""
