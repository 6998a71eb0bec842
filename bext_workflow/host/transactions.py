"""Steps that act in the transaction of their own checkpoint (semantics §6): what they did is there with it, or never.

A place is waited for before the attempt: until then nothing can have acted. The transaction begins when the plugin
first asks for it, and the run's row is touched by the checkpoint only, so that a long step keeps nobody from posting.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import anyio

from bext_workflow.core.input import Finished, Input
from bext_workflow.errors import DefinitionError, StoreUnavailable
from bext_workflow.host.patience import patiently
from bext_workflow.host.text import describe
from bext_workflow.model.event import Event, StepCompleted
from bext_workflow.model.transaction import Database
from bext_workflow.ports.clock import Clock
from bext_workflow.ports.store import Append, Committed, Refused, Result, Store
from bext_workflow.ports.transactional import StepTransaction, Transactional

_PAUSE_MS = 200


class BrokenOff(Exception):
    """The database let go of the attempt's transaction: nothing of it is there, and the attempt is to be made again."""


class Transactions:
    """One host's: places for as many attempts at once as the store has connections for."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._offered = store if isinstance(store, Transactional) else None
        self._places = anyio.CapacityLimiter(1 if self._offered is None else self._offered.step_transactions)

    @asynccontextmanager
    async def place(self, timeout_ms: int) -> AsyncIterator[Attempted]:
        """For one attempt; what has not been committed at the end of the block is rolled back."""
        if self._offered is None:
            raise DefinitionError("the store is no database that steps could write to")
        async with self._places:
            attempted = Attempted(self._offered, self._clock, timeout_ms)
            try:
                yield attempted
            finally:
                await attempted.end()

    async def again(self) -> None:
        """Waits until the store takes writes again."""
        await self._clock.sleep(_PAUSE_MS)
        await patiently(self._clock, self._store.ping)


class Attempted:
    """The transaction of one attempt, if the plugin asks for it."""

    def __init__(self, store: Transactional, clock: Clock, timeout_ms: int) -> None:
        self._store = store
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._transaction: StepTransaction | None = None
        self._beginning = asyncio.Lock()
        self._failure: str | None = None
        self.broken = False
        """The store did not answer in it."""
        self.concluded = asyncio.Event()
        """What the attempt has come to is durable."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Database]:
        """The block that `run.transaction()` gives to the plugin."""
        transaction = await self._begun()
        try:
            yield transaction.database
        except BaseException as error:
            self._failure = self._failure or describe(error)
            self.broken = self.broken or transaction.broken_by(error)
            raise

    def commits(self, given: Input, events: Sequence[Event]) -> bool:
        """Whether the transaction is to be committed with these events: they are of a step that has completed."""
        if self._transaction is None or not isinstance(given, Finished):
            return False
        return any(isinstance(event, StepCompleted) and event.branch == given.branch for event in events)

    async def commit(self, append: Append) -> Result:
        """As `StepTransaction.commit`. Raises `BrokenOff` when it is certain that nothing was committed."""
        if self._transaction is None:
            raise RuntimeError("there is no transaction to commit")
        if self._failure is not None:
            return Refused(f"an error left the transaction: {self._failure}")
        try:
            return await self._transaction.commit(append)
        except StoreUnavailable as error:
            if await patiently(self._clock, partial(self._transaction.settle, append)):
                return Committed(append.rid, append.seq + len(append.events))
            raise BrokenOff(error.message) from None

    async def end(self) -> None:
        """Rolls back what was not committed, also when the attempt, or the whole driver, is being cancelled."""
        self.concluded.set()
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            with anyio.CancelScope(shield=True):
                await transaction.end()

    async def _begun(self) -> StepTransaction:
        async with self._beginning:
            self._refuse_late()
            if self._transaction is None:
                try:
                    self._transaction = await self._store.begin(timeout_ms=self._timeout_ms)
                except StoreUnavailable:
                    self.broken = True
                    raise
                if self.concluded.is_set():
                    await self.end()
                    self._refuse_late()
            return self._transaction

    def _refuse_late(self) -> None:
        """A task that the plugin has left behind begins nothing any more."""
        if self.concluded.is_set():
            raise DefinitionError("the attempt is over, and its transaction with it")
