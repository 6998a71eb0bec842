"""How the members of one batch stand to one another (semantics §6)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from bext_workflow.ports.store import Append, Committed, LeaseLost, Member, Refused, Result, Stale, Store
from bext_workflow.testing.contract.base import (
    BAD_TEXT,
    SERVED,
    STEPPED,
    StoreCase,
    committed,
    creation,
    ended,
    following,
    host,
    judged,
    row,
    run_id,
    started,
    written,
)


def kinds(results: Sequence[Result]) -> list[type]:
    return [type(result) for result in results]


def after(append: Append) -> Append:
    """The same run's next one."""
    return replace(append, seq=append.seq + len(append.events), at=append.at + 1)


class BatchContract(StoreCase):
    async def test_empty_batch(self, store: Store) -> None:
        assert list(await written(store, [])) == []

    async def test_results_stand_in_the_order_of_the_members(self, store: Store) -> None:
        first, second, third, fourth = await committed(store, *(creation(number) for number in range(1, 5)))
        await store.post(third.run_id, judged(), at=1_100)

        results = await written(
            store,
            [
                following(first),
                creation(5),
                replace(following(second), fence=9),
                following(third),
                replace(creation(6), key="k"),
                following(fourth, ("note", BAD_TEXT)),
                replace(creation(7), key="k"),
            ],
        )

        assert kinds(results)[:6] == [Committed, Committed, LeaseLost, Stale, Committed, Refused]
        for number, result in ((5, results[1]), (6, results[4])):
            assert isinstance(result, Committed)
            assert (await row(store, result.rid)).run_id == run_id(number)

    async def test_large_batch_of_everything(self, store: Store) -> None:
        runs = await committed(store, *(creation(number) for number in range(300)))

        batch = [member for number, run in enumerate(runs) for member in (following(run), creation(1_000 + number))]
        results = await written(store, batch)

        assert kinds(results) == [Committed] * 600
        assert [result.seq for result in results if isinstance(result, Committed)] == [2, 1] * 300
        ends = await written(store, [following(await row(store, run.rid), index=ended()) for run in runs])
        assert ends == [Committed(run.rid, 3) for run in runs]

    async def test_member_that_is_refused_fails_alone(self, store: Store) -> None:
        """P7: bad text; the reason is told."""
        first, second, third = await committed(store, *(creation(number) for number in range(1, 4)))
        before = await store.load(second.rid)

        results = await written(
            store,
            [
                following(first),
                following(second, STEPPED, ("note", BAD_TEXT)),
                replace(creation(4), key="k", events=(("run_created", BAD_TEXT),)),
                replace(creation(5), key="k"),
                following(third),
            ],
        )

        assert kinds(results) == [Committed, Refused, Refused, Committed, Committed]
        assert all(result.reason for result in results if isinstance(result, Refused))
        assert await store.load(second.rid) == before
        assert list(await store.find(run_id(4))) == []

    async def test_member_that_was_refused_may_be_followed_by_another_decision(self, store: Store) -> None:
        (run,) = await committed(store, creation())
        assert kinds(await written(store, [following(run, ("note", BAD_TEXT))])) == [Refused]

        assert await written(store, [following(run, ("step_failed", b"{}"))]) == [Committed(run.rid, 2)]

    async def test_members_of_one_run_follow_one_another(self, store: Store) -> None:
        run, neighbour = await committed(store, creation(1), creation(2))
        first = following(run)

        results = await written(store, [first, following(neighbour), after(first), after(after(first))])

        assert results == [Committed(run.rid, 2), Committed(neighbour.rid, 2), *(Committed(run.rid, n) for n in (3, 4))]
        assert [event.seq for event in (await store.load(run.rid)).events] == [1, 2, 3, 4]

    async def test_members_of_one_run_fail_from_the_first_that_fails_on(self, store: Store) -> None:
        """P7: and like it; members of other runs go their way."""
        refused, stale, lost, fine = await committed(store, *(creation(number) for number in range(1, 5)))
        await store.post(stale.run_id, judged(), at=1_100)
        good = following(refused)

        results = await written(
            store,
            [
                good,
                replace(after(good), events=(("note", BAD_TEXT),)),
                after(good),
                following(stale),
                after(following(stale)),
                replace(following(lost), fence=7),
                replace(following(lost), fence=7),
                following(fine),
            ],
        )

        assert kinds(results) == [Committed, Refused, Refused, Stale, Stale, LeaseLost, LeaseLost, Committed]
        assert len((await store.load(refused.rid)).events) == 2
        assert len((await store.load(lost.rid)).events) == 1

    async def test_owner_is_not_harmed_by_what_an_earlier_owner_left(self, store: Store) -> None:
        """P33: a host that lost a run and took it over again may have appends with both fences in one batch."""
        await store.join(host())
        run = await started(store)
        survivor = await self.crash(store)
        try:
            await survivor.join(host("host-b"))
            (claimed,) = await survivor.claim("host-b", SERVED, now=1_000, limit=1)
            late, own = following(run), following(claimed.loaded.run)

            assert await written(survivor, [late, after(late), own]) == [
                LeaseLost(),
                LeaseLost(),
                Committed(run.rid, 2),
            ]
        finally:
            await survivor.close()

    async def test_batch_repeated_after_an_unclear_commit_answers_the_same(self, store: Store) -> None:
        """P6: members that had failed for their own sake still do."""
        run, refused = await committed(store, creation(1), creation(2))
        first = following(run)
        batch: list[Member] = [
            first,
            after(first),
            following(refused, ("note", BAD_TEXT)),
            replace(creation(3), key="k"),
        ]
        results = await written(store, batch)

        assert kinds(results) == [Committed, Committed, Refused, Committed]
        assert await written(store, batch) == results
        assert len((await store.load(run.rid)).events) == 3
