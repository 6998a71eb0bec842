"""Undo: refund, then release; what never happened; what fails."""

from __future__ import annotations

import pytest

from bext_workflow import StepOutcome, WorkflowError
from bext_workflow.model.json import JsonObject
from bext_workflow_pg.books import Kind
from bext_workflow_pg.checkout import CheckoutPlugin
from plugins.workflow_pg.tests.snapshots import RUN_ID, forward, undo


def run_forward(plugin: CheckoutPlugin, *steps: str, sku: str = "widget") -> JsonObject:
    """Runs the steps and returns what they added to the context."""
    context: JsonObject = {"sku": sku}
    for step in steps:
        outcome = plugin.run_step(forward(step, **context), step)
        assert isinstance(outcome, StepOutcome.Continue)
        context |= outcome.context_updates
    return context


def test_refund_then_release_leave_the_ledger_as_it_was(plugin: CheckoutPlugin) -> None:
    before = plugin.ledger.books().stock
    context = run_forward(plugin, "reserve_stock", "charge_card")

    plugin.compensate_step(undo("charge_card", **context), "charge_card")
    plugin.compensate_step(undo("reserve_stock", **context), "reserve_stock")

    books = plugin.ledger.books()
    assert [(entry.kind, entry.amount, entry.calls) for entry in books.entries] == [
        (Kind.RESERVE, 2, 1),
        (Kind.CHARGE, 3998, 1),
        (Kind.REFUND, -3998, 1),
        (Kind.RELEASE, -2, 1),
    ]
    assert books.stock == before
    assert books.faults() == ()


@pytest.mark.parametrize("step", ["reserve_stock", "charge_card"])
def test_a_repeated_undo_acts_once(plugin: CheckoutPlugin, step: str) -> None:
    context = run_forward(plugin, "reserve_stock", "charge_card")

    for _ in range(3):
        plugin.compensate_step(undo(step, **context), step)

    entries = plugin.ledger.books().entries
    assert [entry.undoes for entry in entries[2:]] == [f"{RUN_ID}:{step}"]
    assert plugin.ledger.calls(f"{RUN_ID}:{step}:compensate") == 3


@pytest.mark.parametrize("step", ["reserve_stock", "charge_card"])
def test_a_step_that_acted_but_never_returned_is_undone_by_its_key(plugin: CheckoutPlugin, step: str) -> None:
    """`compensate_on_failure`: the context has no id."""
    run_forward(plugin, step)

    plugin.compensate_step(undo(step), step)

    done, undone = plugin.ledger.books().entries
    assert undone.undoes == done.key
    assert undone.amount == -done.amount


@pytest.mark.parametrize("step", ["reserve_stock", "charge_card"])
def test_undoing_what_never_happened_is_remembered(plugin: CheckoutPlugin, step: str) -> None:
    before = plugin.ledger.books().stock

    plugin.compensate_step(undo(step), step)
    late = plugin.run_step(forward(step), step)

    assert isinstance(late, StepOutcome.Fail)
    books = plugin.ledger.books()
    assert [books.status(entry) for entry in books.entries] == ["nothing to undo"]
    assert books.stock == before
    assert books.faults() == ()


@pytest.mark.parametrize(("step", "name"), [("reserve_stock", "reservation_id"), ("charge_card", "charge_id")])
def test_an_id_that_the_ledger_does_not_know_needs_a_person(plugin: CheckoutPlugin, step: str, name: str) -> None:
    """As when an operator answered `done` with the id of a charge that was made by hand: no silent nothing."""
    context: JsonObject = {name: "by-hand"}
    with pytest.raises(WorkflowError, match=r"^by-hand is not of .*, which made nothing$") as caught:
        plugin.compensate_step(undo(step, **context), step)

    assert not caught.value.retryable
    assert plugin.ledger.books().entries == ()


def test_an_id_of_another_run_is_not_undone(plugin: CheckoutPlugin) -> None:
    """A caller may write any id into the context that a run starts with."""
    plugin.run_step(forward("charge_card", run_id="other"), "charge_card")
    (other,) = plugin.ledger.books().entries

    with pytest.raises(WorkflowError, match=f"{other.id} is not of {RUN_ID}:charge_card"):
        plugin.compensate_step(undo("charge_card", charge_id=other.id), "charge_card")


def test_jammed_release_fails_for_good_in_the_first_attempt_and_then_works(plugin: CheckoutPlugin) -> None:
    context = run_forward(plugin, "reserve_stock", sku="jammed")

    with pytest.raises(WorkflowError, match=r"^the shelf is jammed$") as caught:
        plugin.compensate_step(undo("reserve_stock", **context), "reserve_stock")
    assert not caught.value.retryable
    assert plugin.ledger.calls(f"{RUN_ID}:reserve_stock:compensate") == 0

    plugin.compensate_step(undo("reserve_stock", attempt=2, **context), "reserve_stock")
    assert plugin.ledger.calls(f"{RUN_ID}:reserve_stock:compensate") == 1
    assert plugin.ledger.books().faults() == ()


def test_a_sent_receipt_stays_sent(plugin: CheckoutPlugin) -> None:
    run_forward(plugin, "send_receipt")

    plugin.compensate_step(undo("send_receipt"), "send_receipt")

    assert plugin.ledger.books().totals() == {"reserved": 0, "charged": 0, "sent": 1, "undone": 0}


def test_unknown_step(plugin: CheckoutPlugin) -> None:
    with pytest.raises(WorkflowError, match=r"^step not found: pack$"):
        plugin.compensate_step(undo("pack"), "pack")
