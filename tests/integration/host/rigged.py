"""The SQLite store with strings on it: writes wait, fail, lose their answer or are refused, as a test says."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from bext_workflow.errors import StoreUnavailable
from bext_workflow.model.json import Json
from bext_workflow.ports.store import Create, Judge, LeaseLost, Loaded, Member, Posted, Result
from bext_workflow.stores.sqlite.worker import Worker
from bext_workflow.testing.clock import FakeClock
from bext_workflow.testing.stage import StageStore
from tests.unit.host.support import within

T = TypeVar("T")

POLL_MS = 100
"""As a SQLite store says."""

TROUBLE = "the store is unavailable: somebody pulled the plug"


class RiggedStore(StageStore):
    def __init__(self, path: Path | None, clock: FakeClock | None = None) -> None:
        super().__init__(path, clock=clock or FakeClock(), poll_ms=POLL_MS)
        self.down = False
        self.batches: list[list[Member]] = []
        self.loads: list[int] = []
        self.refuse: Callable[[Member], Result | None] = lambda _: None
        self.around: Callable[[int, bool], Awaitable[None]] | None = None
        """Told of each write by its number, before it is made, and again once it is, before anybody has its answer."""
        self.durable: Callable[[], None] = lambda: None
        """Told of each write and each act once it is made, before anybody has its answer."""
        self._failures: list[bool] = []
        self._number = 0
        self.writing = asyncio.Event()
        """Set once a batch is on its way to the writing thread."""
        self._open = True
        self._passes = 0
        self._turned = asyncio.Event()
        self._at_gate = asyncio.Event()

    # Strings

    def fail_writes(self, times: int = 1, *, after_commit: bool = False) -> None:
        """The next writes raise `StoreUnavailable`; with `after_commit` it was only the answer that was lost."""
        self._failures += [after_commit] * times

    def close_gate(self) -> None:
        """Writes wait before it from here on."""
        self._open = False

    def open_gate(self) -> None:
        self._open = True
        self._turned.set()

    def let_one_through(self) -> None:
        """The write that stands before the gate goes on; the next one will wait again."""
        self._passes = 1
        self._at_gate.clear()
        self._turned.set()

    async def inside(self, statement: str) -> list[tuple[Json, ...]]:
        """Runs a statement on the writing connection; its rows."""

        def run(connection: sqlite3.Connection) -> list[tuple[Json, ...]]:
            return [tuple(row) for row in connection.execute(statement)]

        return await self._write(run)

    async def reached(self) -> None:
        """Waits until a write stands before the closed gate."""
        async with within():
            await self._at_gate.wait()

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        """Waits until the condition holds; looks after every write."""
        async with within():
            await super().until(condition)

    @property
    def written(self) -> list[Member]:
        return [member for batch in self.batches for member in batch]

    def commits_of(self, run_id: str, rid: int) -> int:
        """How many members the store was given for that run."""
        return sum(
            member.run_id == run_id if isinstance(member, Create) else member.rid == rid for member in self.written
        )

    # The store

    async def write(self, batch: Sequence[Member]) -> Sequence[Result]:
        if self.dead:
            return [LeaseLost() for _ in batch]
        await self._gate()
        failure = self._failures.pop(0) if self._failures else None
        if failure is False:
            raise StoreUnavailable(TROUBLE)
        self._number += 1
        number = self._number
        await self._tell(number, after=False)
        results = await self._write_members(list(batch))
        self.durable()
        await self._tell(number, after=True)
        if failure is True:
            raise StoreUnavailable(TROUBLE)
        self.batches.append(list(batch))
        self._moved.set()
        return results

    async def _gate(self) -> None:
        if self._open:
            return
        self._at_gate.set()
        while not self._lets_through():
            self._turned.clear()
            await self._turned.wait()
        self._passes = 0
        self._at_gate.clear()

    async def _tell(self, number: int, *, after: bool) -> None:
        if self.around is not None:
            await self.around(number, after)

    def _lets_through(self) -> bool:
        return self._open or self._passes > 0

    async def _write_members(self, batch: list[Member]) -> Sequence[Result]:
        refused = [self.refuse(member) for member in batch]
        taken = [member for member, verdict in zip(batch, refused, strict=True) if verdict is None]
        self.writing.set()
        results = iter(await super().write(taken) if taken else ())
        return [next(results) if verdict is None else verdict for verdict in refused]

    async def post(self, run_id: str, judge: Judge, *, at: int) -> Posted:
        posted = await super().post(run_id, judge, at=at)
        self.durable()
        return posted

    async def load(self, rid: int, *, after: int = 0) -> Loaded:
        loaded = await super().load(rid, after=after)
        self.loads.append(rid)
        return loaded

    async def _call(self, worker: Worker, job: Callable[[sqlite3.Connection], T]) -> T:
        if self.down:
            raise StoreUnavailable(TROUBLE)
        return await super()._call(worker, job)
