"""What is old goes: families of runs, whole or not at all, and start keys after them (P42)."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from bext_workflow.errors import Conflict, NotFound, UsageError
from bext_workflow.model.status import IncidentKind, WorkflowStatus
from bext_workflow.ports.audit import AuditEntry
from bext_workflow.ports.retention import Expired, Pruned
from bext_workflow.ports.store import (
    ApprovalRow,
    Committed,
    Create,
    Existing,
    Index,
    RunFilter,
    RunRow,
    Store,
)
from bext_workflow.testing.contract.base import (
    StoreCase,
    committed,
    creation,
    ended,
    following,
    judged,
    parked,
    row,
    run_id,
    written,
)
from bext_workflow.testing.contract.incidents import incident_of

NOW = 10_000_000
OLD, YOUNG = 5_000, 9_000
BEFORE = 6_000
COMPLETED, FAILED = WorkflowStatus.COMPLETED, WorkflowStatus.FAILED
EXPIRED = Expired(ended_before={COMPLETED: BEFORE, FAILED: BEFORE}, keys_before=0)


def over(number: int, at: int = OLD, status: WorkflowStatus = COMPLETED, *, root: int | None = None) -> Create:
    """A run that is nobody's and has ended at `at`; below the run `root`."""
    index = replace(ended(at, status), release=False)
    top = None if root is None else run_id(root)
    return replace(creation(number, owner=None), index=index, root=top, key=f"k-{number}", key_space="child")


async def prune(store: Store, expired: Expired = EXPIRED, *, limit: int = 100) -> Pruned:
    return await store.prune(expired, at=NOW, limit=limit)


async def left(store: Store) -> list[int]:
    """The numbers of the runs that are there, oldest first."""
    return sorted(int(run.run_id[-12:]) for run in await store.runs(RunFilter(), limit=100))


async def gone(store: Store, rid: int) -> bool:
    try:
        await store.load(rid)
    except NotFound:
        return True
    return False


