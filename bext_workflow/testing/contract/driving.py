"""Who drives what: hosts, claims, fences (semantics §11)."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from bext_workflow.errors import NotFound
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.ports.store import Claimed, LeaseLost, Store
from bext_workflow.testing.contract.base import (
    SERVED,
    STEPPED,
    StoreCase,
    committed,
    creation,
    ended,
    following,
    host,
    judged,
    parked,
    row,
    run_id,
    started,
    written,
)


async def claimed_ids(store: Store, *, now: int = 10_000, limit: int = 100, owner: str = "host-a") -> list[str]:
    return [claimed.loaded.run.run_id for claimed in await store.claim(owner, SERVED, now=now, limit=limit)]


class DrivingContract(StoreCase):
    async def test_hosts_are_listed_while_they_are_there(self, store: Store, other: Store) -> None:
        assert list(await other.hosts()) == []

        await store.join(host())
        assert list(await store.hosts()) == [host()]
        assert list(await other.hosts()) == [host()]

        await store.leave("host-a")
        assert list(await other.hosts()) == []

    async def test_host_that_joins_again_is_listed_as_it_is_now(self, store: Store) -> None:
        await store.join(host())
        moved = replace(host(), served=(("checkout", 1, "digest-1"), ("onboarding", 4, "digest-4")))
        await store.join(moved)

        assert list(await store.hosts()) == [moved]

    async def test_host_of_one_run_is_listed_as_such(self, store: Store, other: Store) -> None:
        lone = replace(host(), only=run_id(7))
        await store.join(lone)

        assert list(await other.hosts()) == [lone]

    async def test_dead_host_is_not_listed_and_makes_room(self, store: Store) -> None:
        await store.join(host())
        survivor = await self.crash(store)
        try:
            await survivor.join(host("host-b"))
            assert list(await survivor.hosts()) == [host("host-b")]
        finally:
            await survivor.close()

    async def test_claim_takes_what_is_due_and_nobodys(self, store: Store) -> None:
        await store.join(host())
        await committed(
            store,
            creation(1, owner=None, wake_at=4_000),
            creation(2, owner=None, wake_at=4_001),
            creation(3, owner=None, wake_at=None),
            creation(4, owner="host-a", wake_at=1),
        )

        assert await claimed_ids(store, now=4_000) == [run_id(1)]
        assert await claimed_ids(store, now=4_000) == []
        assert await claimed_ids(store, now=4_001) == [run_id(2)]

    async def test_claim_makes_the_run_the_callers_and_hands_it_over_whole(self, store: Store) -> None:
        await store.join(host())
        run = await started(store, owner=None)
        await store.post(run.run_id, judged(), at=1_100)

        (claimed,) = await store.claim("host-a", SERVED, now=1_000, limit=1)

        assert claimed == Claimed(await store.load(run.rid), orphan=False)
        assert (claimed.loaded.run.owner, claimed.loaded.run.fence) == ("host-a", 1)
        assert [event.seq for event in claimed.loaded.events] == [1]
        assert [act.n for act in claimed.loaded.inbox] == [1]

    async def test_claim_leaves_runs_alone_that_the_host_does_not_serve(self, store: Store) -> None:
        """P36: neither another workflow nor another version of one."""
        await store.join(host())
        due = creation(1, owner=None)
        await committed(
            store, due, replace(creation(2, owner=None), version=2), replace(creation(3, owner=None), workflow="pack")
        )

        claimed = await store.claim("host-a", [("pack", 2), ("checkout", 2)], now=9_000, limit=9)
        assert [run.loaded.run.run_id for run in claimed] == [run_id(2)]
        assert list(await store.claim("host-a", [], now=9_000, limit=9)) == []

    async def test_claim_takes_the_longest_due_first_and_no_more_than_asked(self, store: Store) -> None:
        await store.join(host())
        dues = {1: 4_000, 2: 1_000, 3: 3_000, 4: 2_000}
        await committed(store, *(creation(number, owner=None, wake_at=wake_at) for number, wake_at in dues.items()))

        assert await claimed_ids(store, limit=0) == []
        assert await claimed_ids(store, limit=2) == [run_id(2), run_id(4)]
        assert await claimed_ids(store, limit=2) == [run_id(3), run_id(1)]

    async def test_orphans_are_claimed_in_their_turn(self, store: Store) -> None:
        await store.join(host())
        runs = {1: ("host-a", 2_000), 2: (None, 1_000), 3: (None, 3_000), 4: ("host-c", 4_000)}
        await committed(store, *(creation(n, owner=owner, wake_at=at) for n, (owner, at) in runs.items()))
        await store.leave("host-a")
        await store.join(host("host-b"))

        assert await claimed_ids(store, owner="host-b", limit=2) == [run_id(2), run_id(1)]
        assert await claimed_ids(store, owner="host-b", limit=2) == [run_id(3), run_id(4)]

    async def test_claim_of_one_run_only(self, store: Store) -> None:
        await store.join(host())
        await committed(
            store,
            creation(1, owner=None),
            creation(2, owner=None, wake_at=2_000),
            creation(3),
            creation(4, owner="host-c"),
            replace(creation(5, owner=None), version=2),
            creation(6, owner=None, wake_at=None),
        )

        async def claim(number: int, limit: int = 9) -> list[str]:
            claimed = await store.claim("host-a", SERVED, now=1_000, limit=limit, only=[run_id(number)])
            return [one.loaded.run.run_id for one in claimed]

        assert await claim(1, limit=0) == []
        assert [await claim(number) for number in (1, 2, 3, 5, 6, 7)] == [[run_id(1)], [], [], [], [], []]
        assert await store.next_wake(SERVED, only=[run_id(2)]) == 2_000
        assert [await store.next_wake(SERVED, only=[run_id(number)]) for number in (3, 5, 6, 7)] == [None] * 4

    async def test_claim_of_one_orphan_only(self, store: Store) -> None:
        await store.join(host())
        await committed(store, creation(1), creation(2), creation(3, owner=None))
        await store.leave("host-a")
        await store.join(host("host-b"))

        (claimed,) = await store.claim("host-b", SERVED, now=1_000, limit=9, only=[run_id(2)])

        assert (claimed.orphan, claimed.loaded.run.run_id) == (True, run_id(2))
        assert (await row(store, claimed.loaded.run.rid)).owner == "host-b"

    async def test_claims_at_once_take_each_run_once(self, store: Store) -> None:
        """P32"""
        await store.join(host())
        await committed(store, *(creation(number, owner=None) for number in range(100)))

        taken = await asyncio.gather(*(claimed_ids(store, limit=30) for _ in range(5)))

        assert sorted(one for batch in taken for one in batch) == [run_id(number) for number in range(100)]

    async def test_each_claim_raises_the_fence_and_shuts_the_last_owner_out(self, store: Store) -> None:
        """P32, P33"""
        await store.join(host())
        run = await started(store, owner=None)
        fences = []
        for _ in range(3):
            (claimed,) = await store.claim("host-a", SERVED, now=10_000, limit=1)
            run = claimed.loaded.run
            fences.append(run.fence)
            await committed(store, following(run, index=parked(1_000)))

        assert fences == [1, 2, 3]
        (claimed,) = await store.claim("host-a", SERVED, now=10_000, limit=1)
        assert await written(store, [replace(following(claimed.loaded.run), fence=3)]) == [LeaseLost()]

    async def test_run_of_a_dead_host_is_an_orphan_whether_due_or_not(self, store: Store) -> None:
        """P35: restart takes over at once; what the dead one still writes is lost (P33)."""
        await store.join(host())
        waiting = replace(creation(2).index, wake_at=99_000)
        runs = await committed(
            store,
            creation(1),
            replace(creation(2), index=waiting),
            creation(3, wake_at=None),
            creation(4, owner=None),
            creation(5, owner="host-c"),
        )

        survivor = await self.crash(store)
        try:
            await survivor.join(host("host-b"))
            claimed = await survivor.claim("host-b", SERVED, now=1_000, limit=9)

            assert {one.loaded.run.run_id: one.orphan for one in claimed} == {
                run_id(1): True,
                run_id(2): True,
                run_id(3): True,
                run_id(4): False,
                run_id(5): True,
            }
            assert {one.loaded.run.owner for one in claimed} == {"host-b"}
            assert (await row(survivor, runs[0].rid)).fence == 2
            assert await written(survivor, [following(runs[0])]) == [LeaseLost()]
            assert list(await survivor.claim("host-b", SERVED, now=1_000, limit=9)) == []
        finally:
            await survivor.close()

    async def test_claim_leaves_orphans_alone_that_the_host_does_not_serve(self, store: Store) -> None:
        """P36"""
        await store.join(host())
        (run,) = await committed(store, replace(creation(), version=2))
        await store.leave("host-a")
        await store.join(host("host-b"))

        assert list(await store.claim("host-b", SERVED, now=1_000, limit=9)) == []
        assert (await row(store, run.rid)).owner == "host-a"

    async def test_run_that_its_host_left_behind_is_an_orphan(self, store: Store) -> None:
        await store.join(host())
        kept, returned = await committed(store, creation(1), creation(2))
        await committed(store, following(returned, index=parked(1_000)))

        await store.leave("host-a")
        await store.join(host("host-b"))
        claimed = await store.claim("host-b", SERVED, now=1_000, limit=9)

        assert {one.loaded.run.rid: one.orphan for one in claimed} == {kept.rid: True, returned.rid: False}

    async def test_run_of_a_living_host_is_not_taken(self, store: Store) -> None:
        await store.join(host())
        await started(store)

        assert await claimed_ids(store) == []

    async def test_next_wake_is_the_earliest_of_what_is_nobodys_and_served(self, store: Store) -> None:
        await store.join(host())
        assert await store.next_wake(SERVED) is None

        await committed(
            store,
            creation(1, owner=None, wake_at=5_000),
            creation(2, owner=None, wake_at=4_000),
            creation(3, owner="host-a", wake_at=1_000),
            creation(4, owner=None, wake_at=None),
            replace(creation(5, owner=None, wake_at=2_000), version=2),
        )

        assert await store.next_wake(SERVED) == 4_000
        assert await store.next_wake([("checkout", 2), ("checkout", 1)]) == 2_000
        assert await store.next_wake([]) is None

    async def test_orphan_is_due_at_once(self, store: Store) -> None:
        """P35: whenever it is due by itself, and only for who serves it."""
        await store.join(host())
        waiting = replace(creation().index, wake_at=99_000)
        await committed(store, replace(creation(1), index=waiting), creation(2, owner=None, wake_at=4_000))
        await store.leave("host-a")
        await store.join(host("host-b"))

        assert await store.next_wake(SERVED) == 0
        assert await store.next_wake([("checkout", 2)]) is None
        assert [await store.next_wake(SERVED, only=[run_id(number)]) for number in (1, 2)] == [0, 4_000]

        assert await claimed_ids(store, now=1_000, owner="host-b") == [run_id(1)]
        assert await store.next_wake(SERVED) == 4_000

    async def test_host_that_is_alive_may_renew_its_lease(self, store: Store) -> None:
        await store.join(host())

        assert await store.renew("host-a") is True
        assert list(await store.hosts()) == [host()]

    async def test_ended_run_never_wakes(self, store: Store) -> None:
        await store.join(host())
        run = await started(store)
        await committed(store, following(run, index=ended()))

        assert await store.next_wake(SERVED) is None
        assert await claimed_ids(store, now=10**12) == []

    async def test_owned_names_the_owners_runs(self, store: Store, other: Store) -> None:
        """Due or not, of whatever workflow; not those of others, and not what was given back."""
        waiting = replace(creation(2).index, wake_at=None)
        one, two, _, back = await committed(
            store, creation(1), replace(creation(2), index=waiting), creation(3, owner="host-b"), creation(4)
        )
        await committed(store, following(back, index=ended()))

        assert list(await store.owned("host-a")) == [(one.rid, one.run_id), (two.rid, two.run_id)]
        assert list(await other.owned("host-c")) == []

    async def test_with_acts_names_the_owners_runs_that_have_any(self, store: Store) -> None:
        one, two, three = await committed(store, creation(1), creation(2), creation(3, owner="host-b"))
        assert list(await store.with_acts("host-a")) == []

        for run in (two, two, three):
            await store.post(run.run_id, judged(), at=1_100)

        assert list(await store.with_acts("host-a")) == [two.rid]
        await committed(store, following(one), replace(following(await row(store, two.rid)), taken=2))
        assert list(await store.with_acts("host-a")) == []

    async def test_load_reads_the_events_after_a_seq_and_the_whole_inbox(self, store: Store) -> None:
        run = await started(store)
        (run,) = await committed(store, following(run, STEPPED, STEPPED))
        await store.post(run.run_id, judged(), at=1_100)

        loaded = await store.load(run.rid, after=1)

        assert [event.seq for event in loaded.events] == [2, 3]
        assert [act.n for act in loaded.inbox] == [1]
        assert loaded.run.status == WorkflowStatus.RUNNING
        with pytest.raises(NotFound):
            await store.load(run.rid + 1)
