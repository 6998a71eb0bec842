"""The ledger: the warehouse, the card processor and the mail service of the checkout, whichever database keeps it.

It keeps the promises that a saga needs from the services that it calls:

* the same key has its effect once; every further call returns the first result,
* an undo of what never happened is remembered, and what comes after its undo is refused: a payment cannot arrive
  after its refund,
* an effect that was answered is on the disk.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

from bext_workflow import WorkflowError
from bext_workflow.model.transaction import Database
from bext_workflow_pg import rules
from bext_workflow_pg.books import Books, Entry, Kind
from bext_workflow_pg.order import Order
from bext_workflow_pg.rules import Rule

T = TypeVar("T")


class Ledger(ABC):
    """Safe to use from many tasks, and over one database from many processes, at once.

    Every effect raises `Refused` or `Transient` when it is certain that nothing was done, and `Unreachable` when it is
    not.
    """

    async def reserve(self, key: str, order: Order) -> Entry:
        """Takes the order's pieces out of stock."""
        return await self.carry_out(rules.reserve(key, order), key)

    async def charge(self, key: str, order: Order) -> Entry:
        """Takes the price of the order, in cents."""
        return await self.carry_out(rules.charge(key, order), key)

    async def send(self, key: str, order: Order) -> Entry:
        """Sends the receipt."""
        return await self.carry_out(rules.send(key, order), key)

    async def release(self, key: str, *, of: str, reservation_id: str | None = None) -> Entry:
        """Puts back what was reserved under the key `of`, if anything was."""
        return await self.carry_out(rules.undo(key, Kind.RELEASE, of, reservation_id), key, of)

    async def refund(self, key: str, *, of: str, charge_id: str | None = None) -> Entry:
        """Gives back what was charged under the key `of`, if anything was."""
        return await self.carry_out(rules.undo(key, Kind.REFUND, of, charge_id), key, of)

    async def calls(self, key: str) -> int:
        """How often a service was called with this key and did not refuse."""
        return await self.look_up(rules.calls(key))

    async def books(self) -> Books:
        """Everything, as of one moment."""
        return await self.look_up(rules.books())

    def within(self, database: Database) -> Ledger:
        """The same ledger in a transaction that somebody else ends. Raises `WorkflowError` where it cannot be."""
        del database
        raise WorkflowError("the ledger is not in the database of the store: give the plugin its dsn")

    @abstractmethod
    async def carry_out(self, rule: Rule[T], *keys: str) -> T:
        """One transaction of what is done under these keys."""

    @abstractmethod
    async def look_up(self, rule: Rule[T]) -> T:
        """One transaction that changes nothing."""

    @abstractmethod
    async def close(self) -> None:
        """Lets go of the database."""
