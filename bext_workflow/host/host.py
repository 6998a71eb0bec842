"""The host's life: take the driver's seat, open the plugins, drive, drain, let go; in this order and back."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import ip_network

import anyio
import msgspec
from anyio.abc import TaskGroup

from bext_workflow.core.evolve import initial
from bext_workflow.core.input import Late
from bext_workflow.errors import BextError, StoreUnavailable
from bext_workflow.host import lifespans
from bext_workflow.host.appending import index_of
from bext_workflow.host.committer import Committer
from bext_workflow.host.courier import Courier
from bext_workflow.host.deadlines import Deadlines
from bext_workflow.host.dispatcher import Dispatcher
from bext_workflow.host.driver import Driver
from bext_workflow.host.family import descendants
from bext_workflow.host.invoke import Invoker
from bext_workflow.host.lease import Lease
from bext_workflow.host.outbox import Outbox
from bext_workflow.host.plans import RegistryPlans
from bext_workflow.host.posting import Post
from bext_workflow.host.progress import Held
from bext_workflow.host.retention import Retention
from bext_workflow.host.schedules import Schedules
from bext_workflow.host.shop import Shop
from bext_workflow.host.threads import Threads
from bext_workflow.host.transactions import Transactions
from bext_workflow.host.trouble import Trouble
from bext_workflow.host.waiting import Settlements
from bext_workflow.model.status import IncidentKind
from bext_workflow.plugin.registry import Registry
from bext_workflow.ports import telemetry as names
from bext_workflow.ports.clock import Chance, Clock
from bext_workflow.ports.hosting import LEASE_MS
from bext_workflow.ports.retention import RetentionDays
from bext_workflow.ports.store import Committed, HostRow, Result, Store
from bext_workflow.ports.telemetry import Telemetry
from bext_workflow.service import wait_tokens
from bext_workflow.service.acting import act_of_host
from bext_workflow.service.catalog import Catalog
from bext_workflow.service.definitions import Definitions
from bext_workflow.service.engine import Serving, stands_still
from bext_workflow.service.feed import Feed
from bext_workflow.service.protocols import Readiness
from bext_workflow.service.starting import NewRun, create_of

_FLUSH_S, _LEAVE_S = 3, 2
"""What the last commits and the farewell may take with a store that does not answer (P50)."""


class HostSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of `[host]`, with its defaults. `poll_ms` of 0: as the store says."""

    concurrency: int = 512
    drain_timeout_ms: int = 30_000
    poll_ms: int = 0
    lease_ms: int = LEASE_MS
    context_bytes: int = 1_048_576
    threads: int = 64
    leaked_threads: int = 16
    webhook_networks: tuple[str, ...] = ()
    retention: RetentionDays = RetentionDays()


