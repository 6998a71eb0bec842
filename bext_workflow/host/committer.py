"""Group commit: everything that waits goes to the store in one transaction (architecture "Commit path").

There is no timer: the next batch forms while this one commits, so that a lone run still commits at once. A run has one
append on its way at a time, so that of several writers none can overtake another.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence

import anyio

from bext_workflow.errors import StoreUnavailable
from bext_workflow.host.trouble import Trouble
from bext_workflow.ports.clock import Clock
from bext_workflow.ports.store import Create, Member, Result, Store

MAX_BATCH = 500
_MAX_WAITING = 10_000
_FIRST_PAUSE_MS = 50
_LAST_PAUSE_MS = 1_000


class Committer:
    """As many writers over the plural `write` of the store as it wants; each takes everything that waits.

    While the store is unavailable nothing is judged: whoever wants to write waits.
    """

    def __init__(self, store: Store, clock: Clock, trouble: Trouble) -> None:
        self._store = store
        self._clock = clock
        self._trouble = trouble
        self._down: StoreUnavailable | None = None
        self._waiting: deque[tuple[Member, asyncio.Future[Result]]] = deque()
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._writing = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def commit(self, member: Member) -> Result:
        """Returns when the member is durable, or has been judged.

        Raises `StoreUnavailable` for a `Create`, whose caller can be told to come back; an append waits instead.
        """
        while len(self._waiting) >= _MAX_WAITING:
            self._room.clear()
            await self._room.wait()
        return await self.submit(member)

    def submit(self, member: Member) -> asyncio.Future[Result]:
        """`commit` for a caller that may end before its member is judged: it is told by the future."""
        if self._down is not None and isinstance(member, Create):
            raise _anew(self._down)
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((member, future))
        self._idle.clear()
        self._arrived.set()
        return future

    async def flushed(self) -> None:
        """Waits until nothing waits to be committed."""
        await self._idle.wait()

    async def run(self) -> None:
        """The writers; runs until it is cancelled."""
        async with anyio.create_task_group() as writers:
            for _ in range(self._store.profile.writers):
                writers.start_soon(self._write_on)

    async def _write_on(self) -> None:
        while True:
            await self._arrived.wait()
            batch = [self._waiting.popleft() for _ in range(min(MAX_BATCH, len(self._waiting)))]
            if not self._waiting:
                self._arrived.clear()
            self._room.set()
            if batch:
                self._writing += 1
                await self._write(batch)
                self._writing -= 1
            if not self._waiting and not self._writing:
                self._idle.set()

    async def _write(self, batch: list[tuple[Member, asyncio.Future[Result]]]) -> None:
        """Repeats the batch until the store has judged it. If nothing of it is left, a ping tells when that is so."""
        pause_ms = _FIRST_PAUSE_MS
        while True:
            try:
                results = await self._store.write([member for member, _ in batch]) if batch else await self._ping()
            except StoreUnavailable as error:
                self._down = error
                self._trouble.met("committer", error)
                batch = _turn_creates_away(batch, error)
                self._waiting = deque(_turn_creates_away(self._waiting, error))
                await self._clock.sleep(pause_ms)
                pause_ms = min(pause_ms * 2, _LAST_PAUSE_MS)
            except Exception as error:
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                return
            else:
                if self._down is not None:
                    self._down = None
                    self._trouble.over("committer")
                _hand_out(batch, results)
                return

    async def _ping(self) -> Sequence[Result]:
        await self._store.ping()
        return ()


def _hand_out(batch: list[tuple[Member, asyncio.Future[Result]]], results: Sequence[Result]) -> None:
    for (_, future), result in zip(batch, results, strict=True):
        if not future.done():
            future.set_result(result)


def _anew(error: StoreUnavailable) -> StoreUnavailable:
    """An exception of its own for each caller: a traceback grows on it."""
    return StoreUnavailable(error.message, mend=error.mend)


def _turn_creates_away(
    batch: Iterable[tuple[Member, asyncio.Future[Result]]], error: StoreUnavailable
) -> list[tuple[Member, asyncio.Future[Result]]]:
    kept: list[tuple[Member, asyncio.Future[Result]]] = []
    for member, future in batch:
        if isinstance(member, Create) and not future.done():
            future.set_exception(_anew(error))
        elif not isinstance(member, Create):
            kept.append((member, future))
    return kept
