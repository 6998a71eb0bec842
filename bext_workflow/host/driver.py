"""The driver of one run: ask what is due, do it, make what follows durable, ask again.

A driver lives as long as its run has something to do now or in a moment; then the run is a row again. A sequential run
is driven in line, without a task or a queue of its own; branches that work at the same time are driven `abreast`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import anyio

from bext_workflow.core.inbox import read_act
from bext_workflow.core.input import Begun, Cancel, Expired, Input, Opened, Recovered, ReminderDue, Settled, TimerDue
from bext_workflow.core.work import (
    Action,
    Begin,
    CallChild,
    Compensate,
    Execute,
    Expire,
    Fire,
    Notify,
    Open,
    Remind,
    Settle,
    StopChild,
    TellParent,
    UndoChild,
    Verify,
    wake_at,
    work,
)
from bext_workflow.host.abreast import Abreast, needs_loop
from bext_workflow.host.attempts import Admission, Running
from bext_workflow.host.calls import Calls, PluginCall, without_hook
from bext_workflow.host.kin import Kinship
from bext_workflow.host.progress import KEEP_MS, Held, Progress
from bext_workflow.host.shop import Shop
from bext_workflow.host.wake import Wake
from bext_workflow.model.transaction import Transact
from bext_workflow.plugin.hooks import Hook
from bext_workflow.ports.store import InboxRow


class Driver:
    """Drives one run while it has work."""

    def __init__(self, shop: Shop, held: Held) -> None:
        self._shop = shop
        self._orphan = held.orphan
        self.fence = held.fence
        self._moved = held.moved
        self.rid = held.rid
        self._running = Running()
        self._progress = Progress(shop, held, busy=self._running.any)
        self._calls = Calls(shop, held.plugin, self._progress, held.context_bytes)
        self._admission = Admission(shop, self._progress, self._calls, self._running)
        self._kinship = Kinship(shop, self._progress)
        self._wake = Wake(shop.clock, shop.deadlines)
        self.scope = anyio.CancelScope()
        """What the driver does is inside of it: a host that has lost its lease ends it."""

    @property
    def run_id(self) -> str:
        return self._progress.state.run_id

    @property
    def seq(self) -> int:
        """How many events of the run are behind it."""
        return self._progress.state.seq

    @property
    def parked(self) -> bool:
        """Whether the run has become a row that is due at some time."""
        return self._progress.parked

    def poke(self, acts: Sequence[InboxRow] = ()) -> None:
        """Acts have arrived, or it is time to look again. A `cancel --now` among them ends the running attempts."""
        fresh = self._progress.hear(acts)
        self._wake.ring()
        if any(map(_interrupts, fresh)):
            self._running.interrupt()

    async def drive(self) -> None:
        """Returns once the run is given back. Raises `LostLease`."""
        if self._orphan:
            await self._progress.conclude(Recovered(host=self._shop.lease.host_id, fence=self.fence))
        await self._tell_policy()
        while not self._progress.released:
            if self._progress.state.suspect:
                async with self._shop.suspects:
                    await self._turn()
            else:
                await self._turn()

    async def abandon(self, *, wake_at_ms: int) -> None:
        """Lets go of the run after a crash of this driver. Raises `LostLease`."""
        await self._progress.abandon(wake_at_ms=wake_at_ms)

    async def _turn(self) -> None:
        if self._progress.news:
            await self._progress.take_acts()
            return
        now = self._shop.clock.now()
        state = self._progress.state
        if self._shop.draining.is_set():
            await self._progress.give_back(wake_at_ms=wake_at(state))
            return
        if await self._tell_policy():
            return
        due = work(state, now)
        if due and not self._shop.lease.holds:
            # It is renewed, and the driver told, or it is lost, and the driver ended.
            await self._wake.wait(None)
        elif not due:
            await self._rest(now)
        elif needs_loop(state):
            await self._abreast()
        else:
            await self._perform(due[0])

    async def _tell_policy(self) -> bool:
        """Makes durable, once, what holds from the next attempt on (semantics §10). True: it is time to look again.

        A run that has ended hears of it only if a person, or its parent, sets it going again.
        """
        looked = False
        while self._moved is not None and not self._progress.state.status.terminal:
            looked = True
            if await self._progress.move(self._moved):
                self._moved = None
            else:
                # The acts that have arrived may end the run, and then there is nothing to tell.
                await self._progress.take_acts(may_park=False)
        return looked

    async def _rest(self, now: int) -> None:
        """Waits for the next due time, if that is a moment away; else the run becomes a row."""
        wake = wake_at(self._progress.state)
        if wake is None or wake - now > KEEP_MS:
            await self._progress.give_back(wake_at_ms=wake)
            return
        await self._wake.wait(wake)

    async def _abreast(self) -> None:
        shared = (self._progress, self._calls, self._running, self._wake)
        await Abreast(self._shop, *shared, self._perform).run()

    async def _perform(self, action: Action) -> None:
        match action:
            case Execute() | Compensate() | Verify() | Notify():
                await self._call_plugin(action)
            case Settle():
                await self._progress.move(Settled(branch=action.branch))
            case Begin():
                await self._progress.move(Begun())
            case Open():
                await self._progress.move(Opened(branch=action.branch))
            case Fire():
                await self._progress.move(TimerDue(branch=action.branch))
            case Remind():
                await self._progress.move(ReminderDue(branch=action.branch))
            case Expire():
                await self._progress.move(Expired())
            case CallChild() | StopChild() | UndoChild() | TellParent():
                await self._kinship.perform(action)
            case _:
                assert_never(action)

    async def _call_plugin(self, action: PluginCall) -> None:
        """Makes the call that is due, unless something stands in its way by now; then it is time to look again."""
        hook = self._calls.hook(action)
        if hook is None:
            await self._progress.conclude(without_hook(action))
            return
        visit = self._calls.visit(action)
        if self._shop.threads.busy(visit):
            # While an earlier attempt of the visit is known to run, nothing else of it does (semantics §6).
            self._shop.threads.when_quiet(visit, self._wake.ring)
            await self._wake.wait(None)
            return
        if isinstance(action, Execute) and self._calls.transacts(action):
            await self._call_in_transaction(action, hook)
            return
        # Waiting for a thread, or for a process, may take long. The intent comes after it: until then nothing can have
        # acted.
        if hook.room is not None:
            async with hook.room() as bound:
                given = await self._called(action, bound)
        elif hook.is_async:
            given = await self._called(action, hook)
        else:
            async with self._shop.threads.slots:
                given = await self._called(action, hook)
        if given is not None:
            await self._progress.conclude(given)

    async def _call_in_transaction(self, action: Execute, hook: Hook) -> None:
        async with self._shop.transactions.place(self._calls.timeout_ms(action)) as attempted:
            given = await self._called(action, hook, attempted.opened)
            if given is not None:
                await self._progress.conclude_attempted(given, attempted)

    async def _called(self, action: PluginCall, hook: Hook, transact: Transact | None = None) -> Input | None:
        call = await self._admission.admitted(action, hook, transact)
        if call is None:
            return None
        try:
            return await self._calls.make(action, call)
        finally:
            self._running.ended(action.key)


def _interrupts(row: InboxRow) -> bool:
    if row.kind != "cancel":
        return False
    act = read_act(row)
    return isinstance(act, Cancel) and act.now
