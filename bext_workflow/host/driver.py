"""The driver of one run: ask what is due, do it, make what follows durable, ask again.

A driver lives as long as its run has something to do now or in a moment; then the run is a row again. Only the owner of
the fence appends to a journal: a lost lease ends the driver, and what it knew counts for nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeAlias, assert_never

import msgspec

from bext_workflow.core.decide import Decision, decide
from bext_workflow.core.inbox import read_act, take
from bext_workflow.core.input import (
    Begun,
    Cancel,
    Continued,
    End,
    Expired,
    Finished,
    Input,
    Intended,
    Late,
    Lost,
    Notified,
    Opened,
    Parked,
    Recovered,
    Settled,
    TimerDue,
    Undone,
    Verified,
)
from bext_workflow.core.state import Phase, State
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
from bext_workflow.host import invoke, snapshot
from bext_workflow.host.appending import append_of, index_of
from bext_workflow.host.patience import patiently
from bext_workflow.host.reports import report
from bext_workflow.host.shop import Shop
from bext_workflow.host.text import describe
from bext_workflow.host.threads import OnLate
from bext_workflow.model.json import dumps
from bext_workflow.model.outcome import Unknown
from bext_workflow.model.status import Call
from bext_workflow.plugin.hooks import Hook
from bext_workflow.plugin.registry import Plugin
from bext_workflow.ports.store import Committed, InboxRow, Index, LeaseLost, Loaded, Refused, Stale

PluginCall: TypeAlias = Execute | Compensate | Verify | Notify

KEEP_MS = 1_000
"""A run whose next work is further away than this is not kept in memory (semantics §8)."""


class LostLease(Exception):
    """Another host drives the run now."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A run as a driver begins with it. `inbox`: the number of acts that `acts` shows; `orphan`: its owner is gone."""

    rid: int
    fence: int
    state: State
    index: Index
    plugin: Plugin
    inbox: int = 0
    acts: Sequence[InboxRow] = ()
    orphan: bool = False
    context_bytes: int = 0