class Host:
    """Drives the runs of one store with one set of plugins; with `only`, that one run: `async with host.running()`."""

    def __init__(
        self,
        *,
        store: Store,
        registry: Registry,
        settings: HostSettings,
        clock: Clock,
        chance: Chance,
        telemetry: Telemetry,
        only: str | None = None,
    ) -> None:
        self._store = store
        self._registry = registry
        self._settings = settings
        self._clock = clock
        self._chance = chance
        self._telemetry = telemetry
        self._only = only
        self._family = None if only is None else {only}
        self._definitions = Definitions(store, Catalog(registry), self)
        self.settlements = Settlements()
        self.feed = Feed()
        self.drained = asyncio.Event()
        """Set once the host is to stop: by `drain`, or by itself when too many threads have leaked."""
        self.plans = RegistryPlans(registry, store)
        deadlines = Deadlines(clock)
        trouble = Trouble(telemetry)
        self._lease = Lease(store, clock, chance, telemetry, trouble, lost=self._lease_lost, held=self._lease_held)
        threads = Threads(settings.threads, telemetry, most_leaked=settings.leaked_threads, too_many=self.drain)
        self._shop = Shop(
            lease=self._lease,
            store=store,
            committer=Committer(store, clock, trouble),
            invoker=Invoker(deadlines, threads),
            threads=threads,
            transactions=Transactions(store, clock),
            deadlines=deadlines,
            clock=clock,
            chance=chance,
            telemetry=telemetry,
            context_bytes=settings.context_bytes,
            trouble=trouble,
            suspects=asyncio.Lock(),
            draining=self.drained,
            moved=self.settlements.moved,
            late=self._late,
            definitions=self._definitions,
            adopt=self._adopt,
            mint=lambda key: wait_tokens.mint(self._signs_with, key),
            outbox=Outbox(store, chance),
            feed=self.feed,
        )
        self._post = Post([ip_network(network) for network in settings.webhook_networks])
        self._courier = Courier(
            store=store,
            outbox=self._shop.outbox,
            clock=clock,
            telemetry=telemetry,
            trouble=trouble,
            draining=self.drained,
            send=self._post,
        )
        self._retention = Retention(
            store=store,
            days=settings.retention,
            clock=clock,
            telemetry=telemetry,
            draining=self.drained,
        )
        self._dispatcher = Dispatcher(
            self._shop,
            self.plans,
            self._spawn,
            served=tuple(registry.served),
            concurrency=settings.concurrency,
            poll_ms=settings.poll_ms,
            only=self._family,
        )
        # Who drives one run only is no host to start others.
        self._schedules = Schedules(self._shop, registry, self.create) if only is None else None
        self._served = tuple(
            (id_, version, served.definition.digest) for (id_, version), served in registry.served.items()
        )
        self._signs_with = b""
        self._started = False
        self._wound_down = False
        self._drivers: TaskGroup | None = None
        self._tasks: TaskGroup | None = None

    @property
    def host_id(self) -> str:
        """A new one after a lease that was lost."""
        return self._lease.host_id

    @property
    def leaked_threads(self) -> int:
        """Calls that outlived their time-out and run on in threads that nothing can end."""
        return self._shop.threads.leaked

    def readiness(self) -> Readiness:
        """Red while the store takes no writes, and while the host drains."""
        reasons = self._shop.trouble.reasons
        if self.drained.is_set():
            reasons.append("the host is draining")
        return Readiness(ready=not reasons, reasons=reasons)

    def wake(self) -> None:
        """Something was written that may be due: look now rather than at the next poll."""
        self._dispatcher.wake()

    def _adopt(self, run_id: str) -> None:
        """A child or a parent of a run that is driven here has something to do; it is driven with that run."""
        if self._family is not None:
            self._family.add(run_id)
        self.wake()

    def drain(self) -> None:
        """Nothing new starts from here on; `running` goes on to its end once the running attempts have ended."""
        if not self.drained.is_set():
            self.drained.set()
            self._telemetry.log(names.HOST_DRAINING, running=self._dispatcher.active)
            self._dispatcher.wake_all()

    # The service's engine

    async def create(self, new: NewRun) -> tuple[NewRun, Result]:
        """Makes a start durable. With room, this host drives the run at once, and it never was PENDING.

        A run that was forked may be of a workflow that is not served here: it waits for a host that does.
        """
        if not self.plans.has(new.created) or not self._dispatcher.reserve(new.created.run_id):
            result = await self._shop.committer.commit(create_of(new, owner=None))
            self.wake()
            return new, result
        begun, owner = new.begun(), self.host_id
        try:
            created = self._shop.committer.submit(create_of(begun, owner=owner))
        except StoreUnavailable:
            self._dispatcher.forget(new.created.run_id)
            raise
        # The run is this host's to drive from its commit on, whether or not whoever asked for it still waits then.
        created.add_done_callback(partial(self._begin, begun, owner))
        return begun, await asyncio.shield(created)

    async def served(self) -> Collection[Serving]:
        return self._served

    async def settled(self, run_id: str, *, wait_ms: int) -> None:
        """Hears of it from the driver itself; a run that a driver has let go is looked at by the caller."""
        future = self.settlements.next(run_id)
        try:
            rows = await self._store.find(run_id, limit=1)
            if rows and not stands_still(rows[0].status):
                with anyio.move_on_after(wait_ms / 1000):
                    await future
        finally:
            self.settlements.forget(run_id, future)

    async def idle(self) -> None:
        """Waits until nothing is driven."""
        await self._dispatcher.idle()

    async def wound_down(self) -> None:
        """Waits until the host is told to drain and the attempts that ran then have ended, or their time is up."""
        await self.drained.wait()
        with anyio.move_on_after(self._settings.drain_timeout_ms / 1000):
            await self._dispatcher.idle()
        self._wound_down = True

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Drives while the block runs; at its end the host drains. Raises what stands in the way of starting."""
        async with self.seated(), self.driving():
            yield

    @asynccontextmanager
    async def seated(self) -> AsyncIterator[None]:
        """Has the driver's seat while the block runs, and drives nothing yet. Raises `StoreBusy`."""
        await self._lease.take(self._row())
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await self._leave()
            if self._started:
                self._telemetry.log(names.HOST_STOPPED, host_id=self.host_id)

    @asynccontextmanager
    async def driving(self) -> AsyncIterator[None]:
        """`running`, for a host that has its seat."""
        self.plans.refuse_without_transaction()
        await self.plans.refuse_changed_graphs()
        await self.plans.keep_definitions()
        self._signs_with = await self._store.secret(wait_tokens.SIGNED_WITH)
        if self._only is not None and self._family is not None:
            self._family |= await descendants(self._store, self._only)
        await self._count_open_incidents()
        await self._shop.outbox.refresh()
        async with lifespans.opened(self._registry.plugins), anyio.create_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(self._shop.committer.run, name="committer")
            tasks.start_soon(self._lease.keep, name="lease")
            tasks.start_soon(self._store.listen, self._heard, name="wake-ups")
            async with anyio.create_task_group() as drivers:
                self._drivers = drivers
                drivers.start_soon(self._dispatcher.run, name="dispatcher")
                if self._schedules is not None and self._registry.schedules:
                    drivers.start_soon(self._schedules.run, name="schedules")
                if self._only is None:
                    drivers.start_soon(self._courier.run, name="webhooks")
                    drivers.start_soon(self._retention.run, name="retention")
                self._started = True
                self._telemetry.log(names.HOST_STARTED, host_id=self.host_id, pid=os.getpid())
                try:
                    yield
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._drain(drivers)
            with anyio.move_on_after(_FLUSH_S, shield=True):
                await self._shop.committer.flushed()
            await self._post.close()
            tasks.cancel_scope.cancel()

    async def _drain(self, drivers: TaskGroup) -> None:
        self.drain()
        if not self._wound_down:
            await self.wound_down()
        # What still runs is cut off, as by a crash: its runs stay owned by a host that is gone.
        drivers.cancel_scope.cancel()
        # And what ends from here on, in threads and commits, starts nothing.
        self._drivers = self._tasks = None

    async def _leave(self) -> None:
        with anyio.move_on_after(_LEAVE_S):
            try:
                await self._store.leave(self.host_id)
            except BextError as error:
                self._telemetry.log(names.STORE_UNAVAILABLE, error=error.message)

    async def _count_open_incidents(self) -> None:
        for kind in IncidentKind:
            self._telemetry.add(names.INCIDENTS_OPEN, 0, kind=kind)
        for kind, count in await self._store.open_incidents():
            self._telemetry.add(names.INCIDENTS_OPEN, count, kind=kind)

    def _row(self) -> HostRow:
        return HostRow(
            host_id=self.host_id,
            pid=os.getpid(),
            hostname=platform.node(),
            started_at=self._clock.now(),
            served=self._served,
            only=self._only,
            lease_ms=self._settings.lease_ms,
        )

    def _heard(self, host_id: str | None) -> None:
        """Something may be due for anybody, or a host's runs have got acts."""
        if host_id is None or host_id == self.host_id:
            self.wake()

    def _lease_lost(self) -> None:
        self._dispatcher.end_all()

    def _lease_held(self) -> None:
        self._dispatcher.wake_all()

    def _begin(self, begun: NewRun, owner: str, created: asyncio.Future[Result]) -> None:
        """Drives a run that was to be created on a reserved place, if it has been, and is this host's still."""
        run_id = begun.created.run_id
        if created.cancelled() or self._tasks is None or owner != self.host_id:
            self._dispatcher.forget(run_id)
        elif isinstance(created.exception(), StoreUnavailable):
            self._dispatcher.missed(run_id)
        elif created.exception() is None and isinstance(result := created.result(), Committed):
            self._dispatcher.begin(self._held(begun, result.rid))
        else:
            self._dispatcher.forget(run_id)

    def _spawn(self, driver: Driver) -> None:
        # A claim may end in the very moment in which the host lets go: its run is as after a crash.
        if self._drivers is not None:
            self._drivers.start_soon(self._dispatcher.drive, driver, name=driver.run_id)

    def _held(self, begun: NewRun, rid: int) -> Held:
        served = self.plans.serves(begun.created.workflow, begun.created.version)
        state = initial(self.plans.plan_of_served(served), begun.created, begun.at)
        return Held(
            rid=rid,
            fence=1,
            state=state,
            index=index_of(state, wake_at=begun.at),
            plugin=served.plugin,
            context_bytes=len(begun.created.context.text),
        )

    def _late(self, run_id: str, late: Late) -> None:
        self._telemetry.log(names.LATE_RESULT, run_id=run_id, step=late.step, attempt=late.attempt)
        if self._tasks is not None:
            self._tasks.start_soon(self._post_late, run_id, late)

    async def _post_late(self, run_id: str, late: Late) -> None:
        try:
            await self._store.post(run_id, lambda _: act_of_host(late, f"host:{self.host_id}"), at=self._clock.now())
        except BextError as error:
            self._telemetry.log(names.LATE_RESULT, run_id=run_id, error=error.message)
        self.wake()
