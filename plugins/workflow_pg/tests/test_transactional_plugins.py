"""Where steps can be transactional and where not; the checkout, which is where its ledger is in the store."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from bext_workflow import StepOutcome, WorkflowRun
from bext_workflow.checks import transaction_findings
from bext_workflow.errors import DefinitionError
from bext_workflow.model.json import JsonObject
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.plugin.hookspecs import HostInfo
from bext_workflow.plugin.registry import Isolation, load_given, serving
from bext_workflow.stores import SqliteStore
from bext_workflow_pg.checkout import CheckoutPlugin
from bext_workflow_pg.store.store import PostgresStore
from plugins.workflow_pg.tests.databases import ask, run_sql
from plugins.workflow_pg.tests.hosted import hosting
from plugins.workflow_pg.tests.payments import Payments, made
from plugins.workflow_pg.tests.snapshots import CONTEXT
from tests.integration.host import support

COMPLETED, COMPENSATED = WorkflowStatus.COMPLETED, WorkflowStatus.COMPENSATED


@pytest.fixture
async def url(url: str) -> str:
    """A schema with the plugin's own table in it."""
    await made(url)
    return url


def test_what_check_finds(url: str, tmp_path: Path) -> None:
    """Over a store that is no such database, in a process of its own, and where nothing could be awaited."""
    here, elsewhere = PostgresStore(url), SqliteStore(tmp_path / "bext.db")
    good = Payments().served()
    (plugin,) = good.plugins
    apart = support.registry(replace(plugin, isolation=Isolation.PROCESS))
    plain = support.registry(replace(plugin, run_step=replace(plugin.run_step, is_async=False)))

    assert list(transaction_findings(good, here)) == []
    assert list(transaction_findings(support.registry(support.plugin(print)), elsewhere)) == []
    for registry, store, words in (
        (good, elsewhere, "the store is no database that steps could write to"),
        (apart, here, "runs in processes of its own"),
        (plain, here, "is no `async def`"),
    ):
        (found,) = transaction_findings(registry, store)
        assert (found.code, found.where, found.severity) == ("not-transactional", "order@1", "error")
        assert words in found.message
        assert found.mend


async def test_a_host_refuses_what_check_finds(url: str) -> None:
    (plugin,) = Payments().served().plugins
    with pytest.raises(DefinitionError, match=r"order@1: transactional steps \(pay\): plugin 'shop' runs in processes"):
        async with hosting(url, support.registry(replace(plugin, isolation=Isolation.PROCESS))):
            pass


async def test_there_is_no_transaction_in_an_undo(url: str) -> None:
    told: list[str] = []

    async def compensate_step(run: WorkflowRun, step_name: str) -> None:
        assert not run.transactional
        with pytest.raises(DefinitionError, match="step 'pay' has no transaction here") as caught:
            run.transaction()
        told.append(str(caught.value))

    pays = Payments()
    steps = support.workflow(support.step("pay", transactional=True), "ship")

    async def run_step(run: WorkflowRun, step_name: str) -> object:
        return StepOutcome.Fail("no", compensate=True) if step_name == "ship" else await pays.run_step(run, step_name)

    served = support.registry(support.plugin(run_step, steps, compensate_step=compensate_step))
    async with hosting(url, served) as here:
        run = await here.ended(await here.start(key="one"))

    assert (run.status, len(told)) == (COMPENSATED, 1)


# The checkout


@pytest.mark.parametrize(
    ("order", "status", "totals"),
    [
        ({}, COMPLETED, {"reserved": 1, "charged": 1, "sent": 1, "undone": 0}),
        ({"sku": "flaky"}, COMPLETED, {"reserved": 1, "charged": 1, "sent": 1, "undone": 0}),
        ({"sku": "unknown"}, WorkflowStatus.FAILED, {"reserved": 0, "charged": 0, "sent": 0, "undone": 0}),
        ({"payment_method": "pm_declined"}, COMPENSATED, {"reserved": 0, "charged": 0, "sent": 0, "undone": 1}),
        ({"email": "bounce@example.com"}, COMPENSATED, {"reserved": 0, "charged": 0, "sent": 0, "undone": 2}),
    ],
)
async def test_the_checkout_acts_with_its_checkpoints(
    url: str, tmp_path: Path, order: JsonObject, status: WorkflowStatus, totals: dict[str, int]
) -> None:
    """Each effect is in the transaction of the checkpoint that follows it."""
    checkout = CheckoutPlugin()
    served = serving([load_given(checkout, HostInfo(data_dir=tmp_path, store=url), config={"dsn": url})])
    async with hosting(url, served) as here:
        await run_sql(url, "ALTER TABLE checkout_entries ADD COLUMN xact text DEFAULT pg_current_xact_id()::text")
        run = await here.ended(await here.start("checkout", key="one", **{**CONTEXT, **order}))
        books = await checkout.ledger.books()

    assert (run.status, books.totals(), books.faults()) == (status, totals, ())
    lone = "SELECT count(*) FROM checkout_entries WHERE undoes IS NULL AND xact NOT IN (SELECT xact FROM journal)"
    assert await ask(url, lone) == 0


@pytest.mark.parametrize(
    ("dsn", "store", "transactional"),
    [
        ("postgresql://app:a@db/x", "postgres://app:b@db:5432/x", True),
        ("postgresql://app@db/x?search_path=a", "postgresql://app@db/x?search_path=a&application_name=b", True),
        ("postgresql://app@db/x", "postgresql://app@db/y", False),
        ("postgresql://app@db/x", "postgresql://app@db/x?search_path=a", False),
        ("postgresql://app@db/x", "postgresql://app@other/x", False),
        ("postgresql://app@db:port/x", "postgresql://app@db/x", False),
        ("postgresql://app@db/x", "sqlite:bext.db", False),
    ],
)
def test_the_checkout_is_transactional_where_its_ledger_is_in_the_store(
    dsn: str, store: str, transactional: bool, tmp_path: Path
) -> None:
    checkout = CheckoutPlugin()
    checkout.configure({"dsn": dsn}, HostInfo(data_dir=tmp_path, store=store))
    (definition,) = checkout.definitions()
    assert {step.transactional for step in definition.steps} == {transactional}
