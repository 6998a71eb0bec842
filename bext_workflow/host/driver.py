"""The driver of one run: ask what is due, do it, make what follows durable, ask again.

A driver lives as long as its run has something to do now or in a moment; then the run is a row again. A sequential run
is driven in line, without a task or a queue of its own; branches that work at the same time have a task for each call.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import assert_never

import anyio
import msgspec
from anyio.abc import TaskGroup

from bext_workflow.core.decide import decide
from bext_workflow.core.inbox import read_act
from bext_workflow.core.input import Begun, Cancel, Expired, Input, Intended, Opened, Recovered, Settled, TimerDue
from bext_workflow.core.work import (
    Action,
    Begin,
    Compensate,
    Execute,
    Expire,
    Fire,
    Notify,
    Open,
    Settle,
    Verify,
    wake_at,
    work,
)
from bext_workflow.host import invoke
from bext_workflow.host.calls import Calls, PluginCall, kind_of, without_hook
from bext_workflow.host.progress import KEEP_MS, Held, Progress
from bext_workflow.host.shop import Shop
from bext_workflow.plugin.hooks import Hook
from bext_workflow.ports.store import Committed, InboxRow, Refused


class _Running(msgspec.Struct, frozen=True):
    """A call that is under way; `branch` is None for an undo and for `on_workflow_complete`."""

    branch: int | None
    handle: invoke.Handle


class Driver:
    """Drives one run while it has work."""

    def __init__(self, shop: Shop, held: Held) -> None:
        self._shop = shop
        self._orphan = held.orphan
        self._fence = held.fence
        self.rid = held.rid
        self._running: dict[str, _Running] = {}
        self._ends: deque[tuple[str, Input]] = deque()
        self._progress = Progress(shop, held, busy=self._busy)
        self._calls = Calls(shop, held.plugin, self._progress, held.context_bytes)
        self._wake = asyncio.Event()

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
        self._wake.set()
        if any(map(_interrupts, fresh)):
            for running in self._running.values():
                running.handle.end(invoke.Interrupted())

    async def drive(self) -> None:
        """Returns once the run is given back. Raises `LostLease`."""
        if self._orphan:
            await self._progress.conclude(Recovered(host=self._shop.host_id, fence=self._fence))
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
        due = work(state, now)
        if not due:
            await self._rest(now)
        elif len(state.live) > 1:
            await self._side_by_side()
        else:
            await self._perform(due[0])

    async def _rest(self, now: int) -> None:
        """Waits for the next due time, if that is a moment away; else the run becomes a row."""
        wake = wake_at(self._progress.state)
        if wake is None or wake - now > KEEP_MS:
            await self._progress.give_back(wake_at_ms=wake)
            return
        await self._woken(wake)

    async def _woken(self, wake: int | None) -> None:
        """Waits until it is poked, or `wake` (ms) has come."""
        deadline = None
        if wake is not None:
            deadline = self._shop.deadlines.arm(max(0, wake - self._shop.clock.now()), self._wake.set)
        await self._wake.wait()
        self._wake.clear()
        if deadline is not None:
            deadline.cancel()

    # One thing after the other

    async def _perform(self, action: Action) -> None:
        match action:
            case Execute() | Compensate() | Verify() | Notify():
                await self._call_plugin(action)
            case Settle():
                await self._progress.conclude(Settled(branch=action.branch))
            case Begin():
                await self._progress.conclude(Begun())
            case Open():
                await self._progress.conclude(Opened(branch=action.branch))
            case Fire():
                await self._progress.conclude(TimerDue(branch=action.branch))
            case Expire():
                await self._progress.conclude(Expired())
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
            self._shop.threads.when_quiet(visit, self._wake.set)
            await self._woken(None)
            return
        if hook.is_async:
            given = await self._called(action, hook)
        else:
            # Waiting for a thread may take long. The intent comes after it: until then nothing can have acted.
            async with self._shop.threads.slots:
                given = await self._called(action, hook)
        if given is not None:
            await self._progress.conclude(given)

    async def _called(self, action: PluginCall, hook: Hook) -> Input | None:
        call = await self._admitted(action, hook)
        if call is None:
            return None
        try:
            return await self._calls.make(action, call)
        finally:
            self._running.clear()

    async def _admitted(self, action: PluginCall, hook: Hook) -> invoke.Call | None:
        """The call, with its intent durable where that must come first; None if it had better not be made now."""
        if self._progress.news or self._shop.draining.is_set() or not await self._intended(action):
            return None
        call = self._calls.prepare(action, hook)
        branch = action.branch if isinstance(action, Execute | Verify) else None
        self._running[action.key] = _Running(branch, call.handle)
        return call

    async def _intended(self, action: PluginCall) -> bool:
        """Makes the intent durable where that must come first; false: acts have arrived instead."""
        if isinstance(action, Verify) or not action.intend:
            return True
        now = self._shop.clock.now()
        branch = action.branch if isinstance(action, Execute) else 0
        decision = decide(self._progress.state, Intended(call=kind_of(action), branch=branch), now=now)
        result = await self._progress.commit(decision, now)
        if isinstance(result, Refused):
            raise RuntimeError(f"the store refused the intent of {action.key}: {result.reason}")
        return isinstance(result, Committed)

    # Several at a time

    async def _side_by_side(self) -> None:
        """While branches work at the same time: their calls are tasks, whose ends are concluded one by one."""
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            try:
                while await self._beside(tasks):
                    pass
            except Exception as error:  # kept whole: the group would wrap it
                failure = error
                tasks.cancel_scope.cancel()
        self._running.clear()
        self._ends.clear()
        if failure is not None:
            raise failure

    async def _beside(self, tasks: TaskGroup) -> bool:
        """One step of it: what has ended, else what is due, else wait. False: nothing runs beside anything."""
        if self._progress.news:
            await self._progress.take_acts()
        elif self._ends:
            key, given = self._ends.popleft()
            self._running.pop(key, None)
            await self._progress.conclude(given)
        elif not await self._began(tasks):
            if not self._running:
                return False
            await self._woken(self._next_wake())
        return not self._progress.released

    async def _began(self, tasks: TaskGroup) -> bool:
        """Does or begins one thing that is due; false: there is none."""
        if self._shop.draining.is_set():
            return False
        for action in work(self._progress.state, self._shop.clock.now()):
            match action:
                case Execute() | Compensate() | Verify() | Notify():
                    if await self._began_call(tasks, action):
                        return True
                case Settle() if self._runs(action.branch):
                    continue  # a stop interrupts no attempt
                case _:
                    await self._perform(action)
                    return True
        return False

    async def _began_call(self, tasks: TaskGroup, action: PluginCall) -> bool:
        hook = self._calls.hook(action)
        if action.key in self._running:
            return False
        if hook is None:
            await self._progress.conclude(without_hook(action))
            return True
        visit = self._calls.visit(action)
        if self._shop.threads.busy(visit):
            self._shop.threads.when_quiet(visit, self._wake.set)
            return False
        call = await self._admitted(action, hook)
        if call is not None:
            tasks.start_soon(self._one_call, action, call, hook)
        return True

    async def _one_call(self, action: PluginCall, call: invoke.Call, hook: Hook) -> None:
        if hook.is_async:
            given = await self._calls.make(action, call)
        else:
            async with self._shop.threads.slots:
                given = await self._calls.make(action, call)
        self._ends.append((action.key, given))
        self._wake.set()

    def _busy(self) -> bool:
        return bool(self._running)

    def _runs(self, branch_id: int) -> bool:
        """Whether a call of the branch is under way."""
        return any(running.branch == branch_id for running in self._running.values())

    def _next_wake(self) -> int | None:
        """When something is due by the clock; what is due already waits for something else."""
        wake = wake_at(self._progress.state)
        return None if wake is None or wake <= self._shop.clock.now() else wake


def _interrupts(row: InboxRow) -> bool:
    if row.kind != "cancel":
        return False
    act = read_act(row)
    return isinstance(act, Cancel) and act.now
