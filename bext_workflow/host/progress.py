"""The progress of one run: its state, and how it is made durable. Only the owner of the fence appends to a journal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from bext_workflow.core.decide import Decision, decide
from bext_workflow.core.inbox import take
from bext_workflow.core.input import Finished, Input, Lost, PolicyMoved, Withdrawn
from bext_workflow.core.state import Phase, State
from bext_workflow.core.work import wake_at
from bext_workflow.host.appending import append_of, index_of
from bext_workflow.host.patience import patiently
from bext_workflow.host.reports import report
from bext_workflow.host.shop import Shop
from bext_workflow.host.transactions import Attempted, BrokenOff
from bext_workflow.plugin.registry import Plugin
from bext_workflow.ports.store import Committed, InboxRow, Index, LeaseLost, Loaded, Refused, Stale

KEEP_MS = 1_000
"""A run whose next work is further away than this is not kept in memory (semantics §8)."""


_MOST_LET_DOWN = 10


class LostLease(Exception):
    """Another host drives the run now; what this one knew of it counts for nothing."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A run as a driver begins with it. `inbox`: the number of acts that `acts` shows; `orphan`: its owner is gone.

    `moved`: what its definition says has changed since it was last driven.
    """

    rid: int
    fence: int
    state: State
    index: Index
    plugin: Plugin
    inbox: int = 0
    acts: Sequence[InboxRow] = ()
    orphan: bool = False
    context_bytes: int = 0
    moved: PolicyMoved | None = None


class Progress:
    """One append at a time; each is conditional on the acts that it knew.

    `busy` says whether calls of the run are under way: as long as they are, it is not given back.
    """

    def __init__(self, shop: Shop, held: Held, *, busy: Callable[[], bool]) -> None:
        self._shop = shop
        self._busy = busy
        self._rid = held.rid
        self._fence = held.fence
        self._index = held.index
        self._inbox = held.inbox
        self._let_down = 0
        self.state = held.state
        self.news = bool(held.acts)
        """Acts have arrived that are not in the state yet."""
        self.released = False
        """The run has been given back."""

    @property
    def parked(self) -> bool:
        """Whether the run has become a row that is due at some time."""
        return self.released and self._index.wake_at is not None

    def hear(self, acts: Sequence[InboxRow]) -> Sequence[InboxRow]:
        """Takes note of acts; returns those that the state does not know."""
        # Those that have been taken meanwhile were about a call that is over.
        fresh = [row for row in acts if row.n > self.state.inbox]
        self.news = self.news or bool(fresh)
        return fresh

    async def move(self, given: Input) -> bool:
        """Makes a move that is due, unless acts have arrived: they may make it void, so it is time to look again.

        Returns whether it was made. Raises `LostLease`.
        """
        now = self._shop.clock.now()
        result = await self.commit(decide(self.state, given, now=now, jitter=self._shop.chance.jitter()), now)
        if isinstance(result, Refused):
            raise RuntimeError(f"the store refused {type(given).__name__}: {result.reason}")
        return isinstance(result, Committed)

    async def conclude(self, given: Input, attempted: Attempted | None = None) -> None:
        """Decides what follows from what has happened; the acts that have arrived meanwhile come first.

        If its step has completed, what was `attempted` in a transaction is committed with that. Raises `LostLease`,
        and `BrokenOff`.
        """
        while True:
            now = self._shop.clock.now()
            decision = decide(self.state, given, now=now, jitter=self._shop.chance.jitter())
            if attempted is not None and not attempted.commits(given, decision.events):
                await attempted.end()
                attempted = None
            match await self.commit(decision, now, attempted=attempted):
                case Committed():
                    return
                case Stale():
                    await self.take_acts(may_park=False)
                case Refused(reason=reason) if isinstance(given, Finished) and not isinstance(given.end, Lost):
                    given = replace(given, end=Lost(reason=f"the store refused the result: {reason}"))
                case Refused(reason=reason):
                    raise RuntimeError(f"the store refused {type(given).__name__}: {reason}")

    async def conclude_attempted(self, given: Input, attempted: Attempted) -> None:
        """`conclude`, for a call that had a transaction. One that the database has let down is to be made again.

        A step that brings the database down each time would be made again for ever: some time it has failed.
        """
        if not isinstance(given, Finished):
            raise TypeError(f"{given!r} is not of an attempt")
        lost = given.end if isinstance(given.end, Lost) and attempted.broken else None
        if lost is None:
            try:
                await self.conclude(given, attempted)
            except BrokenOff as error:
                lost = Lost(reason=str(error))
        if lost is None:
            self._let_down = 0
            return
        await attempted.end()
        self._let_down += 1
        if self._let_down > _MOST_LET_DOWN:
            self._let_down = 0
            await self.conclude(replace(given, end=replace(lost, transient=True)))
            return
        await self._shop.transactions.again()
        if self.state.branch(given.branch).phase is Phase.STARTED:
            await self.conclude(Withdrawn(branch=given.branch))

    async def take_acts(self, *, may_park: bool = True) -> None:
        """Reads the inbox, decides what follows, commits it; again, if more has arrived by then.

        `may_park` is false while the end of a call is in hand: given back, the run would end without it.
        """
        while True:
            self.news = False
            loaded = await self._load()
            if loaded.run.fence != self._fence:
                raise LostLease
            self._inbox = loaded.run.inbox
            now = self._shop.clock.now()
            decision = take(self.state, loaded.inbox, now=now, jitter=self._shop.chance.jitter())
            if not decision.events or isinstance(await self.commit(decision, now, may_park=may_park), Committed):
                return

    async def commit(
        self, decision: Decision, at: int, *, may_park: bool = True, attempted: Attempted | None = None
    ) -> Committed | Stale | Refused:
        """Makes the decision durable; gives the run back with it if nothing is due for a while."""
        after = decision.state
        # While the run is owned its due time says nothing, and an index entry that stays costs nothing.
        index = index_of(after, wake_at=self._index.wake_at)
        # With acts in its inbox a row would not be due: it becomes so only when an act arrives, and these have.
        if may_park and not self.news and not self._busy():
            wake = wake_at(after)
            if wake is None or wake - at > KEEP_MS or (self._shop.draining.is_set() and not started(after)):
                index = index_of(after, wake_at=wake, release=True)
        return await self._append(decision, index, at, attempted)

    async def give_back(self, *, wake_at_ms: int | None) -> Committed | Stale | Refused:
        """Lets go of the run as it stands, to be claimed from `wake_at_ms` on."""
        index = index_of(self.state, wake_at=wake_at_ms, release=True)
        return await self._append(Decision([], self.state), index, self._shop.clock.now())

    async def abandon(self, *, wake_at_ms: int) -> None:
        """Lets go of the run after a crash of its driver, whatever has arrived in its inbox. Raises `LostLease`."""
        while isinstance(await self.give_back(wake_at_ms=wake_at_ms), Stale):
            self._inbox = (await self._load()).run.inbox

    async def _load(self) -> Loaded:
        """What is new of the run."""
        return await patiently(self._shop.clock, lambda: self._shop.store.load(self._rid, after=self.state.seq))

    async def _append(
        self, decision: Decision, index: Index, at: int, attempted: Attempted | None = None
    ) -> Committed | Stale | Refused:
        append = append_of(
            self.state,
            decision,
            rid=self._rid,
            fence=self._fence,
            inbox=self._inbox,
            at=at,
            index=index,
            previous=self._index,
        )
        deliveries = self._shop.outbox.deliveries_of(self.state, decision, append.asked, at)
        if deliveries:
            append = replace(append, deliveries=deliveries)
        result = await (self._shop.committer if attempted is None else attempted).commit(append)
        match result:
            case Committed():
                self._accept(decision, index)
                return result
            case Stale():
                self.news = True
                return result
            case Refused():
                return result
            case LeaseLost():
                raise LostLease
            case _:
                raise RuntimeError(f"the store answered an append with {result!r}")

    def _accept(self, decision: Decision, index: Index) -> None:
        before, self.state = self.state, decision.state
        self._index = index
        self.released = index.release
        if decision.events:
            self._shop.feed.tell(
                run_id=self.state.run_id,
                workflow=self.state.workflow,
                status=self.state.status,
                step=index.step,
                seq=self.state.seq,
                at=self.state.updated_at,
            )
            report(self._shop, before, decision)


def started(state: State) -> bool:
    """Whether a call may be running whose intent is durable."""
    calls = [branch.phase for branch in state.branches] + [notice.phase for notice in state.notices]
    return Phase.STARTED in calls or (state.undo is not None and state.undo.phase is Phase.STARTED)
