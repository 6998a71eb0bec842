"""Approvals: asked for, decided and listed with the run that waits; and the secrets that a store keeps."""

from __future__ import annotations

from msgspec.structs import replace

from bext_workflow.ports.store import ApprovalRow, LeaseLost, RunRow, Store
from bext_workflow.testing.contract.base import StoreCase, committed, creation, following, row, started, written


def approval_of(run: RunRow, step: str = "ask") -> ApprovalRow:
    return ApprovalRow(
        id=f"{run.run_id}:{step}",
        run_id=run.run_id,
        workflow=run.workflow,
        step=step,
        visit=1,
        title="“May we?”",
        by=("ada", "bob"),
        not_by="starter",
        form={"type": "object", "required": ["n"], "minimum": 1.0},
        opened_at=1_100,
        due_at=9_000,
    )


async def asked(store: Store, run: RunRow, *steps: str) -> list[ApprovalRow]:
    approvals = [approval_of(run, step) for step in steps]
    await committed(store, replace(following(run), asked=tuple(approvals)))
    return approvals


class ApprovalsContract(StoreCase):
    async def test_approval_is_there_with_the_append_that_asked_for_it(self, store: Store) -> None:
        run = await started(store)
        (approval,) = await asked(store, run, "ask")
        (listed,) = await store.approvals(limit=9)
        assert listed == approval
        assert repr(listed.form) == repr(approval.form)  # 1 and 1.0 are equal (P47)

    async def test_approval_of_an_append_that_fails_is_not_there(self, store: Store) -> None:
        """P5"""
        run = await started(store)
        append = replace(following(run), asked=(approval_of(run),))
        assert await written(store, [replace(append, fence=7)]) == [LeaseLost()]
        assert list(await store.approvals(limit=9)) == []

    async def test_approval_is_decided_by_an_append_and_may_be_asked_for_again(self, store: Store) -> None:
        run = await started(store)
        (approval,) = await asked(store, run, "ask")
        decision = {"how": "rejected", "by": "ada", "comment": "no"}

        run = await row(store, run.rid)
        (run,) = await committed(store, replace(following(run), at=1_900, decided=((approval.id, decision),)))
        assert list(await store.approvals(limit=9)) == []
        (closed,) = await store.approvals(open_only=False, limit=9)
        assert closed == replace(approval, closed_at=1_900, resolution=decision)

        again = replace(approval, opened_at=2_000)
        await committed(store, replace(following(run), asked=(again,)))
        assert list(await store.approvals(open_only=False, limit=9)) == [again]

    async def test_approvals_are_listed_by_page_and_by_run(self, store: Store) -> None:
        one, two = await committed(store, creation(1), creation(2))
        first, second = await asked(store, one, "ask", "board")
        (third,) = await asked(store, two, "ask")

        assert list(await store.approvals(limit=2)) == [third, second]
        assert list(await store.approvals(limit=2, before=second.id)) == [first]
        assert list(await store.approvals(run_id=one.run_id, limit=9)) == [second, first]

    async def test_approval_is_found_by_the_beginning_of_its_id_open_ones_first(self, store: Store) -> None:
        run = await started(store)
        ask, board = await asked(store, run, "ask", "board")
        run = await row(store, run.rid)
        await committed(store, replace(following(run), decided=((ask.id, {"how": "approved"}),)))

        assert [found.id for found in await store.approval(run.run_id[:9])] == [board.id, ask.id]
        assert [found.id for found in await store.approval(board.id)] == [board.id]
        assert list(await store.approval("%")) == []

    async def test_approval_whose_whole_id_it_is_comes_before_open_ones_that_begin_with_it(self, store: Store) -> None:
        """§9: an old approval must not approve a later request."""
        run = await started(store)
        ask, second, _ = await asked(store, run, "ask", "ask#2", "ask#3")
        run = await row(store, run.rid)
        await committed(store, replace(following(run), decided=((ask.id, {"how": "rejected"}),)))

        assert [found.id for found in await store.approval(ask.id)] == [ask.id, second.id]

    async def test_secret_stays_what_it_is_and_each_name_has_its_own(self, store: Store) -> None:
        secret = await store.secret("a")
        assert len(secret) == 32
        assert await store.secret("a") == secret
        assert await store.secret("b") != secret
