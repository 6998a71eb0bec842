"""Every branch of the text's `run_step`, and the test values that lead there."""

from __future__ import annotations

from contextlib import closing

import pytest

from bext_workflow import StepOutcome, WorkflowError
from bext_workflow.model.json import Json, JsonObject
from bext_workflow.plugin.hookspecs import HostInfo
from bext_workflow_pg.checkout import CheckoutPlugin
from bext_workflow_pg.database import open_database
from bext_workflow_pg.ledger import Ledger
from bext_workflow_pg.sqlite_ledger import SqliteLedger
from plugins.workflow_pg.tests.snapshots import CONTEXT, RUN_ID, forward, undo, without


async def stock_of(plugin: CheckoutPlugin, sku: str) -> int:
    return {stock.sku: stock.available for stock in (await plugin.ledger.books()).stock}[sku]


async def test_three_steps_add_their_ids(plugin: CheckoutPlugin) -> None:
    updates: JsonObject = {}
    for step in ("reserve_stock", "charge_card", "send_receipt"):
        match await plugin.run_step(forward(step, **updates), step):
            case StepOutcome.Continue(context_updates=added, next=None, undo_data=None):
                updates.update(added)
            case other:
                pytest.fail(f"{step}: {other}")

    assert list(updates) == ["reservation_id", "charge_id", "receipt_id"]
    books = await plugin.ledger.books()
    assert [entry.id for entry in books.entries] == list(updates.values())
    assert [entry.amount for entry in books.entries] == [2, 2 * 1999, 1]
    assert books.faults() == ()


async def test_a_repeated_attempt_returns_the_same_id_and_acts_once(plugin: CheckoutPlugin) -> None:
    """Same key, as after a crash between the effect and its checkpoint."""
    first = await plugin.run_step(forward("reserve_stock"), "reserve_stock")
    again = await plugin.run_step(forward("reserve_stock"), "reserve_stock")

    assert first == again
    assert await stock_of(plugin, "widget") == 1_000_000 - 2
    assert await plugin.ledger.calls(f"{RUN_ID}:reserve_stock") == 2


async def test_unknown_sku_fails_and_undoes_nothing(plugin: CheckoutPlugin) -> None:
    assert await plugin.run_step(forward("reserve_stock", sku="unknown"), "reserve_stock") == StepOutcome.Fail(
        "no such SKU: unknown", compensate=False
    )


async def test_more_than_there_is_in_stock_fails_and_takes_nothing(plugin: CheckoutPlugin) -> None:
    outcome = await plugin.run_step(forward("reserve_stock", quantity=1_000_001), "reserve_stock")

    assert outcome == StepOutcome.Fail("1000001 of widget ordered, 1000000 in stock", compensate=False)
    assert await stock_of(plugin, "widget") == 1_000_000
    assert (await plugin.ledger.books()).entries == ()


@pytest.mark.parametrize("attempt", [1, 2])
async def test_flaky_sku_is_transient_twice(plugin: CheckoutPlugin, attempt: int) -> None:
    outcome = await plugin.run_step(forward("reserve_stock", attempt=attempt, sku="flaky"), "reserve_stock")

    assert outcome == StepOutcome.Retry(after_ms=500, reason="the warehouse does not answer")
    assert (await plugin.ledger.books()).entries == ()


async def test_flaky_sku_then_works(plugin: CheckoutPlugin) -> None:
    outcome = await plugin.run_step(forward("reserve_stock", attempt=3, sku="flaky"), "reserve_stock")

    assert isinstance(outcome, StepOutcome.Continue)


async def test_jammed_sku_reserves(plugin: CheckoutPlugin) -> None:
    outcome = await plugin.run_step(forward("reserve_stock", sku="jammed"), "reserve_stock")

    assert isinstance(outcome, StepOutcome.Continue)
    assert await stock_of(plugin, "jammed") == 1_000_000 - 2


@pytest.mark.parametrize(
    ("method", "reason"),
    [("pm_declined", "card declined"), ("pm_gold", "unknown payment method: pm_gold")],
)
async def test_declined_or_unknown_payment_rolls_back(plugin: CheckoutPlugin, method: str, reason: str) -> None:
    outcome = await plugin.run_step(forward("charge_card", payment_method=method), "charge_card")

    assert outcome == StepOutcome.Fail(reason, compensate=True)
    assert (await plugin.ledger.books()).entries == ()