class RetentionContract(StoreCase):
    async def test_runs_that_ended_long_ago_go_by_their_status(self, store: Store) -> None:
        await committed(
            store,
            over(1),
            over(2, at=YOUNG),
            over(3, status=FAILED),
            over(4, status=WorkflowStatus.CANCELLED),
            over(5, at=BEFORE),
        )

        assert await store.prunable(EXPIRED) == Pruned(runs={COMPLETED: 1, FAILED: 1})
        assert await left(store) == [1, 2, 3, 4, 5]

        assert await prune(store) == Pruned(runs={COMPLETED: 1, FAILED: 1})
        assert await left(store) == [2, 4, 5]
        assert not await prune(store)

    async def test_run_goes_with_all_that_belongs_to_it_and_with_nothing_else(self, store: Store) -> None:
        (run, other) = await committed(store, creation(1), creation(2))
        resolved = replace(incident_of(run, 1, IncidentKind.IN_DOUBT), resolved_at=1_900)
        asked = approval(run)
        await store.post(run.run_id, judged(), at=1_500)
        now = await row(store, run.rid)
        last = replace(following(now, index=ended(OLD)), opened=(resolved,), asked=(asked,), taken=now.inbox)
        await committed(store, last)

        assert await prune(store) == Pruned(runs={COMPLETED: 1, FAILED: 0})

        assert await gone(store, run.rid)
        assert list(await store.events(run.rid, after=0, limit=10)) == []
        assert list(await store.incidents(open_only=False, limit=10)) == []
        assert list(await store.approvals(open_only=False, limit=10)) == []
        assert await row(store, other.rid) == other
        assert len((await store.load(other.rid)).events) == 1
        assert [entry.run_id for entry in await store.audit(limit=10)] == [run.run_id]

    @pytest.mark.parametrize(
        "index",
        [
            parked(None, WorkflowStatus.WAITING),
            parked(NOW + 1),
            replace(ended(OLD), wake_at=OLD + 1, release=False),
        ],
        ids=["waits", "sleeps", "has-a-completion-call-to-make"],
    )
    async def test_run_with_something_to_come_stays(self, store: Store, index: Index) -> None:
        """Semantics §2: never one whose completion call is pending."""
        await committed(store, replace(creation(1, owner=None), index=replace(index, release=False)))

        assert not await store.prunable(EXPIRED)
        assert not await prune(store)
        assert await left(store) == [1]

    async def test_run_that_is_owned_stays(self, store: Store) -> None:
        await committed(store, replace(creation(1), index=replace(ended(OLD), release=False)))

        assert not await prune(store)

    async def test_run_with_an_open_incident_stays_until_it_is_answered(self, store: Store) -> None:
        (run,) = await committed(store, creation(1))
        incident = incident_of(run, 1, IncidentKind.COMPENSATION_FAILED)
        failed = replace(ended(OLD, FAILED), release=False)
        (run,) = await committed(store, replace(following(run, index=failed), opened=(incident,)))
        assert not await prune(store)

        closed = replace(following(run, index=ended(OLD, FAILED)), resolved=((incident.id, {"action": "close"}),))
        await committed(store, closed)

        assert await prune(store) == Pruned(runs={COMPLETED: 0, FAILED: 1})

    async def test_act_that_has_been_posted_keeps_the_run(self, store: Store) -> None:
        """A person has asked for something: it is due again."""
        await committed(store, over(1, status=FAILED))
        await store.post(run_id(1), judged(), at=NOW)

        assert not await prune(store)

    async def test_children_go_with_the_topmost_run_above_them(self, store: Store) -> None:
        await committed(
            store,
            over(1, at=YOUNG),
            over(2, root=1),
            over(3),
            over(4, at=YOUNG, root=3),
            over(5, status=FAILED, root=3),
        )

        assert await store.prunable(EXPIRED) == Pruned(runs={COMPLETED: 3, FAILED: 0})
        assert await prune(store) == Pruned(runs={COMPLETED: 3, FAILED: 0})
        assert await left(store) == [1, 2]

    @pytest.mark.parametrize("index", [parked(None, WorkflowStatus.WAITING), replace(ended(OLD), wake_at=7)])
    async def test_family_stays_while_one_of_it_has_something_to_come(self, store: Store, index: Index) -> None:
        child = replace(over(2, root=1), index=replace(index, release=False))
        await committed(store, over(1), child, over(3, root=1))

        assert not await prune(store)
        assert await left(store) == [1, 2, 3]

    async def test_batch_is_of_whole_families(self, store: Store) -> None:
        """P42: what is left of the work is done by the next one."""
        family = [over(2, at=OLD + 1), over(3, root=2), over(4, root=2)]
        await committed(store, over(1), *family, over(5, at=OLD + 2))

        assert await prune(store, limit=2) == Pruned(runs={COMPLETED: 1, FAILED: 0})
        assert await left(store) == [2, 3, 4, 5]
        assert await prune(store, limit=2) == Pruned(runs={COMPLETED: 3, FAILED: 0})
        assert await left(store) == [5]
        assert await prune(store, limit=2) == Pruned(runs={COMPLETED: 1, FAILED: 0})
        assert not await prune(store, limit=2)

    async def test_start_key_of_a_removed_run_is_known_till_it_is_forgotten(self, store: Store) -> None:
        """P42, semantics §6: its key begins no other run for a while, and then one that knows nothing of it."""
        (old,) = await committed(store, over(1))
        again = replace(creation(2), key="k-1", key_space="child", fingerprint="other")
        await prune(store)

        assert await written(store, [again]) == [Existing(None, "")]
        assert await store.started("child", "k-1") is None

        assert not await prune(store, Expired(keys_before=NOW))
        assert await store.prunable(Expired(keys_before=NOW + 1)) == Pruned(start_keys=1)
        assert await prune(store, Expired(keys_before=NOW + 1)) == Pruned(start_keys=1)

        (result,) = await written(store, [again])
        assert isinstance(result, Committed)
        assert result.rid != old.rid
        assert len((await store.load(result.rid)).events) == 1

    async def test_key_of_another_run_is_not_touched(self, store: Store) -> None:
        await committed(store, over(1), replace(over(2, at=YOUNG), key="k-1", key_space="workflow:checkout"))
        await prune(store)

        assert await written(store, [replace(creation(3), key="k-1", key_space="workflow:checkout")]) == [
            Existing(run_id(2), "")
        ]

    async def test_removal_by_a_person_stands_in_the_audit(self, store: Store) -> None:
        entry = AuditEntry(name="store.prune", by="ada")
        await store.prune(EXPIRED, at=NOW, limit=10, audit=entry)
        assert list(await store.audit(limit=10)) == []  # nothing was done
        await committed(store, over(1))

        await store.prune(EXPIRED, at=NOW, limit=10, audit=entry)

        assert [(one.name, one.by, one.at) for one in await store.audit(limit=10)] == [("store.prune", "ada", NOW)]

    async def test_removal_is_the_same_for_others_and_after_a_crash(self, store: Store, other: Store) -> None:
        """P42"""
        await committed(store, over(1), over(2, root=1), over(3, at=YOUNG))
        await prune(store)
        assert await left(other) == [3]

        again = await self.crash(store)
        try:
            assert await left(again) == [3]
            assert await written(again, [replace(creation(4), key="k-2", key_space="child")]) == [Existing(None, "")]
        finally:
            await again.close()

    async def test_backup_is_a_whole_store_or_says_what_makes_one(self, store: Store, tmp_path: Path) -> None:
        await committed(store, over(1))
        file = tmp_path / "backup"

        advice = await refused(store, file)

        assert (advice is None) is file.exists()
        if advice is None:
            assert "there already" in str(await refused(store, file))


async def refused(store: Store, file: Path) -> str | None:
    """Why there is no backup, with what to do instead."""
    try:
        await store.backup(file)
    except (UsageError, Conflict) as error:
        return f"{error.message}: {error.mend}" if error.mend else None
    return None


def approval(run: RunRow) -> ApprovalRow:
    return ApprovalRow(
        id=f"{run.run_id}:approve",
        run_id=run.run_id,
        workflow=run.workflow,
        step="approve",
        visit=1,
        opened_at=1_500,
        closed_at=1_600,
    )
