"""Undo: refund, then release; what never happened; what fails."""

from __future__ import annotations

import pytest

from bext_workflow import StepOutcome, WorkflowError
from bext_workflow.model.json import JsonObject
from bext_workflow_pg.books import Kind
from bext_workflow_pg.checkout import CheckoutPlugin
from plugins.workflow_pg.tests.snapshots import RUN_ID, forward, undo


async def run_forward(plugin: CheckoutPlugin, *steps: str, sku: str = "widget") -> JsonObject:
    """Runs the steps and returns what they added to the context."""
    context: JsonObject = {"sku": sku}
    for step in steps:
        outcome = await plugin.run_step(forward(step, **context), step)
        assert isinstance(outcome, StepOutcome.Continue)
        context |= outcome.context_updates
    return context


async def test_refund_then_release_leave_the_ledger_as_it_was(plugin: CheckoutPlugin) -> None:
    before = (await plugin.ledger.books()).stock
    context = await run_forward(plugin, "reserve_stock", "charge_card")

    await plugin.compensate_step(undo("charge_card", **context), "charge_card")
    await plugin.compensate_step(undo("reserve_stock", **context), "reserve_stock")

    books = await plugin.ledger.books()
    assert [(entry.kind, entry.amount, entry.calls) for entry in books.entries] == [
        (Kind.RESERVE, 2, 1),
        (Kind.CHARGE, 3998, 1),
        (Kind.REFUND, -3998, 1),
        (Kind.RELEASE, -2, 1),
    ]
    assert books.stock == before
    assert books.faults() == ()


@pytest.mark.parametrize("step", ["reserve_stock", "charge_card"])
async def test_a_repeated_undo_acts_once(plugin: CheckoutPlugin, step: str) -> None:
    context = await run_forward(plugin, "reserve_stock", "charge_card")

    for _ in range(3):
        await plugin.compensate_step(undo(step, **context), step)

    entries = (await plugin.ledger.books()).entries
    assert [entry.undoes for entry in entries[2:]] == [f"{RUN_ID}:{step}"]
    assert await plugin.ledger.calls(f"{RUN_ID}:{step}:compensate") == 3


@pytest.mark.parametrize("step", ["reserve_stock", "charge_card"])
async def test_a_step_that_acted_but_never_returned_is_undone_by_its_key(plugin: CheckoutPlugin, step: str) -> None:
    """`compensate_on_failure`: the context has no id."""
    await run_forward(plugin, step)

    await plugin.compensate_step(undo(step), step)

    done, undone = (await plugin.ledger.books()).entries
    assert undone.undoes == done.key
    assert undone.amount == -done.amount


@pytest.mark.parametrize("step", ["reserve_stock", "charge_card"])
async def test_undoing_what_never_happened_is_remembered(plugin: CheckoutPlugin, step: str) -> None:
    before = (await plugin.ledger.books()).stock

    await plugin.compensate_step(undo(step), step)
    late = await plugin.run_step(forward(step), step)

    assert isinstance(late, StepOutcome.Fail)
    books = await plugin.ledger.books()
    assert [books.status(entry) for entry in books.entries] == ["nothing to undo"]
    assert books.stock == before
    assert books.faults() == ()


@pytest.mark.parametrize(("step", "name"), [("reserve_stock", "reservation_id"), ("charge_card", "charge_id")])
async def test_an_id_that_the_ledger_does_not_know_needs_a_person(plugin: CheckoutPlugin, step: str, name: str) -> None:
    """As when an operator answered `done` with the id of a charge that was made by hand: no silent nothing."""
    context: JsonObject = {name: "by-hand"}
    with pytest.raises(WorkflowError, match=r"^by-hand is not of .*, which made nothing$") as caught:
        await plugin.compensate_step(undo(step, **context), step)

    assert not caught.value.retryable
    assert (await plugin.ledger.books()).entries == ()


async def test_an_id_of_another_run_is_not_undone(plugin: CheckoutPlugin) -> None:
    """A caller may write any id into the context that a run starts with."""
    await plugin.run_step(forward("charge_card", run_id="other"), "charge_card")
    (other,) = (await plugin.ledger.books()).entries

    with pytest.raises(WorkflowError, match=f"{other.id} is not of {RUN_ID}:charge_card"):
        await plugin.compensate_step(undo("charge_card", charge_id=other.id), "charge_card")


async def test_jammed_release_fails_for_good_in_the_first_attempt_and_then_works(plugin: CheckoutPlugin) -> None:
    context = await run_forward(plugin, "reserve_stock", sku="jammed")

    with pytest.raises(WorkflowError, match=r"^the shelf is jammed$") as caught:
        await plugin.compensate_step(undo("reserve_stock", **context), "reserve_stock")
    assert not caught.value.retryable
    assert await plugin.ledger.calls(f"{RUN_ID}:reserve_stock:compensate") == 0

    await plugin.compensate_step(undo("reserve_stock", attempt=2, **context), "reserve_stock")
    assert await plugin.ledger.calls(f"{RUN_ID}:reserve_stock:compensate") == 1
    assert (await plugin.ledger.books()).faults() == ()


async def test_a_sent_receipt_stays_sent(plugin: CheckoutPlugin) -> None:
    await run_forward(plugin, "send_receipt")

    await plugin.compensate_step(undo("send_receipt"), "send_receipt")

    assert (await plugin.ledger.books()).totals() == {"reserved": 0, "charged": 0, "sent": 1, "undone": 0}


async def test_unknown_step(plugin: CheckoutPlugin) -> None:
    with pytest.raises(WorkflowError, match=r"^step not found: pack$"):
        await plugin.compensate_step(undo("pack"), "pack")
