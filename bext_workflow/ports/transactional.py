"""What a store may offer beside `Store`: that a step acts in the transaction of its own checkpoint (semantics §6)."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from bext_workflow.model.transaction import Database
from bext_workflow.ports.store import Append, Result


class StepTransaction(Protocol):
    """A transaction that a step works in and that its checkpoint commits. `end` is called in every case, last."""

    @property
    def database(self) -> Database:
        """The connection that it is on."""

    def broken_by(self, error: BaseException) -> bool:
        """Whether the error of a statement tells that the database has let go, and the step is not to blame."""

    async def commit(self, append: Append) -> Result:
        """Commits what the step did together with the append, under the conditions of `Store.write`.

        `Committed`: all is durable. `Stale`: nothing is, and the transaction stands: it may be tried again, with what
        the append missed. Any other result: all is rolled back; `Refused` too where a statement of the step had failed
        and its transaction with it. Raises `StoreUnavailable` where the answer was lost: `settle` tells.
        """

    async def settle(self, append: Append) -> bool:
        """Whether the append, and so all of the transaction, was committed. Final: it cannot be any more after this.

        Raises `StoreUnavailable`.
        """

    async def end(self) -> None:
        """Rolls back what was not committed, and lets go of the connection. Never raises."""


@runtime_checkable
class Transactional(Protocol):
    """A store whose own database steps may write to."""

    @property
    def step_transactions(self) -> int:
        """How many there may be at once; they take nothing from the commits."""

    async def begin(self, *, timeout_ms: int) -> StepTransaction:
        """A transaction for an attempt that may take `timeout_ms` (0: no bound). Raises `StoreUnavailable`."""
