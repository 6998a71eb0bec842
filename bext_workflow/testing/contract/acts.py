"""Acts from outside: the inbox and the audit (semantics §11)."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from bext_workflow.errors import Conflict, NotFound
from bext_workflow.ports.audit import AuditEntry, AuditFilter, AuditRow
from bext_workflow.ports.store import Act, InboxRow, Loaded, Posted, Store
from bext_workflow.testing.contract.base import (
    SERVED,
    TRICKY_TEXT,
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
)

RESOLVED = AuditEntry(name="incident.resolve", by="ada@example", reason="asked “the bank”", data=TRICKY_TEXT)
ACT = Act(kind="resolve", by="ada@example", data=TRICKY_TEXT, audit=RESOLVED)


def forbid(_: Loaded) -> Act:
    raise Conflict("the run has ended")


class ActsContract(StoreCase):
    async def test_act_and_its_audit_row_are_kept_word_for_word(self, store: Store) -> None:
        run = await started(store)

        await store.post(run.run_id, judged(ACT), at=1_500)

        loaded = await store.load(run.rid)
        assert list(loaded.inbox) == [InboxRow(1, 1_500, "resolve", "ada@example", TRICKY_TEXT)]
        assert loaded.run == replace(run, inbox=1)
        (audit,) = await store.audit(limit=9)
        assert audit == AuditRow(
            id=audit.id,
            at=1_500,
            by="ada@example",
            name="incident.resolve",
            run_id=run.run_id,
            reason="asked “the bank”",
            data=TRICKY_TEXT,
        )

    async def test_judge_sees_the_whole_run(self, store: Store) -> None:
        run = await started(store)
        (run,) = await committed(store, following(run))
        await store.post(run.run_id, judged(), at=1_100)
        seen = []

        def look(loaded: Loaded) -> Act:
            seen.append(loaded)
            return ACT

        before = await store.load(run.rid)
        await store.post(run.run_id, look, at=1_200)

        assert seen == [before]
        assert (len(before.events), len(before.inbox)) == (2, 1)

    async def test_act_that_is_judged_wrong_leaves_nothing(self, store: Store) -> None:
        run = await started(store, owner=None)
        before = await store.load(run.rid)

        with pytest.raises(Conflict, match="has ended"):
            await store.post(run.run_id, forbid, at=1)

        assert await store.load(run.rid) == before
        assert list(await store.audit(limit=9)) == []
        assert await store.post(run.run_id, judged(), at=1_100) == Posted(1, None)

    async def test_act_without_an_audit_entry_is_no_persons(self, store: Store) -> None:
        run = await started(store)

        await store.post(run.run_id, judged(replace(ACT, audit=None)), at=1_100)

        assert len((await store.load(run.rid)).inbox) == 1
        assert list(await store.audit(limit=9)) == []

    async def test_act_on_a_run_that_is_not_there(self, store: Store) -> None:
        with pytest.raises(NotFound):
            await store.post(run_id(1), judged(), at=1_100)

    async def test_acts_are_numbered_without_a_gap_whoever_posts_them(self, store: Store, other: Store) -> None:
        """P26, P27: also those that come at once, and after others have been taken."""
        run = await started(store)

        posted = await asyncio.gather(
            *((store if number % 2 else other).post(run.run_id, judged(), at=1_100) for number in range(20))
        )

        assert sorted(one.n for one in posted) == list(range(1, 21))
        run = await row(store, run.rid)
        await committed(store, replace(following(run), taken=20))
        assert (await store.post(run.run_id, judged(), at=1_200)).n == 21
        assert [act.n for act in (await store.load(run.rid)).inbox] == [21]

    async def test_act_says_which_living_host_will_see_it(self, store: Store, other: Store) -> None:
        await store.join(host())
        driven, waiting = await committed(store, creation(1), creation(2, owner=None))

        assert await other.post(driven.run_id, judged(), at=1_100) == Posted(1, "host-a")
        assert await other.post(waiting.run_id, judged(), at=1_100) == Posted(1, None)

        await store.leave("host-a")
        assert await other.post(driven.run_id, judged(), at=1_200) == Posted(2, None)

    async def test_act_makes_a_run_due_that_nobody_owns(self, store: Store) -> None:
        await store.join(host())
        runs = await committed(store, *(creation(number) for number in range(1, 5)))
        indexes = (parked(None), parked(9_000), parked(1_050), ended())
        await committed(store, *(following(run, index=index) for run, index in zip(runs, indexes, strict=True)))

        for run in runs:
            await store.post(run.run_id, judged(), at=1_100)

        assert [(await row(store, run.rid)).wake_at for run in runs] == [1_100, 1_100, 1_050, 1_100]
        claimed = await store.claim("host-a", SERVED, now=1_100, limit=9)
        assert {one.loaded.run.run_id for one in claimed} == {run.run_id for run in runs}

    async def test_act_leaves_the_row_of_an_owned_run_as_its_owner_knows_it(self, store: Store) -> None:
        run = await started(store)

        await store.post(run.run_id, judged(), at=500)

        assert await row(store, run.rid) == replace(run, inbox=1)

    async def test_audit_is_listed_newest_first_by_page(self, store: Store) -> None:
        run = await started(store)
        for at in range(1, 6):
            await store.post(run.run_id, judged(), at=at)

        first = await store.audit(limit=2)
        rest = await store.audit(limit=9, before=first[-1].id)

        assert [audit.at for audit in [*first, *rest]] == [5, 4, 3, 2, 1]

    async def test_audit_is_listed_oldest_first_from_a_row_on(self, store: Store) -> None:
        run = await started(store)
        for at in range(1, 6):
            await store.post(run.run_id, judged(), at=at)

        first = await store.audit(limit=2, after=0)
        rest = await store.audit(limit=9, after=first[-1].id)

        assert [audit.at for audit in [*first, *rest]] == [1, 2, 3, 4, 5]

    @pytest.mark.parametrize(
        ("wanted", "found"),
        [
            (AuditFilter(), [1, 2, 3, 4]),
            (AuditFilter(run_id=run_id(1)), [1, 2]),
            (AuditFilter(run_id=""), []),
            (AuditFilter(by="bob"), [2]),
            (AuditFilter(name="run.cancel"), [1, 2, 3]),
            (AuditFilter(about="schedule:nightly"), [4]),
            (AuditFilter(since=2, until=4), [2, 3]),
            (AuditFilter(run_id=run_id(1), by="ada", name="run.cancel", since=1, until=2), [1]),
            (AuditFilter(run_id=run_id(2), by="bob"), []),
        ],
    )
    async def test_audit_is_filtered_by_all_that_is_given(
        self, store: Store, wanted: AuditFilter, found: list[int]
    ) -> None:
        first, second = [await started(store, number) for number in (1, 2)]
        await store.post(first.run_id, judged(), at=1)
        await store.post(first.run_id, judged(replace(ACT, audit=AuditEntry(name="run.cancel", by="bob"))), at=2)
        await store.post(second.run_id, judged(), at=3)
        entry = AuditEntry(name="schedule.pause", by="ada", about="schedule:nightly")
        await store.amend_schedule("nightly", lambda row: replace(row, paused=True), at=4, audit=entry)

        assert [audit.at for audit in await store.audit(wanted, limit=9, after=0)] == found
        assert [audit.at for audit in await store.audit(wanted, limit=9)] == found[::-1]
