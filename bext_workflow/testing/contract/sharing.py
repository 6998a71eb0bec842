"""A store that several hosts share: leases that run out, what more than one host wants (semantics §11)."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from bext_workflow.ports.store import HostRow, LeaseLost, Store
from bext_workflow.testing.contract.base import (
    SERVED,
    StoreCase,
    committed,
    creation,
    following,
    host,
    judged,
    run_id,
    started,
    written,
)

BRIEF_MS = 200
"""A lease that a test waits to the end of."""

PATIENCE_S = 10


def brief(host_id: str = "host-a") -> HostRow:
    return replace(host(host_id), lease_ms=BRIEF_MS)


async def lapsed(store: Store, host_id: str) -> None:
    """Returns once the host's lease has run out."""
    async with asyncio.timeout(PATIENCE_S):
        while host_id in [one.host_id for one in await store.hosts()]:
            pass


async def claimed_ids(store: Store, owner: str, *, limit: int = 100) -> list[str]:
    return [one.loaded.run.run_id for one in await store.claim(owner, SERVED, now=10_000, limit=limit)]


class SharingContract(StoreCase):
    async def test_store_says_that_it_is_shared(self, store: Store) -> None:
        assert store.profile.shared

    async def test_hosts_are_there_side_by_side(self, store: Store, other: Store) -> None:
        await store.join(host("host-a"))
        await other.join(host("host-b"))

        assert [one.host_id for one in await store.hosts()] == ["host-a", "host-b"]

        await store.leave("host-a")
        assert [one.host_id for one in await store.hosts()] == ["host-b"]

    async def test_lease_that_is_not_renewed_runs_out(self, store: Store, other: Store) -> None:
        """P35: what the host owned is an orphan, due or not; it gets no run any more and cannot come back."""
        await store.join(brief())
        await other.join(host("host-b"))
        waiting = replace(creation().index, wake_at=99_000)
        run, _ = await committed(store, replace(creation(1), index=waiting), creation(2, owner=None))
        assert await other.next_wake([("checkout", 2)]) is None

        await lapsed(other, "host-a")

        assert await store.renew("host-a") is False
        assert await other.next_wake(SERVED) == 0
        assert await claimed_ids(store, "host-a") == []
        claimed = await other.claim("host-b", SERVED, now=10_000, limit=9)
        assert {one.loaded.run.run_id: one.orphan for one in claimed} == {run_id(1): True, run_id(2): False}
        assert await written(store, [following(run)]) == [LeaseLost()]
        assert await store.renew("host-a") is False

    async def test_lease_that_is_renewed_does_not_run_out(self, store: Store, other: Store) -> None:
        """P32: its runs are nobody else's."""
        await store.join(brief("host-a"))
        await other.join(brief("host-b"))
        await other.join(host("host-c"))
        await started(store)

        async with asyncio.timeout(PATIENCE_S):
            while "host-b" in [one.host_id for one in await store.hosts()]:
                assert await store.renew("host-a") is True

        assert await claimed_ids(other, "host-c") == []
        assert await other.next_wake(SERVED) is None

    async def test_host_that_left_cannot_renew(self, store: Store) -> None:
        await store.join(host())
        await store.leave("host-a")

        assert await store.renew("host-a") is False

    async def test_act_does_not_name_an_owner_whose_lease_has_run_out(self, store: Store) -> None:
        await store.join(brief())
        run = await started(store)
        await lapsed(store, "host-a")

        assert (await store.post(run.run_id, judged(), at=1_100)).owner is None

    async def test_runs_of_a_living_host_are_nobody_elses(self, store: Store, other: Store) -> None:
        """P32"""
        await store.join(host("host-a"))
        await other.join(host("host-b"))
        await started(store)

        assert await claimed_ids(other, "host-b") == []
        assert await other.next_wake(SERVED) is None
        assert await other.next_wake(SERVED, only=[run_id(1)]) is None
        assert list(await other.claim("host-b", SERVED, now=10_000, limit=9, only=[run_id(1)])) == []

    async def test_hosts_that_claim_at_once_share_the_runs_out(self, store: Store, other: Store) -> None:
        """P32: those that are due, and those of a dead host."""
        await store.join(host("host-a"))
        await other.join(host("host-b"))
        due = [creation(number, owner=None) for number in range(60)]
        left = [creation(number, owner="host-gone") for number in range(60, 120)]
        await committed(store, *due, *left)

        async def drain(store: Store, owner: str) -> list[str]:
            taken: list[str] = []
            while await store.next_wake(SERVED) is not None:
                taken += await claimed_ids(store, owner, limit=7)
            return taken

        hosts = [(store, "host-a"), (other, "host-b")] * 2
        taken = await asyncio.gather(*(drain(one, owner) for one, owner in hosts))

        assert sorted(one for some in taken for one in some) == [run_id(number) for number in range(120)]

    async def test_writes_at_once_of_several_hosts_do_not_meet(self, store: Store, other: Store) -> None:
        runs = await committed(store, *(creation(number) for number in range(200)))
        forth, back = [following(run) for run in runs[:120]], [following(run) for run in reversed(runs[80:])]

        async with asyncio.timeout(PATIENCE_S):
            one, two = await asyncio.gather(written(store, forth), written(other, back))

        # What both write is the same append, so it is committed for both, once.
        assert not [result for result in (*one, *two) if isinstance(result, LeaseLost)]
        assert [len((await store.load(run.rid)).events) for run in runs] == [2] * 200

    async def test_start_with_one_key_at_once_begins_one_run(self, store: Store, other: Store) -> None:
        """P23: whichever host is quicker, also where both have many of them in another order."""
        keyed = [replace(creation(number), key=f"order-{number % 50}", key_space="s") for number in range(100)]

        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(written(store, keyed[:50]), written(other, keyed[:49:-1]))

        begun = [await store.find(run_id(number)) for number in range(100)]
        assert [len(begun[number]) + len(begun[number + 50]) for number in range(50)] == [1] * 50
