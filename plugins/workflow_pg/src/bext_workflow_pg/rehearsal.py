"""What the checkout is proven with: its own ledger, in memory, which tells the prover what it does."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

from bext_workflow.model.json import JsonObject
from bext_workflow.plugin.rehearsal import EffectLedger, Rehearsal
from bext_workflow_pg.books import Entry, Kind
from bext_workflow_pg.database import MEMORY, open_database
from bext_workflow_pg.ledger import Ledger
from bext_workflow_pg.rules import Rule
from bext_workflow_pg.sqlite_ledger import SqliteLedger

T = TypeVar("T")

OpenLedger: TypeAlias = Callable[[str], Awaitable[Ledger]]

UNDOES = {Kind.RELEASE: Kind.RESERVE, Kind.REFUND: Kind.CHARGE}

ORDER: JsonObject = {
    "order_id": "o-1",
    "sku": "widget",
    "quantity": 1,
    "payment_method": "pm_ok",
    "email": "ann@example.com",
}

CONTEXTS: dict[str, JsonObject] = {
    "order": ORDER,
    "flaky": ORDER | {"sku": "flaky"},
    "sold-out": ORDER | {"quantity": 1_000_001},
    "declined": ORDER | {"payment_method": "pm_declined"},
    "bounced": ORDER | {"email": "bounce@example.com"},
}


class RehearsedLedger(SqliteLedger):
    """Outlives the hosts that open it, as a service does."""

    def __init__(self, db: sqlite3.Connection, effects: EffectLedger) -> None:
        super().__init__(db)
        self._effects = effects

    async def close(self) -> None:
        """A host ends, or dies."""

    def shut(self) -> None:
        """The end of the run."""
        self._close()

    def _run(self, rule: Rule[T], begin: str) -> T:
        result = super()._run(rule, begin)
        if isinstance(result, Entry):
            self._take_down(result)
        return result

    def _take_down(self, entry: Entry) -> None:
        """Again, if the key was used before: the ledger of effects counts it once, too."""
        if entry.undoes is None:
            self._effects.do(entry.kind.value, entry.key, item=entry.item, amount=entry.amount)
        else:
            self._effects.undo(UNDOES[entry.kind].value, entry.key, of=entry.undoes)


def rehearse_checkout(plugin: Callable[[OpenLedger], object]) -> Rehearsal:
    """`plugin` makes a checkout over a function that opens its ledger. A receipt that was sent stays sent."""
    effects = EffectLedger(stays=(Kind.SEND.value,))
    ledger = RehearsedLedger(open_database(MEMORY), effects)

    async def open_ledger(_: str) -> Ledger:
        return ledger

    return Rehearsal(ledger=effects, plugin=lambda: plugin(open_ledger), contexts=CONTEXTS, close=ledger.shut)