class Driver:
    """Drives one run while it has work."""

    def __init__(self, shop: Shop, held: Held) -> None:
        self._shop = shop
        self._plugin = held.plugin
        self._rid = held.rid
        self._fence = held.fence
        self._state = held.state
        self._index = held.index
        self._inbox = held.inbox
        self._news = bool(held.acts)
        self._orphan = held.orphan
        self._context_bytes = held.context_bytes
        self._released = False
        self._wake = asyncio.Event()
        self._handle: invoke.Handle | None = None

    @property
    def run_id(self) -> str:
        return self._state.run_id

    @property
    def rid(self) -> int:
        return self._rid

    @property
    def seq(self) -> int:
        """How many events of the run are behind it."""
        return self._state.seq

    def poke(self, acts: Sequence[InboxRow] = ()) -> None:
        """Acts have arrived, or it is time to look again. A `cancel --now` among them ends the running attempt."""
        # Those that have been taken meanwhile were about a call that is over.
        fresh = [row for row in acts if row.n > self._state.inbox]
        self._news = self._news or bool(fresh)
        self._wake.set()
        if self._handle is not None and any(map(_interrupts, fresh)):
            self._handle.end(invoke.Interrupted())

    async def drive(self) -> None:
        """Returns once the run is given back. Raises `LostLease`."""
        if self._orphan:
            await self._conclude(Recovered(host=self._shop.host_id, fence=self._fence))
        while not self._released:
            if self._state.suspect:
                async with self._shop.suspects:
                    await self._turn()
            else:
                await self._turn()

    async def abandon(self, *, wake_at_ms: int) -> None:
        """Lets go of the run after a crash of this driver, whatever has arrived in its inbox. Raises `LostLease`."""
        while isinstance(await self._give_back(wake_at_ms=wake_at_ms), Stale):
            self._inbox = (await self._load()).run.inbox

    async def _give_back(self, *, wake_at_ms: int | None) -> Committed | Stale | Refused:
        """Lets go of the run as it stands, to be claimed from `wake_at_ms` on."""
        index = index_of(self._state, wake_at=wake_at_ms, release=True)
        return await self._append(Decision([], self._state), index, self._shop.clock.now())

    async def _turn(self) -> None:
        if self._news:
            await self._take_acts()
            return
        now = self._shop.clock.now()
        if self._shop.draining.is_set():
            await self._give_back(wake_at_ms=wake_at(self._state))
            return
        due = work(self._state, now)
        if due:
            await self._perform(due[0])
        else:
            await self._rest(now)

    async def _rest(self, now: int) -> None:
        """Waits for the next due time, if that is a moment away; else the run becomes a row."""
        wake = wake_at(self._state)
        if wake is None or wake - now > KEEP_MS:
            await self._give_back(wake_at_ms=wake)
            return
        deadline = self._shop.deadlines.arm(wake - now, self._wake.set)
        await self._wake.wait()
        self._wake.clear()
        deadline.cancel()

    # What is due

    async def _perform(self, action: Action) -> None:
        match action:
            case Execute() | Compensate() | Verify() | Notify():
                await self._call_plugin(action)
            case Settle():
                await self._move(Settled(branch=action.branch))
            case Begin():
                await self._move(Begun())
            case Open():
                await self._move(Opened(branch=action.branch))
            case Fire():
                await self._move(TimerDue(branch=action.branch))
            case Expire():
                await self._move(Expired())
            case _:
                assert_never(action)

    async def _call_plugin(self, action: PluginCall) -> None:
        """Makes the call that is due, unless something stands in its way by now; then it is time to look again."""
        hook = self._hook(action)
        if hook is None:
            await self._conclude(_without_hook(action))
            return
        if await self._held_by_thread(action):
            return
        if hook.is_async:
            given = await self._called(action, hook)
        else:
            # Waiting for a thread may take long. The intent comes after it: until then nothing can have acted.
            async with self._shop.threads.slots:
                given = await self._called(action, hook)
        if given is not None:
            await self._conclude(given)

    def _hook(self, action: PluginCall) -> Hook | None:
        match action:
            case Execute():
                return self._plugin.run_step
            case Compensate():
                return self._plugin.compensate_step
            case Verify():
                return self._plugin.verify_step
            case Notify():
                return self._plugin.on_workflow_complete

    async def _called(self, action: PluginCall, hook: Hook) -> Input | None:
        """Calls the plugin; what its word means for the run, None if the call had better not be made now."""
        if self._news or self._shop.draining.is_set() or not await self._intended(action):
            return None
        call = self._call(hook, action)
        invoker, limit = self._shop.invoker, self._shop.context_bytes
        match action:
            case Execute():
                self._handle = call.handle
                try:
                    end = await invoker.step(call, max_bytes=limit)
                finally:
                    self._handle = None
                return Finished(branch=action.branch, end=self._within_limit(end))
            case Compensate():
                return Undone(await invoker.undo(call))
            case Verify():
                answer = await invoker.verify(call, max_bytes=limit)
                if isinstance(answer, Continued | Parked) and isinstance(self._within_limit(answer), Lost):
                    answer = Unknown()
                return Verified(call=action.call, branch=action.branch, answer=answer)
            case Notify():
                return Notified(n=action.n, error=await invoker.complete(call))

    async def _intended(self, action: PluginCall) -> bool:
        """Makes the intent durable where that must come first; false: acts have arrived instead."""
        if isinstance(action, Verify) or not action.intend:
            return True
        now = self._shop.clock.now()
        branch = action.branch if isinstance(action, Execute) else 0
        decision = decide(self._state, Intended(call=_kind_of(action), branch=branch), now=now)
        result = await self._commit(decision, now)
        if isinstance(result, Refused):
            raise RuntimeError(f"the store refused the intent of {action.key}: {result.reason}")
        return isinstance(result, Committed)

    async def _held_by_thread(self, action: PluginCall) -> bool:
        """While an earlier attempt of the visit is known to run, nothing else of it does (semantics §6)."""
        step, number = ("", action.n) if isinstance(action, Notify) else (action.step, action.visit)
        visit = (self._state.run_id, step, number)
        if not self._shop.threads.busy(visit):
            return False
        self._shop.threads.when_quiet(visit, self._wake.set)
        await self._wake.wait()
        self._wake.clear()
        return True

    def _call(self, hook: Hook, action: PluginCall) -> invoke.Call:
        timeout_ms = invoke.COMPLETION_TIMEOUT_MS
        if not isinstance(action, Notify):
            timeout_ms = self._state.plan.step(action.step).timeout_ms
        run = snapshot.of(self._state, action)
        return invoke.Call(
            hook=hook,
            run=run,
            timeout_ms=timeout_ms,
            handle=invoke.Handle(),
            on_late=self._on_late(_kind_of(action), run.step, run.visit, run.attempt),
        )

    def _on_late(self, call: Call, step: str, visit: int, attempt: int) -> OnLate:
        run_id = self._state.run_id

        def told(result: object, error: BaseException | None) -> None:
            evidence = {"late": True, "returned": describe(result)}
            if error is not None:
                evidence = {"late": True, "raised": describe(error)}
            self._shop.late(run_id, Late(act=0, call=call, step=step, visit=visit, attempt=attempt, evidence=evidence))

        return told

    def _within_limit(self, end: End) -> End:
        """Refuses updates that would make the context too large. The running sum only ever overstates the size."""
        if not isinstance(end, Continued | Parked):
            return end
        self._context_bytes += len(end.updates.text)
        if self._context_bytes <= self._shop.context_bytes:
            return end
        size = len(dumps(self._state.context.merged(end.updates.value).to_dict()))
        if size <= self._shop.context_bytes:
            self._context_bytes = size
            return end
        reason = f"refused: the context would be {size} bytes of JSON, over the limit of {self._shop.context_bytes}"
        return Lost(reason=reason, evidence={"returned": describe(end.updates.value)})

    # What follows

    async def _move(self, given: Input) -> None:
        """Makes a move that is due, unless acts have arrived: they may make it void, so it is time to look again."""
        now = self._shop.clock.now()
        result = await self._commit(decide(self._state, given, now=now), now)
        if isinstance(result, Refused):
            raise RuntimeError(f"the store refused {type(given).__name__}: {result.reason}")

    async def _conclude(self, given: Input) -> None:
        """Decides what follows from what has happened; the acts that have arrived in the inbox meanwhile come first."""
        while True:
            now = self._shop.clock.now()
            decision = decide(self._state, given, now=now, jitter=self._shop.chance.jitter())
            match await self._commit(decision, now):
                case Committed():
                    return
                case Stale():
                    await self._take_acts(keeps=True)
                case Refused(reason=reason) if isinstance(given, Finished) and not isinstance(given.end, Lost):
                    given = Finished(branch=given.branch, end=Lost(reason=f"the store refused the result: {reason}"))
                case Refused(reason=reason):
                    raise RuntimeError(f"the store refused {type(given).__name__}: {reason}")

    async def _take_acts(self, *, keeps: bool = False) -> None:
        """Reads the inbox, decides what follows, commits it; again, if more has arrived by then."""
        while True:
            self._news = False
            loaded = await self._load()
            if loaded.run.fence != self._fence:
                raise LostLease
            self._inbox = loaded.run.inbox
            now = self._shop.clock.now()
            decision = take(self._state, loaded.inbox, now=now, jitter=self._shop.chance.jitter())
            if not decision.events or isinstance(await self._commit(decision, now, keeps=keeps), Committed):
                return

    async def _load(self) -> Loaded:
        """What is new of the run."""
        return await patiently(self._shop.clock, lambda: self._shop.store.load(self._rid, after=self._state.seq))

    async def _commit(self, decision: Decision, at: int, *, keeps: bool = False) -> Committed | Stale | Refused:
        """Makes the decision durable; gives the run back with it if nothing is due for a while.

        `keeps`: not now, since the end of a call is in hand that is to be made durable next.
        """
        after = decision.state
        wake = wake_at(after)
        rests = wake is None or wake - at > KEEP_MS or (self._shop.draining.is_set() and not started(after))
        # With acts in its inbox a row would not be due: it becomes so only when an act arrives, and these have.
        parks = rests and not self._news and not keeps
        # While the run is owned its due time says nothing, and an index entry that stays costs nothing.
        index = index_of(after, wake_at=wake if parks else self._index.wake_at, release=parks)
        return await self._append(decision, index, at)

    async def _append(self, decision: Decision, index: Index, at: int) -> Committed | Stale | Refused:
        append = append_of(
            self._state,
            decision,
            rid=self._rid,
            fence=self._fence,
            inbox=self._inbox,
            at=at,
            index=index,
            previous=self._index,
        )
        result = await self._shop.committer.commit(append)
        match result:
            case Committed():
                self._accept(decision, index)
                return result
            case Stale():
                self._news = True
                return result
            case Refused():
                return result
            case LeaseLost():
                raise LostLease
            case _:
                raise RuntimeError(f"the store answered an append with {result!r}")

    def _accept(self, decision: Decision, index: Index) -> None:
        self._state = decision.state
        self._index = index
        self._released = index.release
        if decision.events:
            report(self._shop, decision)


def started(state: State) -> bool:
    """Whether a call may be running whose intent is durable."""
    calls = [branch.phase for branch in state.branches] + [notice.phase for notice in state.notices]
    return Phase.STARTED in calls or (state.undo is not None and state.undo.phase is Phase.STARTED)


def _kind_of(action: PluginCall) -> Call:
    match action:
        case Execute():
            return Call.STEP
        case Compensate():
            return Call.UNDO
        case Verify():
            return action.call
        case Notify():
            return Call.COMPLETE


def _without_hook(action: PluginCall) -> Input:
    """What follows where the plugin has no hook for it; `run_step` it always has."""
    match action:
        case Verify():
            return Verified(call=action.call, branch=action.branch, answer=Unknown())
        case Notify():
            return Notified(n=action.n)
        case Execute() | Compensate():
            return Undone()


def _interrupts(row: InboxRow) -> bool:
    if row.kind != "cancel":
        return False
    act = read_act(row)
    return isinstance(act, Cancel) and act.now