@pytest.mark.parametrize("attempt", [1, 2])
async def test_flaky_payment_leaves_the_wait_to_the_policy(plugin: CheckoutPlugin, attempt: int) -> None:
    """A Retry without `after_ms`: the plugin's word that nothing was charged."""
    outcome = await plugin.run_step(forward("charge_card", attempt=attempt, payment_method="pm_flaky"), "charge_card")

    assert outcome == StepOutcome.Retry(reason="processing error")
    assert (await plugin.ledger.books()).entries == ()


async def test_flaky_payment_then_works(plugin: CheckoutPlugin) -> None:
    outcome = await plugin.run_step(forward("charge_card", attempt=3, payment_method="pm_flaky"), "charge_card")

    assert isinstance(outcome, StepOutcome.Continue)


async def test_bounced_receipt_rolls_back(plugin: CheckoutPlugin) -> None:
    outcome = await plugin.run_step(forward("send_receipt", email="bounce@example.com"), "send_receipt")

    assert outcome == StepOutcome.Fail("the mail to bounce@example.com bounced", compensate=True)


@pytest.mark.parametrize("field", list(CONTEXT))
async def test_a_missing_field_fails_before_anything_is_done(plugin: CheckoutPlugin, field: str) -> None:
    outcome = await plugin.run_step(without(field), "reserve_stock")

    assert outcome == StepOutcome.Fail(f"not an order: Object missing required field `{field}`", compensate=False)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("order_id", 7),
        ("order_id", ""),
        ("sku", None),
        ("sku", "x" * 201),
        ("quantity", "2"),
        ("quantity", 0),
        ("quantity", -1),
        ("quantity", 1.5),
        ("quantity", True),
        ("payment_method", ["pm_ok"]),
        ("email", "nobody"),
    ],
)
async def test_a_wrong_field_fails_and_is_named(plugin: CheckoutPlugin, field: str, value: Json) -> None:
    outcome = await plugin.run_step(forward("reserve_stock", **{field: value}), "reserve_stock")

    assert isinstance(outcome, StepOutcome.Fail)
    assert not outcome.compensate
    assert outcome.reason.startswith("not an order: ")
    assert outcome.reason.endswith(f"$.{field}`")


@pytest.mark.parametrize("step", ["charge_card", "send_receipt"])
async def test_an_order_that_turned_wrong_rolls_back(plugin: CheckoutPlugin, step: str) -> None:
    """Past the first step there is something to undo."""
    outcome = await plugin.run_step(forward(step, quantity=0), step)

    assert isinstance(outcome, StepOutcome.Fail)
    assert outcome.compensate


async def test_unknown_step(plugin: CheckoutPlugin) -> None:
    with pytest.raises(WorkflowError, match=r"^step not found: pack$") as caught:
        await plugin.run_step(forward("pack"), "pack")
    assert not caught.value.retryable


async def test_a_charge_that_arrives_after_its_refund_is_refused(plugin: CheckoutPlugin) -> None:
    await plugin.compensate_step(undo("charge_card"), "charge_card")

    outcome = await plugin.run_step(forward("charge_card"), "charge_card")

    key = f"{RUN_ID}:charge_card"
    assert outcome == StepOutcome.Fail(f"{key} has been undone by {key}:compensate", compensate=True)
    assert [entry.amount for entry in (await plugin.ledger.books()).entries] == [0]


@pytest.mark.parametrize(("step", "after_ms"), [("reserve_stock", 500), ("charge_card", None), ("send_receipt", None)])
async def test_a_ledger_that_does_not_answer_is_transient(
    host: HostInfo, location: str, step: str, after_ms: int | None
) -> None:
    """No transaction could be begun, so it is certain that nothing was done, also for the charge."""
    with closing(open_database(location)) as other:
        plugin = CheckoutPlugin(impatient_ledger)
        plugin.configure({}, host)
        async with plugin.lifespan():
            other.execute("BEGIN IMMEDIATE")
            outcome = await plugin.run_step(forward(step), step)
            other.execute("ROLLBACK")

    assert outcome == StepOutcome.Retry(after_ms, "the ledger does not answer: database is locked")


async def test_an_undo_waits_for_a_ledger_that_does_not_answer(host: HostInfo, location: str) -> None:
    with closing(open_database(location)) as other:
        plugin = CheckoutPlugin(impatient_ledger)
        plugin.configure({}, host)
        async with plugin.lifespan():
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(WorkflowError, match="does not answer") as caught:
                await plugin.compensate_step(undo("charge_card"), "charge_card")
            other.execute("ROLLBACK")

    assert caught.value.retryable


async def impatient_ledger(location: str) -> Ledger:
    """A ledger that does not wait for others."""
    db = open_database(location)
    db.execute("PRAGMA busy_timeout = 0")
    return SqliteLedger(db)
