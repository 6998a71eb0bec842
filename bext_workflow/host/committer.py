"""Group commit: everything that waits goes to the store in one transaction (DESIGN "Commit path").

There is no timer: the next batch forms while this one commits, so that a lone run still commits at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from bext_workflow.errors import StoreUnavailable
from bext_workflow.ports import telemetry as names
from bext_workflow.ports.clock import Clock
from bext_workflow.ports.store import Create, Member, Result, Store
from bext_workflow.ports.telemetry import Telemetry

MAX_BATCH = 500
_MAX_WAITING = 10_000
_FIRST_PAUSE_MS = 50
_LAST_PAUSE_MS = 1_000


class Committer:
    """One task over the plural `write` of the store. While the store is unavailable nothing is judged: writers wait."""

    def __init__(self, store: Store, clock: Clock, telemetry: Telemetry) -> None:
        self._store = store
        self._clock = clock
        self._telemetry = telemetry
        self._waiting: deque[tuple[Member, asyncio.Future[Result]]] = deque()
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.trouble: str | None = None
        """Why the store takes no writes now; None if it does."""

    async def commit(self, member: Member) -> Result:
        """Returns when the member is durable, or has been judged.

        Raises `StoreUnavailable` for a `Create`, whose caller can be told to come back; an append waits instead.
        """
        while len(self._waiting) >= _MAX_WAITING:
            self._room.clear()
            await self._room.wait()
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((member, future))
        self._idle.clear()
        self._arrived.set()
        return await future

    async def flushed(self) -> None:
        """Waits until nothing waits to be committed."""
        await self._idle.wait()

    async def run(self) -> None:
        """The writer; runs until it is cancelled."""
        while True:
            await self._arrived.wait()
            batch = [self._waiting.popleft() for _ in range(min(MAX_BATCH, len(self._waiting)))]
            self._room.set()
            await self._write(batch)
            if not self._waiting:
                self._arrived.clear()
                self._idle.set()

    async def _write(self, batch: list[tuple[Member, asyncio.Future[Result]]]) -> None:
        pause_ms = _FIRST_PAUSE_MS
        while batch:
            try:
                results = await self._store.write([member for member, _ in batch])
            except StoreUnavailable as error:
                self._note_trouble(error)
                batch = _turn_creates_away(batch, error)
                await self._clock.sleep(pause_ms)
                pause_ms = min(pause_ms * 2, _LAST_PAUSE_MS)
            except Exception as error:
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                return
            else:
                self._note_success()
                _hand_out(batch, results)
                return

    def _note_trouble(self, error: StoreUnavailable) -> None:
        if self.trouble is None:
            self._telemetry.log(names.STORE_UNAVAILABLE, error=error.message)
        self.trouble = error.message

    def _note_success(self) -> None:
        if self.trouble is not None:
            self._telemetry.log(names.STORE_BACK)
        self.trouble = None


def _hand_out(batch: list[tuple[Member, asyncio.Future[Result]]], results: Sequence[Result]) -> None:
    for (_, future), result in zip(batch, results, strict=True):
        if not future.done():
            future.set_result(result)


def _turn_creates_away(
    batch: list[tuple[Member, asyncio.Future[Result]]], error: StoreUnavailable
) -> list[tuple[Member, asyncio.Future[Result]]]:
    kept: list[tuple[Member, asyncio.Future[Result]]] = []
    for member, future in batch:
        if isinstance(member, Create) and not future.done():
            future.set_exception(StoreUnavailable(error.message, mend=error.mend))
        elif not isinstance(member, Create):
            kept.append((member, future))
    return kept
