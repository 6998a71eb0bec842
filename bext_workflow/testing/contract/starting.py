"""How runs begin: `Create`."""

from __future__ import annotations

from msgspec.structs import replace

from bext_workflow.model.status import WorkflowStatus
from bext_workflow.ports.audit import AuditEntry, AuditRow
from bext_workflow.ports.store import Committed, Create, EventRow, Existing, Index, Refused, RunFilter, RunRow, Store
from bext_workflow.testing.contract.base import (
    BAD_TEXT,
    CREATED_AT,
    STARTED,
    STEPPED,
    StoreCase,
    creation,
    run_id,
    started,
    written,
)


def keyed(number: int, key: str = "order-7", fingerprint: str = "same") -> Create:
    return replace(creation(number), key=key, key_space="workflow:checkout", fingerprint=fingerprint)


async def run_ids(store: Store) -> list[str]:
    return [run.run_id for run in await store.runs(RunFilter(), limit=100)]


class StartingContract(StoreCase):
    async def test_a_run_is_found_by_its_start_key_in_its_own_space(self, store: Store) -> None:
        """Semantics §6: keys of children live in a space of their own."""
        await written(store, [keyed(1)])
        found = await store.started("workflow:checkout", "order-7")
        assert found is not None
        assert found.run_id == run_id(1)
        assert await store.started("child", "order-7") is None
        assert await store.started("workflow:checkout", "order-8") is None

    async def test_create_keeps_every_field_of_the_run(self, store: Store) -> None:
        index = Index(status=WorkflowStatus.PENDING, step="pack", wake_at=2_000, failure="none yet", started_at=7)
        create = Create(
            run_id=run_id(1),
            workflow="onboarding",
            version=3,
            digest="digest-9",
            at=1_234,
            events=(STARTED, STEPPED),
            index=index,
            key="order-7",
            fingerprint="f",
            tags={"region": "eu", "größe": "\u00fc'\"\\"},
        )

        (result,) = await written(store, [create])

        assert isinstance(result, Committed)
        assert result.seq == 2
        loaded = await store.load(result.rid)
        assert loaded.run == RunRow(
            rid=result.rid,
            run_id=run_id(1),
            workflow="onboarding",
            version=3,
            digest="digest-9",
            status=WorkflowStatus.PENDING,
            step="pack",
            seq=2,
            inbox=0,
            owner=None,
            fence=0,
            wake_at=2_000,
            key="order-7",
            tags={"region": "eu", "größe": "\u00fc'\"\\"},
            failure="none yet",
            incidents=0,
            created_at=1_234,
            started_at=7,
            updated_at=1_234,
            ended_at=None,
        )
        assert list(loaded.events) == [EventRow(1, 1_234, *STARTED), EventRow(2, 1_234, *STEPPED)]
        assert list(loaded.inbox) == []

    async def test_create_with_an_owner_is_his_at_once(self, store: Store) -> None:
        run = await started(store, owner="host-a")
        assert (run.owner, run.fence) == ("host-a", 1)

    async def test_create_is_there_for_other_processes_and_after_a_crash(self, store: Store, other: Store) -> None:
        """P2: durable when `write` returns."""
        run = await started(store)
        assert (await other.load(run.rid)).run == run

        survivor = await self.crash(store)
        try:
            assert (await survivor.load(run.rid)).run == run
        finally:
            await survivor.close()

    async def test_start_key_that_is_taken_answers_the_first_run_and_keeps_nothing(self, store: Store) -> None:
        await written(store, [keyed(1, fingerprint="first")])

        (result,) = await written(store, [keyed(2, fingerprint="second")])

        assert result == Existing(run_id(1), "first")
        assert await run_ids(store) == [run_id(1)]

    async def test_start_key_holds_when_the_run_has_ended(self, store: Store) -> None:
        gone = Index(status=WorkflowStatus.FAILED, step=None, wake_at=None, ended_at=CREATED_AT)
        await written(store, [replace(keyed(1), owner=None, index=gone)])

        assert await written(store, [keyed(2)]) == [Existing(run_id(1), "same")]

    async def test_start_key_twice_in_one_batch_makes_one_run(self, store: Store) -> None:
        first, second, third = await written(store, [keyed(1), keyed(2), creation(3)])

        assert isinstance(first, Committed)
        assert second == Existing(run_id(1), "same")
        assert isinstance(third, Committed)
        assert await run_ids(store) == [run_id(3), run_id(1)]

    async def test_start_keys_of_different_spaces_do_not_meet(self, store: Store) -> None:
        results = await written(store, [keyed(1), replace(keyed(2), key_space="schedule"), keyed(3, "ORDER-7")])

        assert all(isinstance(result, Committed) for result in results)

    async def test_start_key_is_unique_in_its_space_whatever_the_workflow(self, store: Store) -> None:
        """P23: a schedule may have been given another workflow since."""
        await written(store, [keyed(1, fingerprint="first")])

        assert await written(store, [replace(keyed(2), workflow="onboarding")]) == [Existing(run_id(1), "first")]

    async def test_act_that_begins_a_run_is_in_the_audit_if_the_run_is_begun(self, store: Store) -> None:
        entry = AuditEntry(
            name="schedule.trigger", by="ada", reason="tonight too", about="schedule:nightly", data=b'{"key":null}'
        )

        await written(store, [replace(keyed(1), audit=entry), creation(2)])
        await written(
            store,
            [replace(keyed(3), audit=entry), replace(creation(4), events=(("run_created", BAD_TEXT),), audit=entry)],
        )

        (kept,) = await store.audit(limit=9)
        assert kept == AuditRow(
            id=kept.id,
            at=CREATED_AT,
            by="ada",
            name="schedule.trigger",
            run_id=run_id(1),
            about="schedule:nightly",
            reason="tonight too",
            data=b'{"key":null}',
        )

    async def test_runs_without_a_key_do_not_meet(self, store: Store) -> None:
        results = await written(store, [creation(number) for number in range(1, 4)])

        assert len({result.rid for result in results if isinstance(result, Committed)}) == 3

    async def test_create_repeated_after_an_unclear_commit_is_committed_once(self, store: Store) -> None:
        """P6: also when the run has moved on since, and its own start key is not in its way."""
        batch = [keyed(1), creation(2)]
        first = await written(store, batch)

        assert await written(store, batch) == first
        assert await written(store, batch[:1]) == first[:1]
        assert await run_ids(store) == [run_id(2), run_id(1)]

    async def test_run_id_that_is_taken_by_another_start_is_refused(self, store: Store) -> None:
        run = await started(store)

        results = await written(store, [replace(creation(1), events=(STEPPED,)), creation(2)])

        assert isinstance(results[0], Refused)
        assert isinstance(results[1], Committed)
        assert list((await store.load(run.rid)).events) == [EventRow(1, CREATED_AT, *STARTED)]
