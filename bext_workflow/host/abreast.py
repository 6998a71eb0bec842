"""Branches of one run that work at the same time, and attempts that beat: calls are tasks, concluded one by one.

The run still has one mailbox and one append at a time: all that moves it is done by the loop here, in its turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import msgspec
from anyio.abc import TaskGroup

from bext_workflow.core.input import Beaten, Input
from bext_workflow.core.state import State
from bext_workflow.core.work import Action, Compensate, Execute, Expire, Notify, Settle, Verify, wakes_after, work
from bext_workflow.host import invoke
from bext_workflow.host.attempts import Admission, Running
from bext_workflow.host.calls import Calls, PluginCall, without_hook
from bext_workflow.host.progress import Progress
from bext_workflow.host.pulse import Pulse
from bext_workflow.host.shop import Shop
from bext_workflow.host.threads import Visit
from bext_workflow.host.transactions import Attempted
from bext_workflow.host.wake import Wake
from bext_workflow.model.transaction import Transact
from bext_workflow.plugin.hooks import Hook


def needs_loop(state: State) -> bool:
    """Whether more may happen to the run at a time than one call and its end: other calls, or heartbeats."""
    losers_undo = state.undo is not None and not state.compensating
    return len(state.live) + losers_undo > 1 or _beats(state)


def _beats(state: State) -> bool:
    if not state.plan.definition.beats or state.compensating:
        return False
    return any(state.plan.step(branch.step).heartbeat_ms > 0 for branch in state.live)


class _Asked(msgspec.Struct, frozen=True):
    """A call that has its place, and waits to be admitted; None is the answer if it had better not be made any more."""

    action: PluginCall
    hook: Hook
    answer: asyncio.Future[invoke.Call | None]
    transact: Transact | None = None


class _Ended(msgspec.Struct, frozen=True):
    """A call that is over, and what was attempted in it, which stands until it is concluded."""

    action: PluginCall
    given: Input
    attempted: Attempted | None = None


class Abreast:
    """One stretch of a run in which its branches work at the same time."""

    def __init__(
        self,
        shop: Shop,
        progress: Progress,
        calls: Calls,
        running: Running,
        wake: Wake,
        perform: Callable[[Action], Awaitable[None]],
    ) -> None:
        """`perform` does what is no call."""
        self._shop = shop
        self._progress = progress
        self._calls = calls
        self._running = running
        self._admission = Admission(shop, progress, calls, running)
        self._wake = wake
        self._perform = perform
        self._ends: deque[_Ended] = deque()
        self._said: deque[tuple[Execute, Pulse]] = deque()
        self._queued: set[str] = set()
        self._asked: deque[_Asked] = deque()
        self._watched: set[Visit] = set()

    async def run(self) -> None:
        """Returns once nothing is under way and nothing is due."""
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            try:
                while await self._step(tasks):
                    pass
            except Exception as error:  # kept whole: the group would wrap it
                failure = error
            tasks.cancel_scope.cancel()  # after a failure what runs, else at most calls that wait for a thread
        if failure is not None:
            raise failure

    async def _step(self, tasks: TaskGroup) -> bool:
        """What has arrived, else what has ended, else what is due; else waits. False: nothing is under way any more."""
        if self._progress.news:
            await self._progress.take_acts()
        elif self._ends:
            await self._conclude(self._ends.popleft())
        elif self._asked:
            await self._answer(self._asked.popleft())
        elif self._said:
            await self._write(*self._said.popleft())
        elif not await self._began(tasks):
            if not self._running.any() and (not self._queued or self._shop.draining.is_set()):
                return False
            await self._wake.wait(wakes_after(self._progress.state, self._shop.clock.now()))
        return not self._progress.released

    async def _began(self, tasks: TaskGroup) -> bool:
        """Does or begins what is due, as far as the state still says so after each; false: nothing is."""
        if self._shop.draining.is_set() or not self._shop.lease.holds:
            return False
        began, state = False, self._progress.state
        for action in work(state, self._shop.clock.now()):
            match action:
                case Execute() | Compensate() | Verify() | Notify():
                    began = await self._began_call(tasks, action) or began
                case Settle() if self._running.of_branch(action.branch):
                    continue  # a stop interrupts no attempt
                case Expire() if state.pivoted and self._running.any():
                    continue  # a person is asked about a branch once it is known what its attempt has done
                case _:
                    await self._perform(action)
                    began = True
            if self._progress.news or self._progress.state is not state:
                return True
        return began

    async def _began_call(self, tasks: TaskGroup, action: PluginCall) -> bool:
        if action.key in self._running or action.key in self._queued:
            return False
        hook = self._calls.hook(action)
        if hook is None:
            await self._progress.conclude(without_hook(action))
        elif self._thread_runs_on(self._calls.visit(action)):
            return False
        elif isinstance(action, Execute) and self._calls.transacts(action):
            self._queued.add(action.key)
            tasks.start_soon(self._call_in_transaction, action, hook)
        elif hook.is_async:
            call = await self._admission.admitted(action, hook)
            if call is not None:
                tasks.start_soon(self._call, action, call)
        else:
            self._queued.add(action.key)
            tasks.start_soon(self._call_in_thread, action, hook)
        return True

    def _thread_runs_on(self, visit: Visit) -> bool:
        """While an earlier attempt of the visit is known to run, nothing else of it does (semantics §6)."""
        if not self._shop.threads.busy(visit):
            self._watched.discard(visit)
            return False
        if visit not in self._watched:
            self._watched.add(visit)
            self._shop.threads.when_quiet(visit, self._wake.ring)
        return True

    async def _conclude(self, ended: _Ended) -> None:
        self._running.ended(ended.action.key)
        if ended.attempted is None:
            await self._progress.conclude(ended.given)
        else:
            await self._progress.conclude_attempted(ended.given, ended.attempted)
            ended.attempted.concluded.set()

    async def _call(self, action: PluginCall, call: invoke.Call, attempted: Attempted | None = None) -> None:
        if isinstance(action, Execute) and call.pulse is not None:
            call.pulse.when_news(partial(self._hear, action, call.pulse))
        self._ends.append(_Ended(action, await self._calls.make(action, call), attempted))
        self._wake.ring()

    def _hear(self, action: Execute, pulse: Pulse) -> None:
        self._said.append((action, pulse))
        self._wake.ring()

    async def _write(self, action: Execute, pulse: Pulse) -> None:
        """Makes durable what an attempt has said last. One that is over by now takes it along with its end."""
        detail = None if pulse.over else pulse.news()
        if detail is None:
            return
        beaten = Beaten(branch=action.branch, step=action.step, visit=action.visit, detail=detail)
        if await self._progress.move(beaten):
            pulse.written(detail)
        else:
            self._said.append((action, pulse))  # acts have arrived, and come first

    async def _call_in_thread(self, action: PluginCall, hook: Hook) -> None:
        """Waiting for a thread may take long: only then is the call admitted, and until then nothing can have acted."""
        async with self._shop.threads.slots:
            call = await self._asked_for(action, hook)
            if call is not None:
                await self._call(action, call)

    async def _call_in_transaction(self, action: Execute, hook: Hook) -> None:
        """The same, with a place for a transaction, which is kept until what it has come to is durable."""
        async with self._shop.transactions.place(self._calls.timeout_ms(action)) as attempted:
            call = await self._asked_for(action, hook, attempted.opened)
            if call is not None:
                await self._call(action, call, attempted)
                await attempted.concluded.wait()

    async def _asked_for(self, action: PluginCall, hook: Hook, transact: Transact | None = None) -> invoke.Call | None:
        asked = _Asked(action, hook, asyncio.get_running_loop().create_future(), transact)
        self._asked.append(asked)
        self._wake.ring()
        return await asked.answer

    async def _answer(self, asked: _Asked) -> None:
        self._queued.discard(asked.action.key)
        call = None
        if asked.action in work(self._progress.state, self._shop.clock.now()):
            call = await self._admission.admitted(asked.action, asked.hook, asked.transact)
        asked.answer.set_result(call)
