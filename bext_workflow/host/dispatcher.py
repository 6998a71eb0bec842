"""The dispatcher: claims runs that are due, while there is room, and sees to it that each has a driver.

Polling is the safety net under every wake-up: a poke that is missed costs one poll interval.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from bext_workflow.core.evolve import fold
from bext_workflow.core.input import PolicyMoved
from bext_workflow.core.state import Plan, State
from bext_workflow.errors import StoreUnavailable
from bext_workflow.host.driver import Driver
from bext_workflow.host.patience import patiently
from bext_workflow.host.progress import Held, LostLease, started
from bext_workflow.host.shop import Shop
from bext_workflow.host.text import plain
from bext_workflow.model.definition import WorkflowDefinition
from bext_workflow.model.journal import decode
from bext_workflow.plugin.registry import Plugin
from bext_workflow.ports import telemetry as names
from bext_workflow.ports.store import Append, Claimed, RunRow, Stale

CLAIM_BATCH = 200
_CRASH_PAUSE_MS = 1_000
SWEEP_MS = 10_000
"""How often a host looks whether it drives all that is its own."""

_AGAIN_MS = 1_000
"""When to ask a store again that did not answer."""

_CLAIMED_ELSEWHERE_MS = 50
"""When to look again for a run that another host has just taken, or somebody else holds for a moment."""


class Plans(Protocol):
    """Finds what is needed to drive a run."""

    async def plan_for(self, run: RunRow) -> tuple[Plan, Plugin]:
        """The definition that the run began with, and the plugin that owns it."""

    async def policy_changes(self, definition: WorkflowDefinition, policy: str) -> tuple[str, ...]:
        """What differs now from the policy of that name, in words."""


class Spawn(Protocol):
    """Starts a driver as a task of the host."""

    def __call__(self, driver: Driver) -> None:
        """Returns at once; the task ends in `Dispatcher.drive`."""


class Dispatcher:
    """Up to `concurrency` drivers at once. `poll_ms` of 0: as the store says."""

    def __init__(
        self,
        shop: Shop,
        plans: Plans,
        spawn: Spawn,
        *,
        served: Collection[tuple[str, int]],
        concurrency: int,
        poll_ms: int,
        only: Collection[str] | None = None,
    ) -> None:
        self._shop = shop
        self._plans = plans
        self._spawn = spawn
        self._served = served
        self._concurrency = concurrency
        self._stated_poll_ms = poll_ms
        self._only = only
        self._active: dict[int, Driver] = {}
        self._starting: set[str] = set()
        self._sweep_at = 0.0
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def active(self) -> int:
        """How many runs are being driven."""
        return len(self._active)

    def wake(self) -> None:
        """Something may be due: look now."""
        self._wake.set()

    def wake_all(self) -> None:
        """The host drains, or its lease holds again: every driver is to look up."""
        self._wake.set()
        for driver in self._active.values():
            driver.poke()

    def end_all(self) -> None:
        """The host has lost its lease: others drive its runs."""
        for driver in self._active.values():
            driver.scope.cancel()

    async def idle(self) -> None:
        """Waits until nothing is driven."""
        await self._idle.wait()

    # Room for runs that are started here

    def reserve(self, run_id: str) -> bool:
        """Takes a place for a run that is about to be created; `begin`, `forget` or `missed` follows."""
        if self._shop.draining.is_set() or not self._shop.lease.holds or self._room() <= 0:
            return False
        self._starting.add(run_id)
        return True

    def forget(self, run_id: str) -> None:
        """Gives the place back."""
        self._starting.discard(run_id)

    def missed(self, run_id: str) -> None:
        """Gives the place back of a run that may be there nevertheless: nobody knows what became of its commit (P6)."""
        self._starting.discard(run_id)
        self._sweep_at = 0.0
        self.wake()

    def begin(self, held: Held) -> None:
        """Drives a run that this host has just created on a reserved place."""
        self._starting.discard(held.state.run_id)
        self._launch(held)

    # The task

    async def run(self) -> None:
        """Looks for work until it is cancelled. While the host drains, acts still reach the runs that go on."""
        while True:
            try:
                pause_ms = await self._look()
            except StoreUnavailable as error:
                self._shop.trouble.met("dispatcher", error)
                pause_ms = min(self._poll_ms, _AGAIN_MS)
            else:
                self._shop.trouble.over("dispatcher")
            deadline = self._shop.deadlines.arm(pause_ms, self._wake.set)
            await self._wake.wait()
            self._wake.clear()
            deadline.cancel()

    async def drive(self, driver: Driver) -> None:
        """The life of one driver. Whatever breaks in it is said, and its run is claimed again."""
        try:
            with driver.scope:
                await driver.drive()
            if driver.scope.cancelled_caught:
                self._lost(driver)
        except LostLease:
            self._lost(driver)
        except Exception as error:
            self._shop.telemetry.log(names.DRIVER_CRASHED, run_id=driver.run_id, error=plain(error), exc_info=error)
            await self._after_crash(driver)
        finally:
            self._part(driver)

    def _lost(self, driver: Driver) -> None:
        self._shop.telemetry.add(names.RESULTS_DISCARDED)
        self._shop.telemetry.log(names.LEASE_LOST, run_id=driver.run_id)

    async def _after_crash(self, driver: Driver) -> None:
        try:
            await driver.abandon(wake_at_ms=self._shop.clock.now() + _CRASH_PAUSE_MS)
        except (LostLease, RuntimeError) as error:
            self._shop.telemetry.log(names.LEASE_LOST, run_id=driver.run_id, error=plain(error))

    async def _look(self) -> int:
        """Passes acts on and takes up what is due, or its own; returns how long nothing more will be, in ms."""
        await self._pass_acts_on()
        pause_ms = await self._claim_all()
        # A store that does not know what a claim has taken tells by the next one, with more than is known here.
        if self._may_claim() and self._shop.clock.monotonic() >= self._sweep_at:
            await self._take_up_strays()
            self._sweep_at = self._shop.clock.monotonic() + SWEEP_MS / 1000
        return pause_ms

    async def _claim_all(self) -> int:
        """Claims while there is room and something is due; returns when to look again, in ms."""
        while (room := self._room()) > 0 and self._may_claim():
            wake = await self._shop.store.next_wake(self._served, only=self._only)
            now = self._shop.clock.now()
            if wake is None or wake > now:
                return self._poll_ms if wake is None else min(self._poll_ms, wake - now)
            if await self._claim(now, min(room, CLAIM_BATCH)) == 0:
                return min(self._poll_ms, _CLAIMED_ELSEWHERE_MS)
        return self._poll_ms

    def _may_claim(self) -> bool:
        return self._shop.lease.holds and not self._shop.draining.is_set()

    async def _claim(self, now: int, limit: int) -> int:
        """Claims and takes up; how many. A drain waits for it: what has been claimed must be given back."""
        self._idle.clear()
        try:
            claimed = await self._shop.store.claim(
                self._shop.lease.host_id, self._served, now=now, limit=limit, only=self._only
            )
            for one in claimed:
                # What an earlier claim took without an answer may have a driver by now.
                if not self._drives(one.loaded.run):
                    await self._take_up(one)
        except StoreUnavailable:
            self._sweep_at = 0.0
            raise
        finally:
            self._note_idle()
        return len(claimed)

    async def _pass_acts_on(self) -> None:
        for rid in await self._shop.store.with_acts(self._shop.lease.host_id):
            driver = self._active.get(rid)
            if driver is not None:
                loaded = await self._shop.store.load(rid, after=driver.seq)
                driver.poke(loaded.inbox)

    def _drives(self, run: RunRow) -> bool:
        """Whether it has a driver; one of an earlier claim, which gave it back, may still be on its way out."""
        driver = self._active.get(run.rid)
        return driver is not None and driver.fence == run.fence

    async def _take_up_strays(self) -> None:
        """Takes up what is the host's and has no driver, nor is about to get one.

        A commit whose answer was lost may go through when it has been given up; and no other host takes a run whose
        owner lives. Whether an earlier owner had begun something is not known then.
        """
        for rid, run_id in await self._shop.store.owned(self._shop.lease.host_id):
            if rid in self._active or run_id in self._starting:
                continue
            # From here on nobody but this task could begin to drive it, so what is read now holds.
            loaded = await self._shop.store.load(rid)
            if loaded.run.owner == self._shop.lease.host_id and self._may_claim():
                await self._take_up(Claimed(loaded, orphan=loaded.run.fence > 1))

    async def _take_up(self, claimed: Claimed) -> None:
        """Launches a driver. A run that cannot be read harms nobody else: it is said, and tried again later."""
        run = claimed.loaded.run
        try:
            held = await self._held(claimed)
        except Exception as error:
            self._shop.telemetry.log(names.DRIVER_CRASHED, run_id=run.run_id, error=plain(error), exc_info=error)
            await self._hand_back(run)
            return
        if run.owner != self._shop.lease.host_id:
            return  # the lease has been lost since: it is an orphan
        self._shop.telemetry.log(names.RUN_CLAIMED, run_id=run.run_id, workflow=run.workflow, orphan=claimed.orphan)
        self._launch(held)

    async def _held(self, claimed: Claimed) -> Held:
        run = claimed.loaded.run
        plan, plugin = await self._plans.plan_for(run)
        state = fold(plan, ((decode(row.kind, row.data), row.at) for row in claimed.loaded.events))
        return Held(
            rid=run.rid,
            fence=run.fence,
            state=state,
            index=run.index,
            plugin=plugin,
            inbox=run.inbox,
            acts=claimed.loaded.inbox,
            orphan=claimed.orphan or started(state),
            context_bytes=sum(len(row.data) for row in claimed.loaded.events),
            moved=await self._moved(state),
        )

    async def _moved(self, state: State) -> PolicyMoved | None:
        definition = state.plan.definition
        if state.policy == definition.policy:
            return None
        changes = await self._plans.policy_changes(definition, state.policy)
        return PolicyMoved(policy=definition.policy, changes=changes)

    async def _hand_back(self, run: RunRow) -> None:
        """Lets go of a run that nobody drives, as it stands."""
        now = self._shop.clock.now()
        index = run.index
        later = replace(index, wake_at=now + _CRASH_PAUSE_MS, release=True)
        while True:
            append = Append(
                rid=run.rid,
                fence=run.fence,
                seq=run.seq,
                inbox=run.inbox,
                at=now,
                events=(),
                index=later,
                previous=index,
            )
            if not isinstance(await self._shop.committer.commit(append), Stale):
                return
            loaded = await patiently(self._shop.clock, partial(self._shop.store.load, run.rid, after=run.seq))
            run = loaded.run

    def _launch(self, held: Held) -> None:
        driver = Driver(self._shop, held)
        self._active[held.rid] = driver
        self._idle.clear()
        self._spawn(driver)

    def _part(self, driver: Driver) -> None:
        was_full = self._room() <= 0
        # A run that was given back may be claimed again, by a new driver, before the old one is through here.
        if self._active.get(driver.rid) is driver:
            del self._active[driver.rid]
        self._note_idle()
        if was_full or driver.parked:
            self._wake.set()

    def _note_idle(self) -> None:
        if not self._active:
            self._idle.set()

    @property
    def _poll_ms(self) -> int:
        return self._stated_poll_ms or self._shop.store.profile.poll_ms

    def _room(self) -> int:
        return self._concurrency - len(self._active) - len(self._starting)
