"""Group commit, over a store in memory that does as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from bext_workflow.errors import StoreUnavailable
from bext_workflow.host.committer import MAX_BATCH, Committer
from bext_workflow.host.trouble import Trouble
from bext_workflow.ports import telemetry as names
from bext_workflow.ports.store import Append, Committed, Member, Result
from bext_workflow.stores import SqliteStore
from bext_workflow.testing.clock import FakeClock
from bext_workflow.testing.contract.base import creation, following, started
from tests.unit.host.support import Recorder, within


class GatedStore(SqliteStore):
    """Each write waits for the gate; those that `fails` lists raise instead, before or after their commit."""

    def __init__(self) -> None:
        super().__init__(None)
        self.gate = asyncio.Event()
        self.gate.set()
        self.arrived = asyncio.Event()
        self.batches: list[list[Member]] = []
        self.fails: list[Exception | None] = []
        self.lose_answers = False
        self.pings = 0

    async def write(self, batch: Sequence[Member]) -> Sequence[Result]:
        self.batches.append(list(batch))
        self.arrived.set()
        await self.gate.wait()
        failure = self.fails.pop(0) if self.fails else None
        if failure is None:
            return await super().write(batch)
        if self.lose_answers:
            await super().write(batch)
        raise failure

    async def ping(self) -> None:
        self.pings += 1
        failure = self.fails.pop(0) if self.fails else None
        if failure is not None:
            raise failure
        await super().ping()


class Stage:
    def __init__(self, store: GatedStore) -> None:
        self.store = store
        self.clock = FakeClock()
        self.telemetry = Recorder()
        self.trouble = Trouble(self.telemetry)
        self.committer = Committer(store, self.clock, self.trouble)

    async def appends(self, count: int) -> list[Append]:
        """One append each of so many new runs."""
        return [following(await started(self.store, number)) for number in range(count)]


@asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    store = GatedStore()
    await store.open(migrate=True)
    try:
        on = Stage(store)
        async with within(), asyncio.TaskGroup() as tasks:
            writer = tasks.create_task(on.committer.run())
            yield on
            writer.cancel()
    finally:
        await store.close()


def down() -> StoreUnavailable:
    return StoreUnavailable("the disk is full", mend="free some space")


async def test_a_lone_member_is_committed_at_once() -> None:
    async with stage() as on:
        result = await on.committer.commit(creation(1))
        assert isinstance(result, Committed)
        assert on.store.batches == [[creation(1)]]


async def test_all_that_waits_goes_in_one_write() -> None:
    """Everything that arrives while one batch commits is the next batch, in its order."""
    async with stage() as on:
        on.store.gate.clear()
        first = on.committer.submit(creation(0))
        await on.store.arrived.wait()
        rest = [on.committer.submit(creation(number)) for number in range(1, 30)]
        on.store.gate.set()
        results = [await future for future in [first, *rest]]
        assert [len(batch) for batch in on.store.batches] == [1, 29]
        assert on.store.batches[1] == [creation(number) for number in range(1, 30)]
        assert len({result.rid for result in results if isinstance(result, Committed)}) == 30


async def test_a_batch_has_its_bound() -> None:
    async with stage() as on:
        futures = [on.committer.submit(creation(number)) for number in range(MAX_BATCH + 1)]
        for future in futures:
            await future
        assert [len(batch) for batch in on.store.batches] == [MAX_BATCH, 1]


async def test_nobody_hears_of_a_commit_before_the_store_has_answered() -> None:
    """P2"""
    async with stage() as on:
        on.store.gate.clear()
        futures = [on.committer.submit(creation(number)) for number in range(3)]
        await on.store.arrived.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        assert not any(future.done() for future in futures)
        on.store.gate.set()
        for future in futures:
            assert isinstance(await future, Committed)


async def test_each_member_gets_its_own_answer() -> None:
    """P7"""
    async with stage() as on:
        good, bad, last = await on.appends(3)
        stale = Append(
            rid=bad.rid, fence=bad.fence, seq=9, inbox=0, at=bad.at, events=bad.events, index=bad.index, previous=None
        )
        answers = [on.committer.submit(member) for member in (good, stale, last)]
        results = [await answer for answer in answers]
        assert [isinstance(result, Committed) for result in results] == [True, False, True]


async def test_appends_wait_for_the_store_to_come_back_and_are_repeated_unchanged() -> None:
    async with stage() as on:
        (append,) = await on.appends(1)
        on.store.fails = [down(), down(), down()]
        async with on.clock.autojump():
            assert isinstance(await on.committer.commit(append), Committed)
        assert on.store.batches[-4:] == [[append]] * 4


async def test_an_append_whose_answer_was_lost_is_judged_once() -> None:
    """P6: the repeated batch finds its own events there."""
    async with stage() as on:
        (append,) = await on.appends(1)
        on.store.fails, on.store.lose_answers = [down()], True
        async with on.clock.autojump():
            result = await on.committer.commit(append)
        assert result == Committed(append.rid, append.seq + 1)
        assert (await on.store.load(append.rid)).run.seq == append.seq + 1


async def test_trouble_is_said_once_with_its_reason_and_so_is_its_end() -> None:
    async with stage() as on:
        (append,) = await on.appends(1)
        on.store.fails = [down(), down(), down()]
        waiting = on.committer.submit(append)
        await on.telemetry.heard(names.STORE_UNAVAILABLE)
        assert on.trouble.reasons == ["the disk is full"]
        async with on.clock.autojump():
            await waiting
        assert on.trouble.reasons == []
        assert on.telemetry.events == [
            (names.STORE_UNAVAILABLE, {"error": "the disk is full"}),
            (names.STORE_BACK, {}),
        ]


async def test_starts_are_turned_away_while_the_store_is_down() -> None:
    """Those in the failed batch, those behind it, and those that come while an append waits."""
    async with stage() as on:
        (append,) = await on.appends(1)
        on.store.gate.clear()
        on.store.arrived.clear()
        on.store.fails = [down()] * 3
        waiting = on.committer.submit(append)
        await on.store.arrived.wait()
        behind = on.committer.submit(creation(50))
        on.store.gate.set()
        with pytest.raises(StoreUnavailable, match="the disk is full") as caught:
            await behind
        assert caught.value.mend == "free some space"
        with pytest.raises(StoreUnavailable, match="the disk is full"):
            await on.committer.commit(creation(51))
        assert not waiting.done()
        async with on.clock.autojump():
            await waiting
            assert isinstance(await on.committer.commit(creation(52)), Committed)


async def test_on_an_idle_host_a_ping_finds_out_that_the_store_is_back() -> None:
    """Else readiness would stay red for ever: nobody sends work to a host that is not ready."""
    async with stage() as on:
        on.store.fails = [down(), down(), down()]
        with pytest.raises(StoreUnavailable):
            await on.committer.commit(creation(1))
        assert on.trouble.reasons == ["the disk is full"]
        async with on.clock.autojump():
            await on.telemetry.heard(names.STORE_BACK)
        assert (on.store.pings, len(on.store.batches)) == (3, 1)
        assert isinstance(await on.committer.commit(creation(1)), Committed)


async def test_pauses_between_tries_grow_to_a_second() -> None:
    async with stage() as on:
        (append,) = await on.appends(1)
        on.store.fails = [down()] * 8
        begun = on.clock.monotonic()
        async with on.clock.autojump():
            await on.committer.commit(append)
        assert round(on.clock.monotonic() - begun, 3) == 0.05 + 0.1 + 0.2 + 0.4 + 0.8 + 3 * 1.0


async def test_an_error_of_the_store_itself_reaches_those_whom_it_concerns() -> None:
    async with stage() as on:
        on.store.fails = [ZeroDivisionError("a mistake")]
        with pytest.raises(ZeroDivisionError):
            await on.committer.commit(creation(1))
        assert isinstance(await on.committer.commit(creation(2)), Committed)


async def test_a_caller_that_goes_away_takes_nothing_with_it() -> None:
    """What was submitted is written: the journal may know more than whoever asked."""
    async with stage() as on:
        on.store.gate.clear()
        async with asyncio.TaskGroup() as tasks:
            gone = tasks.create_task(on.committer.commit(creation(1)))
            stays = tasks.create_task(on.committer.commit(creation(2)))
            await on.store.arrived.wait()
            gone.cancel()
            on.store.gate.set()
        assert isinstance(await stays, Committed)
        assert len(await on.store.find(creation(1).run_id)) == 1


async def test_flushed_waits_for_the_last_commit() -> None:
    async with stage() as on:
        await on.committer.flushed()
        on.store.gate.clear()
        last = on.committer.submit(creation(1))
        async with asyncio.TaskGroup() as tasks:
            flushed = tasks.create_task(on.committer.flushed())
            await on.store.arrived.wait()
            assert not flushed.done()
            on.store.gate.set()
        assert last.done()
