"""How one run goes on: `Append`, its conditions, and what a reader sees of it."""

from __future__ import annotations

import asyncio
from itertools import count, takewhile

from msgspec.structs import replace

from bext_workflow.model.status import WorkflowStatus
from bext_workflow.ports.store import Committed, EventRow, Index, LeaseLost, Stale, Store
from bext_workflow.testing.contract.base import (
    SERVED,
    STARTED,
    STEPPED,
    TRICKY_TEXT,
    StoreCase,
    committed,
    ended,
    following,
    host,
    judged,
    parked,
    row,
    started,
    written,
)


class AppendingContract(StoreCase):
    async def test_events_follow_without_a_gap_as_they_were_handed_in(self, store: Store) -> None:
        run = await started(store)
        append = replace(following(run, STEPPED, ("note", TRICKY_TEXT)), at=1_500)

        assert await written(store, [append]) == [Committed(run.rid, 3)]

        loaded = await store.load(run.rid)
        assert list(loaded.events) == [
            EventRow(1, run.created_at, *STARTED),
            EventRow(2, 1_500, *STEPPED),
            EventRow(3, 1_500, "note", TRICKY_TEXT),
        ]
        assert loaded.run == replace(run, seq=3, updated_at=1_500)

    async def test_row_says_what_the_index_says(self, store: Store) -> None:
        run = await started(store)
        index = Index(
            status=WorkflowStatus.COMPENSATING,
            step="charge_card",
            wake_at=9_000,
            failure="card declined",
            started_at=1_100,
            ended_at=1_200,
        )

        (moved,) = await committed(store, following(run, index=index))
        assert moved == replace(
            run,
            status=WorkflowStatus.COMPENSATING,
            step="charge_card",
            wake_at=9_000,
            failure="card declined",
            started_at=1_100,
            ended_at=1_200,
            seq=2,
            updated_at=moved.updated_at,
        )

        plain = Index(status=WorkflowStatus.COMPENSATING, step=None, wake_at=9_000)
        (moved,) = await committed(store, following(moved, index=plain))
        assert (moved.status, moved.wake_at) == (WorkflowStatus.COMPENSATING, 9_000)
        assert (moved.step, moved.failure, moved.started_at, moved.ended_at) == (None, None, None, None)

    async def test_append_that_does_not_say_the_previous_index_moves_everything(self, store: Store) -> None:
        run = await started(store)
        index = Index(status=WorkflowStatus.SUSPENDED, step="pack", wake_at=None)

        (moved,) = await committed(store, replace(following(run, index=index), previous=None))

        assert (moved.status, moved.step, moved.wake_at) == (WorkflowStatus.SUSPENDED, "pack", None)
        assert moved.owner == run.owner

    async def test_append_of_a_stale_fence_changes_nothing(self, store: Store) -> None:
        """P33"""
        run = await started(store)
        before = await store.load(run.rid)

        for fence in (0, 2):
            assert await written(store, [replace(following(run), fence=fence)]) == [LeaseLost()]

        assert await store.load(run.rid) == before

    async def test_append_that_leaves_a_gap_or_comes_twice_changes_nothing(self, store: Store) -> None:
        run = await started(store)
        (run,) = await committed(store, following(run))
        before = await store.load(run.rid)

        for seq in (0, 1, 3):
            assert await written(store, [replace(following(run, ("other", b"{}")), seq=seq)]) == [LeaseLost()]

        assert await store.load(run.rid) == before

    async def test_append_to_a_run_that_is_not_there(self, store: Store) -> None:
        run = await started(store)

        assert await written(store, [replace(following(run), rid=run.rid + 1)]) == [LeaseLost()]

    async def test_append_that_does_not_know_of_an_act_is_stale(self, store: Store) -> None:
        """No step starts past an acknowledged cancel (semantics §11)."""
        run = await started(store)
        await store.post(run.run_id, judged(), at=1_100)
        before = await store.load(run.rid)

        assert await written(store, [following(run)]) == [Stale()]
        assert await store.load(run.rid) == before

        assert await written(store, [following(before.run)]) == [Committed(run.rid, 2)]

    async def test_append_takes_acts_out_of_the_inbox(self, store: Store) -> None:
        run = await started(store)
        for at in (1_100, 1_200, 1_300):
            await store.post(run.run_id, judged(), at=at)
        run = await row(store, run.rid)

        assert await written(store, [replace(following(run), seq=9, taken=2)]) == [LeaseLost()]
        assert [act.n for act in (await store.load(run.rid)).inbox] == [1, 2, 3]

        (run,) = await committed(store, replace(following(run), taken=2))
        assert [act.n for act in (await store.load(run.rid)).inbox] == [3]
        assert run.inbox == 3

    async def test_run_that_was_given_back_takes_no_append_until_it_is_claimed(self, store: Store) -> None:
        """P32: nobody's fence is nobody's."""
        await store.join(host())
        run = await started(store)
        (run,) = await committed(store, following(run, index=parked(1_000)))
        assert run.owner is None

        assert await written(store, [following(run, ("other", b"{}"))]) == [LeaseLost()]

        (claimed,) = await store.claim("host-a", SERVED, now=1_000, limit=1)
        assert await written(store, [following(claimed.loaded.run)]) == [Committed(run.rid, 3)]

    async def test_append_without_events_gives_the_run_back(self, store: Store) -> None:
        run = await started(store)
        append = replace(following(run, index=parked(5_000)), events=())

        assert await written(store, [append]) == [Committed(run.rid, 1)]
        assert await written(store, [append]) == [Committed(run.rid, 1)]

        loaded = await store.load(run.rid)
        assert len(loaded.events) == 1
        assert (loaded.run.owner, loaded.run.wake_at, loaded.run.fence) == (None, 5_000, run.fence)

    async def test_append_without_events_is_conditional_too(self, store: Store) -> None:
        run = await started(store)
        append = replace(following(run, index=parked(5_000)), events=())

        assert await written(store, [replace(append, seq=0)]) == [LeaseLost()]
        assert await written(store, [replace(append, fence=7)]) == [LeaseLost()]
        await store.post(run.run_id, judged(), at=1_100)
        assert await written(store, [append]) == [Stale()]
        assert (await row(store, run.rid)).owner == "host-a"

    async def test_append_repeated_after_an_unclear_commit_is_committed_once(self, store: Store) -> None:
        """P6: whatever came after it; a run that ended and was given back by it, too."""
        run = await started(store)
        append = following(run)
        assert await written(store, [append]) == [Committed(run.rid, 2)]
        assert await written(store, [append]) == [Committed(run.rid, 2)]

        await store.post(run.run_id, judged(), at=1_100)
        assert await written(store, [append]) == [Committed(run.rid, 2)]

        last = following(await row(store, run.rid), ("run_completed", b"{}"), index=ended())
        assert await written(store, [last]) == [Committed(run.rid, 3)]
        assert await written(store, [last]) == [Committed(run.rid, 3)]
        assert len((await store.load(run.rid)).events) == 3

    async def test_append_that_another_owner_has_made_meanwhile_is_lost(self, store: Store) -> None:
        """P33: the same events, but not ours: who goes on after them is the other one."""
        await store.join(host())
        run = await started(store)
        before = following(run)
        survivor = await self.crash(store)
        try:
            await survivor.join(host("host-b"))
            (claimed,) = await survivor.claim("host-b", SERVED, now=1_000, limit=1)
            await committed(survivor, replace(following(claimed.loaded.run), at=before.at))

            assert await written(survivor, [before]) == [LeaseLost()]
        finally:
            await survivor.close()

    async def test_reader_sees_all_of_an_append_or_nothing(self, store: Store, other: Store) -> None:
        """P5: journal, row and inbox are of one moment, also for a reader in the midst of it."""
        run = await started(store)
        await store.post(run.run_id, judged(), at=1_100)
        run = await row(store, run.rid)

        enough = asyncio.Event()

        async def write() -> None:
            nonlocal run
            for number in takewhile(lambda _: not enough.is_set(), count(1)):
                index = Index(status=WorkflowStatus.RUNNING, step=f"s{number}", wake_at=number)
                append = following(run, STEPPED, (f"s{number}", b"{}"), index=index)
                (run,) = await committed(store, replace(append, taken=1 if number == 10 else 0))

        seen: set[int] = set()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(write())
            while len(seen) < 20 or max(seen) < 21:
                loaded = await other.load(run.rid)
                seen.add(loaded.run.seq)
                assert loaded.run.seq == len(loaded.events)
                if loaded.run.seq > 1:
                    assert loaded.events[-1].kind == loaded.run.step
                    assert loaded.run.step == f"s{loaded.run.wake_at}"
                    assert len(loaded.inbox) == (1 if loaded.run.seq < 21 else 0)
            enough.set()
