"""Where runs are played: a real store, a clock that stands still while it works, and hosts that come and go over it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from typing import TypeVar

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from bext_workflow.errors import StoreUnavailable
from bext_workflow.host.clock import SystemChance
from bext_workflow.host.host import Host, HostSettings
from bext_workflow.plugin.registry import Registry
from bext_workflow.ports.audit import AuditEntry
from bext_workflow.ports.hosting import Profile
from bext_workflow.ports.retention import Expired, Pruned
from bext_workflow.ports.store import Judge, LeaseLost, Loaded, Member, Posted, Result
from bext_workflow.service.engine import stands_still
from bext_workflow.stores import SqliteStore
from bext_workflow.stores.sqlite.worker import Worker
from bext_workflow.testing.clock import FakeClock

T = TypeVar("T")

DEADLINE_S = 30
"""What happens at once on a quiet machine; on a busy one it may take a while."""

GONE = "the host of this process is gone, as after a crash"

SCHEDULES_MS = 60_000
"""How often schedules are looked at: cron lines count minutes."""

PATIENT = HostSettings(poll_ms=86_400_000, drain_timeout_ms=0)
"""A poll is the net under what is due by itself: a long wait on a fake clock need not see thousands of them."""


class StageStore(SqliteStore):
    """A SQLite store that keeps the time of a `FakeClock` from jumping while it works.

    While `dead`, nothing that a host does reaches it, as if the process had been killed. It wants to be asked as seldom
    as `poll_ms` says.
    """

    def __init__(self, path: Path | None = None, *, clock: FakeClock, poll_ms: int = SCHEDULES_MS) -> None:
        super().__init__(path)
        self.clock = clock
        self._profile = replace(super().profile, poll_ms=poll_ms)
        self.dead = False
        self.writes = 0
        """How often something was written."""
        self._moved = asyncio.Event()

    @property
    def profile(self) -> Profile:
        return self._profile

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        """Waits until the condition holds; looks after every write."""
        while True:
            self._moved.clear()
            if await condition():
                return
            await self._moved.wait()

    async def written_since(self, since: int) -> None:
        """Waits until there have been more than `since` writes."""
        while self.writes == since:
            self._moved.clear()
            await self._moved.wait()

    async def stands_still(self, rid: int) -> bool:
        """Whether nothing is under way: all that was asked of the run is done, and what follows from it."""
        loaded = await self.look(rid)
        # Owned, it is about to be something else: a stop is durable before what follows from it.
        return loaded.run.owner is None and not loaded.inbox and stands_still(loaded.run.status)

    async def look(self, rid: int) -> Loaded:
        """A run as it stands."""
        return await super().load(rid)

    async def write(self, batch: Sequence[Member]) -> Sequence[Result]:
        if self.dead:
            return [LeaseLost() for _ in batch]
        results = await super().write(batch)
        self.writes += 1
        self._moved.set()
        return results

    async def post(self, run_id: str, judge: Judge, *, at: int) -> Posted:
        if self.dead:
            raise StoreUnavailable(GONE)
        return await super().post(run_id, judge, at=at)

    async def prune(self, expired: Expired, *, at: int, limit: int, audit: AuditEntry | None = None) -> Pruned:
        if self.dead:
            raise StoreUnavailable(GONE)
        return await super().prune(expired, at=at, limit=limit, audit=audit)

    async def load(self, rid: int, *, after: int = 0) -> Loaded:
        loaded = await super().load(rid, after=after)
        self._moved.set()
        return loaded

    async def leave(self, host_id: str) -> None:
        if not self.dead:
            await super().leave(host_id)

    async def _call(self, worker: Worker, job: Callable[[sqlite3.Connection], T]) -> T:
        with self.clock.held():
            return await super()._call(worker, job)


class FixedChance(SystemChance):
    """Jitter as the test says."""

    def __init__(self, jitter: float = 0.0) -> None:
        super().__init__(seed=1)
        self._draw = jitter

    def jitter(self) -> float:
        return self._draw


class Silent:
    """`Telemetry` that nobody listens to."""

    def log(self, event: str, **fields: object) -> None:
        """Nothing."""

    def add(self, metric: str, amount: float = 1, **labels: str) -> None:
        """Nothing."""

    def value(self, metric: str, **labels: str) -> float:
        """Nothing."""
        return 0


class Stage:
    """One store in memory and one clock, and one host at a time; `enter` and `crash` say which."""

    def __init__(self, registry: Registry, store: StageStore, tasks: TaskGroup) -> None:
        self.registry = registry
        self.store = store
        self.clock = store.clock
        self.chance = FixedChance()
        self._tasks = tasks
        self._over: list[Callable[[], Awaitable[None]]] = []
        self._host: Host | None = None
        self._passing = 0

    @property
    def host(self) -> Host:
        """The host that drives now."""
        if self._host is None:
            raise RuntimeError("no host is on the stage")
        return self._host

    async def enter(self, registry: Registry | None = None) -> Host:
        """A new host. One that is there loses its seat to it, goes on with its attempts, and can commit nothing.

        `registry`: what it serves from then on, where that is loaded anew.
        """
        self.registry = registry or self.registry
        host = Host(
            store=self.store,
            registry=self.registry,
            settings=PATIENT,
            clock=self.clock,
            chance=self.chance,
            telemetry=Silent(),
        )
        ended = anyio.Event()
        await self._tasks.start(self._live, host, ended, name=f"host {len(self._over) + 1}")

        async def over() -> None:
            host.drain()
            await ended.wait()

        self._over.append(over)
        self._host = host
        return host

    async def crash(self) -> None:
        """Every host is abandoned: nothing that it has begun reaches the store. `enter` brings the next one."""
        self.store.dead = True
        await self.close()
        self.store.dead = False

    async def close(self) -> None:
        """Every host drains, and has no time for what runs then."""
        while self._over:
            await self._over.pop()()
        self._host = None

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Time passes while the block runs, up to the next thing to do whenever there is nothing else to do."""
        released = nullcontext() if self._passing else self.clock.released()
        self._passing += 1
        with released:
            try:
                yield
            finally:
                self._passing -= 1

    async def _live(self, host: Host, ended: anyio.Event, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        try:
            async with host.running():
                task_status.started()
                await host.drained.wait()
        finally:
            ended.set()


@asynccontextmanager
async def stage(registry: Registry, store: StageStore) -> AsyncIterator[Stage]:
    """A stage with a host on it, on which time stands still but for `passing`."""
    clock, failure = store.clock, None
    await store.open(migrate=True)
    try:
        async with clock.autojump():
            with clock.held():
                async with anyio.create_task_group() as tasks:
                    on = Stage(registry, store, tasks)
                    try:
                        await on.enter()
                        yield on
                    except Exception as error:
                        failure = error
                    finally:
                        with anyio.CancelScope(shield=True):
                            await on.close()
    finally:
        with anyio.CancelScope(shield=True):
            await store.close()
    if failure is not None:
        # Not from within: a task group would wrap what a test says about it.
        raise failure
